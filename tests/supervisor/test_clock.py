"""The wall clock is set back or forward by hours under a running session, and before a start.

What waits goes by Trio's clock; the wall clock is stamped on events and never read back for it.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from s0d.journal import Record
from s0d.model import lifecycle
from s0d.model.session import Phase
from s0d.supervisor.recorder import Recorder
from s0d.supervisor.session import Session
from s0d.wire.event import EventEncoder
from tests.support.fakes import FakeHost, FakeLaunch, MemoryJournal, make_session

NOW = 1_800_000_000.0  # seconds; 2027-01-15T08:00:00Z
HOURS = 6 * 3600.0
JUMPS = [-HOURS, HOURS, -NOW]  # the last: to 1970, as without a battery


class Wall:
    """Wall time: goes with Trio's clock until it is set."""

    def __init__(self) -> None:
        self.offset = 0.0

    def __call__(self) -> int:
        return round((NOW + trio.current_time() + self.offset) * 1e9)


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    wall = Wall()
    monkeypatch.setattr(time, "time_ns", wall)
    monkeypatch.setattr("s0d.supervisor.actor.Recorder", partial(Recorder, now_ns=wall))
    return wall


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@asynccontextmanager
async def running(host: FakeHost, **spec: Any) -> AsyncIterator[tuple[Session, MemoryJournal]]:
    session, journal = make_session(host, **spec)
    session.begin()
    async with in_task(session):
        yield session, journal


@asynccontextmanager
async def in_task(session: Session) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        yield
        nursery.cancel_scope.cancel()


async def phase(session: Session, wanted: Phase) -> None:
    with trio.fail_after(10_000):
        await session.wait_for(lambda s: s.phase is wanted)


def sets_clock(wall: Wall, jump: float) -> Callable[[FakeLaunch], None]:
    """Every process sets the clock and fails: back, forth, and back again."""

    def on_launch(launch: FakeLaunch) -> None:
        wall.offset = 0.0 if wall.offset else jump
        launch.exit(1)

    return on_launch


@pytest.mark.parametrize("jump", JUMPS)
async def test_restart_delays_and_their_window(
    host: FakeHost, wall: Wall, jump: float, autojump_clock: MockClock
) -> None:
    host.on_launch = sets_clock(wall, jump)
    restart = {"policy": "always", "max_restarts": 4, "window_seconds": 3600}
    async with running(host, lifecycle={"restart": restart}) as (session, journal):
        await phase(session, Phase.FAILED)
        gaps = [round(b - a, 3) for a, b in zip(host.times, host.times[1:], strict=False)]
        assert gaps == [0.25, 0.5, 1.0, 2.0]
        assert journal.told()[-1] == ("session.failed", "restart_limit_exceeded")
        assert [record.seq for record in journal.records] == list(range(1, journal.latest + 1))
        stamps = [record.time_ns for record in journal.records]
        assert sorted(stamps) != stamps, "the clock was set, and that is told"


@pytest.mark.parametrize("jump", JUMPS)
async def test_the_window_moves_on_with_time_that_passes(
    host: FakeHost, wall: Wall, jump: float, autojump_clock: MockClock
) -> None:
    restart = {"policy": "always", "max_restarts": 1, "window_seconds": 60}
    async with running(host, lifecycle={"restart": restart}) as (session, _):
        host.now.exit(1)
        await phase(session, Phase.BACKOFF)
        await phase(session, Phase.RUNNING)
        wall.offset = jump
        await trio.sleep(61)
        host.now.exit(1)
        await phase(session, Phase.BACKOFF)
        await phase(session, Phase.RUNNING)
        wall.offset = -jump / 2
        host.now.exit(1)
        await phase(session, Phase.FAILED)


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize(
    ("limit", "reason"),
    [("idle_timeout_seconds", "idle_timeout"), ("max_lifetime_seconds", "max_lifetime")],
)
async def test_idle_time_and_lifetime(
    host: FakeHost, wall: Wall, jump: float, limit: str, reason: str, autojump_clock: MockClock
) -> None:
    begin = trio.current_time()
    async with running(host, lifecycle={limit: 100}) as (session, journal):
        await trio.sleep(50)
        wall.offset = jump
        await trio.sleep(49)
        assert session.phase is Phase.RUNNING
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - begin == pytest.approx(100)
        assert ("session.expired", reason) in journal.told()


@pytest.mark.parametrize("jump", JUMPS)
async def test_idle_time_counts_from_activity_whenever_that_seems_to_be(
    host: FakeHost, wall: Wall, jump: float, autojump_clock: MockClock
) -> None:
    begin = trio.current_time()
    async with running(host, lifecycle={"idle_timeout_seconds": 100}) as (session, _):
        await trio.sleep(50)
        wall.offset = jump
        host.now.outputs["stdout"].write(b"x")
        await trio.sleep(1)
        wall.offset = 0
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - begin == pytest.approx(150)


@pytest.mark.parametrize("jump", JUMPS)
async def test_times_that_clients_see_are_the_wall_clocks(
    host: FakeHost, wall: Wall, jump: float, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        wall.offset = jump
        before = wall()
        host.now.outputs["stdout"].write(b"x")
        await trio.sleep(1)
        host.now.exit(0)
        await phase(session, Phase.EXITED)
        encoder = EventEncoder(session.id)
        events = [msgspec.json.decode(encoder.json(record)) for record in journal.records]
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        assert [event["occurred_at"][:4] for event in events[-2:]] == [
            "1970" if jump == -NOW else "2027"
        ] * 2
        output = next(record for record in journal.records if record.type == "output")
        assert output.time_ns == before
        attempt = session.record.attempt
        assert attempt is not None
        assert attempt.finished_at_ns == before + 10**9
        assert session.record.updated_at_ns == before + 10**9


@pytest.mark.parametrize("jump", JUMPS)
async def test_the_same_events_make_the_same_record_again(
    host: FakeHost, wall: Wall, jump: float, autojump_clock: MockClock
) -> None:
    host.on_launch = sets_clock(wall, jump)
    restart = {"policy": "always", "max_restarts": 3}
    async with running(host, lifecycle={"restart": restart}) as (session, journal):
        await phase(session, Phase.FAILED)
        again = fold(session.id, journal.records)
        assert again == session.record


def fold(session_id: str, records: list[Record]) -> Any:
    made = lifecycle.create(session_id, records[0])
    for record in records[1:]:
        lifecycle.apply(made, record)
    return made


@pytest.mark.parametrize(
    ("jump", "left"),
    [
        (0.0, 60.0),
        (-HOURS, 100.0),  # created in the future: as young as can be
        (-NOW, 100.0),
        (HOURS, 0.0),  # nothing else tells how long the daemon was away
    ],
)
async def test_the_lifetime_after_a_start_is_by_the_wall_clock_and_never_negative(
    host: FakeHost, wall: Wall, jump: float, left: float, autojump_clock: MockClock
) -> None:
    async with running(host, lifecycle={"max_lifetime_seconds": 100}) as (session, journal):
        await trio.sleep(40)
        record = fold(session.id, journal.records)
    wall.offset = jump
    host.generation += 1
    session = Session(record, journal, host)  # type: ignore[arg-type]
    session.recover()
    async with in_task(session):
        begin = trio.current_time()
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - begin == pytest.approx(left)
        assert ("session.expired", "max_lifetime") in journal.told()
