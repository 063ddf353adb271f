"""The same promises as an ordinary user: the tests of this layer once more, without root.

That user has a cgroup delegated, as a service with `User=` and `Delegate=yes` has, where this
machine allows to make one: then both ways of owning a tree are tested.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from s0d.process import detect

HERE = Path(__file__).parent
NOBODY = 65534
ESSENCE = (
    "nothing_survives or dead_daemon or first_instruction or limits or without_the_right"
    " or other_threads_fork or whatever_a_fork"
)

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else"),
    pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv(1)"),
]


@pytest.fixture
def delegated() -> Iterator[Path | None]:
    """A cgroup that belongs to nobody (cgroup-v2, "Delegation Containment")."""
    base = detect.detect().base
    if base is None:
        yield None
        return
    path = Path(base, f"s0d-user-{secrets.token_hex(4)}")
    path.mkdir()
    for name in (".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"):
        os.chown(path / name, NOBODY, NOBODY)
    yield path
    path.rmdir()


def run_as_nobody(chosen: str, home: Path, cgroup: Path | None) -> str:
    home.chmod(0o777)
    join = f"echo $$ > {cgroup}/cgroup.procs; " if cgroup else ""
    become = "setpriv --reuid 65534 --regid 65534 --clear-groups"
    pytest_ = f"{sys.executable} -m pytest -q -p no:cacheprovider --no-header"
    done = subprocess.run(
        ["/bin/sh", "-c", f"{join}exec {become} {pytest_} -k '{chosen}' {HERE}"],
        cwd=HERE.parent.parent,
        env={**os.environ, "HOME": str(home), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr
    return done.stdout


def test_as_nobody(public_dir: Path, delegated: Path | None) -> None:
    answer = run_as_nobody(ESSENCE, public_dir, delegated)
    assert " passed" in answer
    assert ("no cgroups here" in answer) == (delegated is None)


@pytest.mark.long
def test_everything_as_nobody(public_dir: Path, delegated: Path | None) -> None:
    assert " passed" in run_as_nobody("not hypothesis", public_dir, delegated)
