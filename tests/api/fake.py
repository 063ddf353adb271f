"""A supervisor whose sessions do nothing by themselves: real journals, commands that are noted."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import trio

from s0d.journal import Cursor, CursorAhead, CursorExpired, Entry, Journal, Limits, RealDisk
from s0d.model.errors import (
    EventCursorExpired,
    InvalidRequest,
    SandboxNotFound,
    SessionConflict,
    SessionNotFound,
)
from s0d.model.parse import parse_spec
from s0d.model.session import Phase, SessionRecord
from s0d.model.spec import SessionSpec
from s0d.process.detect import Ownership
from s0d.supervisor.commands import Accepted
from s0d.wire.session import SessionView, view_session

LIMIT = 10.0  # seconds after which a test is taken to hang
SPEC = parse_spec({"command": ["true"]})


class FakeSession:
    """What the API needs of a session; `durable` says when acknowledged commands are on disk."""

    def __init__(self, directory: Path, number: int, spec: SessionSpec, max_bytes: int) -> None:
        self.id = f"ses-{number:012x}"
        self.record = SessionRecord(self.id, spec, created_at_ns=number, phase=Phase.RUNNING)
        self.journal = Journal.create(
            RealDisk(), str(directory / self.id), self.id, Limits(max_bytes, 0)
        )
        self.attachments = 0
        self._changed = trio.lowlevel.ParkingLot()
        self.removing = False
        self.commands: list[tuple[Any, ...]] = []
        self.refuse: Exception | None = None
        self.durable = trio.Event()
        self.durable.set()
        self.waited: list[int] = []

    def _count(self, change: int) -> None:
        self.attachments += change
        self._changed.unpark_all()

    async def until(self, condition: Callable[[FakeSession], bool]) -> None:
        """Wait for something about attachments or commands."""
        with trio.fail_after(LIMIT):
            while not condition(self):
                await self._changed.park()

    async def detached(self) -> None:
        await self.until(lambda session: session.attachments == 0)

    def append(self, type: str = "output", **fields: Any) -> int:
        """One event; output of `data` on stdout by default."""
        if type == "output":
            fields.setdefault("stream", "stdout")
        entry = Entry(10**18, 1, "att-1", type, fields, bulk=type == "output")
        return self.journal.append([entry]).last

    def view(self) -> SessionView:
        return view_session(
            self.record,
            root="/",
            generation=1,
            earliest=self.journal.earliest,
            latest=self.journal.latest,
            attachments=self.attachments,
        )

    def cursor(self, after: int | None = None) -> Cursor:
        try:
            return self.journal.cursor(after)
        except CursorExpired as error:
            raise EventCursorExpired(error.earliest, error.latest) from None
        except CursorAhead as error:
            raise InvalidRequest(f"after: beyond {error.latest}") from None

    @contextmanager
    def _attached(self, cursor: Cursor) -> Iterator[Cursor]:
        self._count(1)
        try:
            with cursor:
                yield cursor
        finally:
            self._count(-1)

    def attach(self, after: int | None = None) -> AbstractContextManager[Cursor]:
        return self._attached(self.cursor(after))

    def known_input(
        self, input_id: str, data: bytes, eof: bool, attempt_id: str | None
    ) -> Accepted | None:
        return None

    def accept_input(
        self, input_id: str, data: bytes, eof: bool, attempt_id: str | None
    ) -> Accepted:
        return self._note("input", input_id, data, eof, attempt_id)

    def accept_signal(self, signum: int, attempt_id: str | None) -> Accepted:
        return self._note("signal", signum, attempt_id)

    def accept_resize(self, rows: int, cols: int, attempt_id: str | None) -> Accepted:
        return self._note("resize", rows, cols, attempt_id)

    async def input(
        self, input_id: str, data: bytes, *, eof: bool = False, attempt_id: str | None = None
    ) -> Accepted:
        return await self._durable(self.accept_input(input_id, data, eof, attempt_id))

    async def signal(self, signum: int, *, attempt_id: str | None = None) -> Accepted:
        return await self._durable(self.accept_signal(signum, attempt_id))

    async def resize(self, rows: int, cols: int, *, attempt_id: str | None = None) -> Accepted:
        return await self._durable(self.accept_resize(rows, cols, attempt_id))

    async def _durable(self, accepted: Accepted) -> Accepted:
        await self.wait_durable(accepted.seq)
        return accepted

    def _note(self, *command: Any) -> Accepted:
        if self.refuse is not None:
            raise self.refuse
        self.commands.append(command)
        self._changed.unpark_all()
        return Accepted(self.append("noted", number=len(self.commands)), "att-1")

    async def wait_durable(self, seq: int) -> None:
        self.waited.append(seq)
        await self.durable.wait()

    async def stop(self) -> None:
        await self.durable.wait()
        if self.refuse is not None:
            raise self.refuse

    def end(self) -> None:
        """As a delete does."""
        self.removing = True
        self.journal.end()


class FakeExecs:
    def pids(self) -> list[int]:
        return []


class FakeSandbox:
    def __init__(self, id: str, directory: Path) -> None:
        self.id = id
        self.execs = FakeExecs()
        self._directory = directory / id
        self._directory.mkdir()
        self._sessions: dict[str, FakeSession] = {}
        self._numbers = itertools.count(1)
        self.keys: dict[str, FakeSession] = {}
        self.deleting = False

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[bool]:
        yield True

    def add(self, spec: SessionSpec = SPEC, *, max_bytes: int = 64 << 20) -> FakeSession:
        session = FakeSession(self._directory, next(self._numbers), spec, max_bytes)
        self._sessions[session.id] = session
        return session

    def session(self, id: str) -> FakeSession:
        if id not in self._sessions:
            raise SessionNotFound("no such session")
        return self._sessions[id]

    def sessions(self) -> list[FakeSession]:
        return list(self._sessions.values())

    async def create(
        self, spec: SessionSpec, *, idempotency_key: str | None = None
    ) -> tuple[FakeSession, bool]:
        await trio.lowlevel.checkpoint()
        if idempotency_key in self.keys:
            known = self.keys[idempotency_key]
            if known.record.spec != spec:
                raise SessionConflict("Idempotency-Key: already used")
            return known, False
        session = self.add(spec)
        if idempotency_key is not None:
            self.keys[idempotency_key] = session
        return session, True


class FakeSupervisor:
    """Two sandboxes, `local` (the default) and `other`."""

    def __init__(self, directory: Path) -> None:
        self.sandboxes = {id: FakeSandbox(id, directory) for id in ("local", "other")}
        self.stopping = trio.Event()
        self.ownership = Ownership("proc", None, (), ())

    @property
    def default(self) -> FakeSandbox:
        return self.sandboxes["local"]

    def sandbox(self, id: str) -> FakeSandbox:
        if id not in self.sandboxes:
            raise SandboxNotFound("no such sandbox")
        return self.sandboxes[id]

    def close(self) -> None:
        for sandbox in self.sandboxes.values():
            for session in sandbox.sessions():
                session.journal.close()


@contextmanager
def fake_supervisor(directory: Path) -> Iterator[FakeSupervisor]:
    supervisor = FakeSupervisor(directory)
    try:
        yield supervisor
    finally:
        supervisor.close()
