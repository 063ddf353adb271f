"""A terminal session without a process: a real journal, and events as a test wants them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from s0d.journal import Entry, Journal, Limits, RealDisk
from s0d.model import event as ev
from s0d.model.parse import parse_spec
from s0d.model.session import AttemptRecord, Phase, SessionRecord
from s0d.terminal import Screen

SPEC = parse_spec({"command": ["x"], "io": {"mode": "pty"}})
PIPES = parse_spec({"command": ["x"]})


class TerminalSession:
    """What a screen needs of a session; its first attempt has begun."""

    def __init__(self, directory: Path, max_bytes: int, spec: Any = SPEC) -> None:
        self.id = "ses-000000000001"
        self.record = SessionRecord(self.id, spec, phase=Phase.RUNNING)
        self.journal = Journal.create(
            RealDisk(), str(directory / self.id), self.id, Limits(max_bytes, 0)
        )
        self.removing = False

    def begin(self, number: int = 1, rows: int = 24, cols: int = 80) -> None:
        """A new attempt."""
        self.record.attempts = number
        self.record.attempt = AttemptRecord(f"att-{number}", number, 1, rows=rows, cols=cols)
        self.append(ev.ATTEMPT_STARTING, number=number, rows=rows, cols=cols)

    def write(self, *chunks: bytes, stream: str = "pty") -> int:
        """Output of the current attempt, one event a chunk."""
        attempt = self.record.attempt
        assert attempt is not None
        entries = [
            Entry(10**18, 1, attempt.id, ev.OUTPUT, {"stream": stream, "data": chunk}, bulk=True)
            for chunk in chunks
        ]
        return self.journal.append(entries).last

    def append(self, type: str, **fields: Any) -> int:
        attempt = self.record.attempt
        return self.journal.append(
            [Entry(10**18, 1, attempt.id if attempt else None, type, fields)]
        ).last

    def resize(self, rows: int, cols: int) -> int:
        assert self.record.attempt is not None
        self.record.attempt.rows, self.record.attempt.cols = rows, cols
        return self.append(ev.TERMINAL_RESIZED, rows=rows, cols=cols)


@contextmanager
def terminal_session(
    directory: Path, *, max_bytes: int = 64 << 20, begun: bool = True, spec: Any = SPEC
) -> Iterator[TerminalSession]:
    session = TerminalSession(directory, max_bytes, spec)
    if begun:
        session.begin()
    try:
        yield session
    finally:
        session.journal.close()


def screen_of(*data: bytes, rows: int = 24, cols: int = 80) -> Screen:
    """A screen that was fed all of it."""
    screen = Screen(rows, cols, 1000)
    for chunk in data:
        screen.feed(chunk)
    return screen
