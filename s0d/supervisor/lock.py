"""The lock on a state directory: one supervisor at a time, and nothing of the last one left.

The lock is `flock(2)` on a descriptor that a new child holds too, until it execs or closes what is
not its own: for a moment the lock of a killed daemon may be held by nobody who is named in it.
Children that a dead daemon left waiting at its gate are ended here.  A POSIX lock would not be
inherited, but two supervisors of one process would both get it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from s0d.model.errors import StateDirectoryError
from s0d.process import proc
from s0d.process.gate import end_unborn

NAME: Final = "lock"
PATIENCE: Final = 10.0  # seconds for a dead daemon's children to let go
_PAUSE: Final = 0.005


@asynccontextmanager
async def locked(state_dir: str) -> AsyncIterator[None]:
    """Hold the state directory; refuse one that others could have written to, or that is held."""
    os.makedirs(state_dir, mode=0o700, exist_ok=True)
    found = os.stat(state_dir, follow_symlinks=False)
    if not stat.S_ISDIR(found.st_mode):
        raise StateDirectoryError(f"{state_dir}: not a directory")
    if found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StateDirectoryError(
            f"{state_dir}: must belong to this user and be closed to others (chmod 700)"
        )
    lock = os.open(
        os.path.join(state_dir, NAME), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
    )
    try:
        await _take(lock, state_dir)
        yield
    finally:
        os.close(lock)


async def _take(lock: int, state_dir: str) -> None:
    deadline = trio.current_time() + PATIENCE
    while not _try(lock):
        holder = _read(lock)
        if _lives(holder) or trio.current_time() > deadline:
            name = holder[0] if holder else "unknown"
            raise StateDirectoryError(f"{state_dir} is in use by process {name}")
        await trio.sleep(_PAUSE)  # nothing tells when a child has let go
    former = _read(lock)
    if former and not _lives(former):
        end_unborn(former[0])
    # Overwritten before it is cut: a line that is read at any moment begins with a whole one.
    line = b"%d %d\n" % (os.getpid(), proc.start_time(os.getpid()) or 0)
    os.pwrite(lock, line, 0)
    os.ftruncate(lock, len(line))


def _try(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno != errno.EWOULDBLOCK:
            raise
        return False
    return True


def _read(lock: int) -> tuple[int, int] | None:
    """Pid and start time of the last holder, as it wrote them."""
    words = os.pread(lock, 64, 0).split()
    if len(words) != 2 or not all(word.isdigit() for word in words):
        return None
    return int(words[0]), int(words[1])


def _lives(holder: tuple[int, int] | None) -> bool:
    """Is the process that the lock names there?  One of the same number is not it."""
    found = proc.read_stat(holder[0]) if holder else None
    # A zombie has let go, or is about to (its other threads are dying).
    return found is not None and found.state not in "ZX" and (found.pid, found.start_time) == holder
