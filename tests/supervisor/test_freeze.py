"""A frozen session on a mock clock: what stands still, what goes on, what is recorded."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
import trio
from trio.testing import MockClock

from s0d.model.errors import StopIncomplete
from s0d.model.session import Phase
from s0d.supervisor.session import Session
from tests.support.fakes import FakeHost, MemoryJournal, make_session

IDLE = {"lifecycle": {"idle_timeout_seconds": 60}}
LONG = 10_000.0  # seconds


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@asynccontextmanager
async def running(host: FakeHost, **spec: Any) -> AsyncIterator[tuple[Session, MemoryJournal]]:
    session, journal = make_session(host, **spec)
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        yield session, journal
        await session.suspend()


async def freeze(host: FakeHost, session: Session) -> None:
    host.clock.stop()
    with trio.fail_after(1):
        await session.freeze()


async def thaw(host: FakeHost, session: Session) -> None:
    host.generation += 1
    host.clock.start()
    await session.thaw()


def told(journal: MemoryJournal, kind: str) -> list[dict[str, Any]]:
    return [record.fields for record in journal.records if record.type == kind]


async def test_it_is_paused_and_goes_on_as_it_was(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        await freeze(host, session)
        assert (session.phase, host.now.frozen) == (Phase.PAUSED, True)
        await trio.sleep(LONG)
        await thaw(host, session)
        assert (session.phase, host.now.frozen) == (Phase.RUNNING, False)
        assert len(host.launches) == 1
    assert told(journal, "session.paused")[0]["reason"] == "frozen"
    assert journal.records[-1].generation == 2
    assert session.record.attempt is not None
    assert session.record.attempt.generation == 1


async def test_idle_time_stands_still(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host, **IDLE) as (session, _):
        await trio.sleep(50)
        await freeze(host, session)
        await trio.sleep(LONG)
        await thaw(host, session)
        await trio.sleep(9)
        assert session.phase is Phase.RUNNING
        await trio.sleep(2)
        assert session.phase is Phase.STOPPED


async def test_a_lifetime_does_not(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host, lifecycle={"max_lifetime_seconds": 60}) as (session, _):
        await freeze(host, session)
        await trio.sleep(61)
        assert session.phase is Phase.STOPPED


@pytest.mark.parametrize(
    ("readiness", "ready"),
    [
        ({"type": "delay", "delay_ms": 10_000}, Phase.RUNNING),
        ({"type": "output", "output": "x", "timeout_ms": 10_000}, Phase.FAILED),
    ],
)
async def test_readiness_stands_still(
    host: FakeHost, autojump_clock: MockClock, readiness: dict[str, Any], ready: Phase
) -> None:
    async with running(host, readiness=readiness) as (session, _):
        await trio.sleep(5)
        await freeze(host, session)
        await trio.sleep(LONG)
        assert session.phase is Phase.PAUSED
        await thaw(host, session)
        await trio.sleep(4)
        assert session.phase is Phase.STARTING
        await trio.sleep(2)
        assert session.phase is ready


async def test_what_made_it_ready_before_counts_when_it_is_awake(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    readiness = {"type": "output", "output": "ready", "timeout_ms": 10_000}
    async with running(host, readiness=readiness) as (session, _):
        await freeze(host, session)
        host.now.outputs["stdout"].write(b"ready")  # written before, read only now
        await trio.testing.wait_all_tasks_blocked()
        assert session.phase is Phase.PAUSED
        await thaw(host, session)
        await trio.testing.wait_all_tasks_blocked()
        assert session.phase is Phase.RUNNING


async def test_backoff_stands_still(host: FakeHost, autojump_clock: MockClock) -> None:
    restart = {"policy": "always", "initial_backoff_ms": 10_000, "max_backoff_ms": 10_000}
    async with running(host, lifecycle={"restart": restart}) as (session, journal):
        host.now.exit(1)
        await trio.sleep(4)
        await freeze(host, session)
        assert session.phase is Phase.PAUSED
        assert session.record.next_restart_ns == 0
        await trio.sleep(LONG)
        await thaw(host, session)
        assert session.phase is Phase.BACKOFF
        assert told(journal, "session.resumed")[0]["delay_ms"] == pytest.approx(6000, abs=10)
        await trio.sleep(5)
        assert len(host.launches) == 1
        await trio.sleep(2)
        assert len(host.launches) == 2


async def test_an_end_during_the_freeze_is_followed_up_after_it(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    restart = {"policy": "always", "initial_backoff_ms": 1000}
    async with running(host, lifecycle={"restart": restart}) as (session, _):
        await freeze(host, session)
        host.now.exit(137, "SIGKILL")
        await trio.sleep(LONG)
        assert (session.phase, len(host.launches)) == (Phase.BACKOFF, 1)
        await thaw(host, session)
        await trio.sleep(2)
        assert len(host.launches) == 2


async def replace(session: Session) -> None:
    await session.create_attempt(replace_current=True)


async def change(session: Session) -> None:
    await session.update(msgspec.structs.replace(session.record.spec, env={"A": "b"}))


async def start_again(session: Session) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.stop)
        await session.wait_for(lambda s: s.phase is Phase.STOPPING)
        nursery.start_soon(session.start)


@pytest.mark.parametrize("ask", [replace, change, start_again])
async def test_a_start_behind_an_end_waits_for_the_thaw(
    ask: Callable[[Session], Awaitable[None]], host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 5
    async with running(host) as (session, journal):
        with trio.move_on_after(1):  # the client leaves
            await ask(session)
        await freeze(host, session)
        assert session.phase is Phase.STOPPING
        await trio.sleep(LONG)
        assert (session.phase, len(host.launches)) == (Phase.PENDING, 1)
        await thaw(host, session)
        with trio.fail_after(1):
            await session.wait_launched()
        assert (session.phase, len(host.launches)) == (Phase.RUNNING, 2)
        assert journal.records[-1].generation == 2
        assert session.record.attempt is not None
        assert session.record.attempt.generation == 2


@pytest.mark.parametrize("end", [Session.stop, Session.delete])
async def test_a_start_that_waits_for_the_thaw_can_be_taken_back(
    end: Callable[[Session], Awaitable[None]], host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 5
    async with running(host) as (session, _):
        with trio.move_on_after(1):
            await replace(session)
        await freeze(host, session)
        await trio.sleep(LONG)
        with trio.fail_after(1):
            await end(session)
        await thaw(host, session)
        await trio.sleep(LONG)
        assert len(host.launches) == 1


async def test_a_runtime_that_goes_away_takes_a_start_that_waits_along(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 5
    async with running(host) as (session, _):
        with trio.move_on_after(1):
            await replace(session)
        await freeze(host, session)
        await trio.sleep(LONG)
        with trio.fail_after(1):
            await session.suspend()
            await session.wait_parted()
        assert (session.phase, len(host.launches)) == (Phase.SUSPENDED, 1)


async def test_a_frozen_one_can_be_stopped(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host) as (session, _):
        await freeze(host, session)
        await session.stop()
        assert session.phase is Phase.STOPPED


async def test_one_in_backoff_too(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host, lifecycle={"restart": {"policy": "always"}}) as (session, _):
        host.now.exit(1)
        await session.wait_for(lambda s: s.phase is Phase.BACKOFF)
        await freeze(host, session)
        await session.stop()
        await thaw(host, session)
        assert session.phase is Phase.STOPPED


async def test_a_lost_runtime_suspends_what_waited(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    session, journal = make_session(host, lifecycle={"restart": {"policy": "always"}})
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        host.now.exit(1)
        await session.wait_for(lambda s: s.phase is Phase.BACKOFF)
        await session.suspend()
        await session.wait_parted()
        assert session.phase is Phase.SUSPENDED
        session.revive()
        nursery.start_soon(session.run)
        await session.wait_for(lambda s: s.phase is Phase.RUNNING)
        assert told(journal, "attempt.starting")[-1]["reason"] == "runtime_recovered"
        await session.suspend()


async def test_a_process_that_survives_holds_up_no_pause_and_gets_a_successor(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    session, _ = make_session(host)
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        host.now.unkillable = True
        with pytest.raises(StopIncomplete):
            await session.suspend()
        await session.wait_parted()
        assert not session.revive(), "its task goes on"
        host.now.exit(137, "SIGKILL")
        await session.wait_for(lambda s: len(host.launches) == 2 and s.phase is Phase.RUNNING)
        await session.suspend()
