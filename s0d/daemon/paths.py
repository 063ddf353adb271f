"""Where state and socket lie by default.

`S0D_STATE_DIR` and `S0D_RUNTIME_DIR` override the defaults for daemon and client alike, so that
both find each other without a flag.  Pure functions of an environment and a user id.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

SOCKET_NAME: Final = "s0d.sock"


def default_state_dir(environ: Mapping[str, str], uid: int) -> Path:
    """`/var/lib/s0d` for root, else `s0d` under the XDG state directory."""
    if given := environ.get("S0D_STATE_DIR"):
        return Path(given)
    if uid == 0:
        return Path("/var/lib/s0d")
    state = environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else _home(environ) / ".local/state"
    return base / "s0d"


def default_runtime_dir(environ: Mapping[str, str], uid: int) -> Path:
    """`/run/s0d` for root, else under the XDG runtime directory, else `/tmp/s0d-UID`.

    `/run/user/UID` counts also where `XDG_RUNTIME_DIR` is not set: a job of cron and a login shell
    should find the same daemon.
    """
    if given := environ.get("S0D_RUNTIME_DIR"):
        return Path(given)
    if uid == 0:
        return Path("/run/s0d")
    runtime = environ.get("XDG_RUNTIME_DIR", "")
    for candidate in (runtime, f"/run/user/{uid}"):
        if candidate.startswith("/") and _owned(candidate, uid):
            return Path(candidate) / "s0d"
    return Path(f"/tmp/s0d-{uid}")


def default_socket(environ: Mapping[str, str], uid: int) -> Path:
    return default_runtime_dir(environ, uid) / SOCKET_NAME


def _home(environ: Mapping[str, str]) -> Path:
    home = environ.get("HOME", "")
    return Path(home) if home.startswith("/") else Path.home()


def _owned(directory: str, uid: int) -> bool:
    try:
        return os.stat(directory).st_uid == uid
    except OSError:
        return False
