"""The same promises as an ordinary user: the tests of this layer once more, without root."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MODULES = (
    "test_spawner",
    "test_gate",
    "test_process",
    "test_trees",
    "test_identity",
    "test_reaper",
)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv(1)")
def test_as_nobody(public_dir: Path) -> None:
    become = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
    pytest_ = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
    public_dir.chmod(0o777)
    done = subprocess.run(
        [*become, *pytest_, *[str(HERE / f"{name}.py") for name in MODULES]],
        cwd=HERE.parent.parent,
        env={**os.environ, "HOME": "/nonexistent", "TMPDIR": str(public_dir)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout
