"""Where state and socket lie by default."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from s0d.daemon.paths import default_runtime_dir, default_socket, default_state_dir

UID = 54321  # has no /run/user directory


@pytest.mark.parametrize(
    ("environ", "uid", "path"),
    [
        ({}, 0, "/var/lib/s0d"),
        ({"XDG_STATE_HOME": "/x"}, 0, "/var/lib/s0d"),
        ({"HOME": "/home/u"}, UID, "/home/u/.local/state/s0d"),
        ({"HOME": "/home/u", "XDG_STATE_HOME": "/x"}, UID, "/x/s0d"),
        ({"HOME": "/home/u", "XDG_STATE_HOME": "rel"}, UID, "/home/u/.local/state/s0d"),
        ({"S0D_STATE_DIR": "/s"}, 0, "/s"),
        ({"S0D_STATE_DIR": "/s", "XDG_STATE_HOME": "/x"}, UID, "/s"),
    ],
)
def test_state_dir(environ: dict[str, str], uid: int, path: str) -> None:
    assert default_state_dir(environ, uid) == Path(path)


def test_runtime_dir(tmp_path: Path) -> None:
    assert default_runtime_dir({}, 0) == Path("/run/s0d")
    assert default_runtime_dir({}, UID) == Path(f"/tmp/s0d-{UID}")
    assert default_runtime_dir({"S0D_RUNTIME_DIR": "/r"}, 0) == Path("/r")
    given = {"XDG_RUNTIME_DIR": str(tmp_path)}
    owner = os.stat(tmp_path).st_uid or UID
    os.chown(tmp_path, owner, -1) if os.geteuid() == 0 else None
    assert default_runtime_dir(given, owner) == tmp_path / "s0d"
    assert default_socket(given, owner) == tmp_path / "s0d" / "s0d.sock"


def test_somebody_elses_runtime_directory_is_not_ours(tmp_path: Path) -> None:
    given = {"XDG_RUNTIME_DIR": str(tmp_path)}  # as after su, with the environment kept
    assert default_runtime_dir(given, UID) == Path(f"/tmp/s0d-{UID}")
