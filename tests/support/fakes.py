"""A sandbox without processes and a journal without a disk: policy on Trio's mock clock.

No threads anywhere: a mock clock that jumps does not know of them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import trio

from s0d.journal import Block, Entry, Limits, Record
from s0d.model import lifecycle
from s0d.model.parse import parse_spec
from s0d.model.spec import SessionSpec
from s0d.process.errors import InputClosed, SpawnError
from s0d.process.pty import TerminalSize
from s0d.process.status import ExitStatus
from s0d.process.tree import EndReport, Usage
from s0d.supervisor.bounds import Bounds
from s0d.supervisor.clock import RuntimeClock
from s0d.supervisor.counts import Counts
from s0d.supervisor.launch import LaunchPlan
from s0d.supervisor.recorder import first_entry
from s0d.supervisor.session import Session
from s0d.supervisor.sleep import MachineSleep

Emit = Callable[[list[bytes]], Awaitable[None]]


class MemoryJournal:
    """The part of a journal that a session uses; every record is durable at once."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.limits: Limits | None = None
        self.checkpointed = 0
        self.ended = False
        self.refuse: Exception | None = None
        self.dormant = False

    @property
    def earliest(self) -> int:
        return 1 if self.records else 0

    @property
    def latest(self) -> int:
        return len(self.records)

    newest_segment = 1

    def segments_beyond(self, seq: int) -> list[int]:
        return [1] if seq < 1 else []

    def append(self, entries: Sequence[Entry]) -> Block:
        if self.refuse is not None:
            raise self.refuse
        first = self.latest + 1
        records = [Record(n, *entry[:5]) for n, entry in enumerate(entries, first)]
        self.records.extend(records)
        return Block(first, records, [1] * len(records))

    async def wait_durable(self, seq: int) -> None:
        assert seq <= self.latest
        await trio.lowlevel.checkpoint()

    def set_limits(self, limits: Limits) -> None:
        self.limits = limits

    def end(self) -> None:
        self.ended = True

    def told(self) -> list[tuple[str, str]]:
        """Every event as (type, reason)."""
        return [(r.type, r.fields.get("reason", "")) for r in self.records]


class FakeInput:
    """Takes everything, until it is closed."""

    pending = 0

    def __init__(self) -> None:
        self.taken: list[tuple[bytes, bool]] = []
        self.closed = False

    def check(self, size: int, eof: bool = False) -> None:
        if self.closed:
            raise InputClosed("standard input is closed")

    def put_nowait(self, data: bytes, eof: bool = False) -> None:
        self.taken.append((data, eof))
        self.closed |= eof

    async def run(self) -> None:
        await trio.sleep_forever()


class FakePump:
    """A stream that the test writes to."""

    def __init__(self) -> None:
        self._send, self._receive = trio.open_memory_channel[bytes](1000)
        self.emit: Emit | None = None

    def write(self, data: bytes) -> None:
        self._send.send_nowait(data)

    def close(self) -> None:
        self._send.close()

    async def run(self, emit: Emit) -> None:
        async for data in self._receive:
            await emit([data])


class FakeLaunch:
    """A process that does what the test says; it ends `stubborn` seconds after being asked to."""

    def __init__(self, plan: LaunchPlan, number: int, *, stubborn: float = 0.0) -> None:
        self.plan = plan
        self.pid = 1000 + number
        self.start_time = number
        self.outputs = {"stdout": FakePump(), "stderr": FakePump()}
        self.input = FakeInput()
        self.signals: list[int] = []
        self.sizes: list[TerminalSize] = []
        self.ended_with_grace: float | None = None
        self.first_signal: int | None = None
        self.closed = False
        self.frozen = False
        self.stubborn = stubborn
        self.unkillable = False
        self._gone = trio.Event()
        self._status: ExitStatus | None = None

    def exit(self, code: int = 0, signal: str | None = None) -> None:
        """End by itself."""
        if self._status is None:
            self._status = ExitStatus(code, signal, False)
            self._gone.set()
            self.finish()

    async def wait(self) -> ExitStatus:
        await self._gone.wait()
        assert self._status is not None
        return self._status

    async def drain(self) -> None:
        await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        for pump in self.outputs.values():
            pump.close()

    def signal(self, signum: int) -> None:
        self.signals.append(signum)

    def resize(self, size: TerminalSize) -> None:
        self.sizes.append(size)

    async def freeze(self) -> None:
        await trio.lowlevel.checkpoint()
        self.frozen = True

    async def thaw(self) -> None:
        await trio.lowlevel.checkpoint()
        self.frozen = False

    async def end(
        self, grace: float, signum: int | None = None, told: Callable[[], None] = lambda: None
    ) -> EndReport:
        self.ended_with_grace = grace
        if grace > 0:
            self.first_signal = signum
            told()
        if self._status is None:
            with trio.move_on_after(min(grace, self.stubborn)):
                await self._gone.wait()
            if self.unkillable:
                return EndReport((self.pid,), True)
            killed = self.stubborn > grace
            self.exit(137 if killed else 143, "SIGKILL" if killed else "SIGTERM")
        return EndReport()

    async def usage(self) -> Usage:
        return Usage(0.25, 0, 0)

    peak_bytes = None

    async def wait_empty(self) -> None:
        await self._gone.wait()

    def close(self) -> None:
        self.closed = True


class FakeHost:
    """The sandbox: remembers every launch and when it was (Trio's clock)."""

    counts = Counts()
    bounds = Bounds()

    def storage_grew(self) -> None:
        pass

    id = "local"
    generation = 1
    root = "/root"
    boot_id = "boot"

    def __init__(self) -> None:
        self.launches: list[FakeLaunch] = []
        self.times: list[float] = []
        self.error: SpawnError | None = None
        self.stubborn = 0.0
        self.clock = RuntimeClock()
        self.sleep = MachineSleep()
        self.on_launch: Callable[[FakeLaunch], None] = lambda launch: None

    def check(self, spec: SessionSpec) -> None:
        pass

    async def launch(self, plan: LaunchPlan) -> FakeLaunch:
        await trio.lowlevel.checkpoint()
        self.times.append(trio.current_time())
        if self.error is not None:
            raise self.error
        launch = FakeLaunch(plan, len(self.launches) + 1, stubborn=self.stubborn)
        self.launches.append(launch)
        self.on_launch(launch)
        return launch

    def touched(self, session_id: str) -> None:
        pass

    async def see_through(self, work: Callable[[], Awaitable[None]]) -> None:
        await work()

    async def remove(self, session_id: str) -> None:
        await trio.lowlevel.checkpoint()

    def aging(self, journal: object, max_age_seconds: int) -> None:
        pass

    def check_not_ending(self) -> None:
        pass

    def attendance(self) -> None:
        pass

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[bool]:
        yield True

    @property
    def now(self) -> FakeLaunch:
        """The newest launch."""
        return self.launches[-1]


def make_session(host: FakeHost, **spec: Any) -> tuple[Session, MemoryJournal]:
    """A session that was just created; its task is not started yet."""
    journal = MemoryJournal()
    given = parse_spec(msgspec.json.encode({"command": ["x"], **spec}))
    block = journal.append([first_entry(given, None, 1)])
    record = lifecycle.create("ses-00000000-0000", block.records[0])
    return Session(record, journal, host), journal  # type: ignore[arg-type]
