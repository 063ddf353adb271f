"""State directories with journals in them, as a daemon leaves them; no daemon is needed."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from s0d.journal import Entry, Journal, Limits, RealDisk
from s0d.process import proc

FIRST = "ses-00000000-0000-4000-8000-000000000001"
SECOND = "ses-00000000-0000-4000-8000-000000000002"


def entry(n: int, **fields: object) -> Entry:
    return Entry(n, 1, None, "session.updated", {"n": n, **fields})


def write(directory: Path, session_id: str, *, clean: bool = True) -> None:
    """A session's directory with a journal of three records."""
    directory.mkdir(parents=True, exist_ok=True)
    path = str(directory / "journal")
    journal = Journal.create(RealDisk(), path, session_id, Limits(1 << 20))
    data = {"stream": "stdout", "data": b"\0\xff"}
    journal.append([entry(1, spec="secret"), Entry(2, 1, "att-1", "output", data, True), entry(3)])
    journal.close(clean=clean)


def write_state(state: Path) -> Path:
    """A state directory of two sandboxes with a session each."""
    state.mkdir(mode=0o700)
    (state / "lock").write_text("")
    write(state / "sandboxes/local/sessions" / FIRST, FIRST)
    write(state / "sandboxes/other/sessions" / SECOND, SECOND)
    return state


def session(state: Path) -> Path:
    return state / "sandboxes/local/sessions" / FIRST


def newest(state: Path) -> Path:
    return session(state) / "journal/00000000000000000001.seg"


def flip(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


@contextmanager
def held(state: Path) -> Iterator[None]:
    """As a daemon holds it: here by this process."""
    with open(state / "lock", "r+b") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write(b"%d %d\n" % (os.getpid(), proc.start_time(os.getpid()) or 0))
        lock.flush()
        yield
