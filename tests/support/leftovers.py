"""Finding processes that a test should not have left behind."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path


def processes_with(marker: str) -> list[int]:
    """The pids, zombies excepted, in whose environment `marker` occurs (as `NAME=VALUE`)."""
    wanted = os.fsencode(marker)
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                environ = (entry / "environ").read_bytes()
            except OSError:
                continue  # gone meanwhile, or not ours
            if wanted in environ.split(b"\0"):
                found.append(int(entry.name))
    return found


def daemons_in(directory: Path) -> list[int]:
    """The daemons that were started with `directory/tmp` for temporary files."""
    return [
        pid
        for pid in processes_with(f"TMPDIR={directory / 'tmp'}")
        if b"\0serve\0" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]


def has_any(pid: int, markers: set[str]) -> bool:
    """Does one of `markers` (as `NAME=VALUE`) stand in the environment of `pid`?"""
    try:
        environ = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False  # gone meanwhile, or not ours
    return not {os.fsencode(m) for m in markers}.isdisjoint(environ.split(b"\0"))


def wait_gone(pid: int, timeout: float = 10.0) -> None:
    """Wait until the process `pid`, which need not be our child, has ended."""
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if not select.select([fd], [], [], timeout)[0]:
            raise TimeoutError(f"process {pid} still lives after {timeout} s")
    finally:
        os.close(fd)


def wait_for_text(path: Path, text: str, timeout: float = 10.0) -> str:
    """Wait until the file at `path` holds `text`; returns what it holds.

    A file gives nothing to wait on but its content, so this looks every 10 ms.
    """
    deadline = time.monotonic() + timeout
    while True:
        content = path.read_text() if path.exists() else ""
        if text in content:
            return content
        if time.monotonic() > deadline:
            raise TimeoutError(
                f"{path} has no {text!r} after {timeout} s; it has: {content[-2000:]}"
            )
        time.sleep(0.01)
