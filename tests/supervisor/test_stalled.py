"""Sessions whose events a full disk does not take: who ends or freezes them is not held up."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import trio
from trio.testing import MockClock

from s0d.journal import JournalError
from s0d.model.session import Phase
from s0d.supervisor.session import Session
from tests.support.fakes import FakeHost, MemoryJournal, make_session

LIFECYCLE = {"restart": {"policy": "always"}}
LONG = 100.0  # seconds of Trio's clock, in which all that may happen has happened


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@asynccontextmanager
async def running(host: FakeHost) -> AsyncIterator[tuple[Session, MemoryJournal, trio.Nursery]]:
    session, journal = make_session(host, lifecycle=LIFECYCLE)
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        yield session, journal, nursery
        nursery.cancel_scope.cancel()
    assert all(launch.closed for launch in host.launches)


async def stalled(session: Session, journal: MemoryJournal) -> None:
    """From here on nothing can be recorded, and the session has found out."""
    journal.refuse = JournalError("full")
    with trio.fail_after(LONG):
        await session.wait_for(lambda s: bool(s.view().journal_error))


async def stalled_start(session: Session, journal: MemoryJournal, host: FakeHost) -> None:
    host.now.exit(1)
    with trio.fail_after(LONG):
        await session.wait_for(lambda s: s.phase is Phase.BACKOFF)
    await stalled(session, journal)


async def stalled_output(session: Session, journal: MemoryJournal, host: FakeHost) -> None:
    host.now.outputs["stdout"].write(b"x")
    await stalled(session, journal)


async def test_one_that_cannot_start_is_deleted(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host) as (session, journal, _):
        await stalled_start(session, journal, host)
        with trio.fail_after(LONG):
            await session.delete()
        journal.refuse = None
        await trio.sleep(LONG)
        assert len(host.launches) == 1


async def test_one_that_cannot_start_does_not_start_while_frozen(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal, _):
        await stalled_start(session, journal, host)
        host.clock.stop()
        with trio.fail_after(LONG):
            await session.freeze()
        journal.refuse = None
        await trio.sleep(LONG)
        assert len(host.launches) == 1
        host.clock.start()
        await session.thaw()
        await trio.sleep(LONG)
        assert len(host.launches) == 2
        assert session.phase is Phase.RUNNING


@pytest.mark.parametrize("room", ["for both", "for the pause alone", "for neither"])
async def test_one_that_is_about_to_start_when_it_is_frozen_starts_when_it_is_thawed(
    room: str, host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal, _):
        await stalled_start(session, journal, host)
        host.clock.stop()
        if room != "for neither":
            journal.refuse = None
        with trio.fail_after(LONG):
            await session.freeze()
        if room == "for the pause alone":
            journal.refuse = JournalError("full")
        await trio.sleep(LONG)
        assert session.phase is (Phase.BACKOFF if room == "for neither" else Phase.PAUSED)
        host.clock.start()
        await session.thaw()
        await trio.sleep(LONG)
        assert len(host.launches) == (2 if room == "for both" else 1)
        journal.refuse = None
        await trio.sleep(LONG)
        assert (len(host.launches), session.phase) == (2, Phase.RUNNING)
        assert ("session.failed", "internal_error") not in journal.told()


@pytest.mark.parametrize("stall", [stalled_start, stalled_output])
async def test_its_runtime_goes_away_without_the_disk(
    stall: Callable[..., Awaitable[None]], host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal, nursery):
        await stall(session, journal, host)
        with trio.fail_after(LONG):
            await session.suspend()
            await session.wait_parted()
        assert host.now.closed
        journal.refuse = None
        await trio.sleep(LONG)
        assert len(host.launches) == 1
        before = len(journal.records)
        session.revive()
        nursery.start_soon(session.run)
        await trio.sleep(LONG)
        assert (len(host.launches), session.phase) == (2, Phase.RUNNING)
        started = [one for one in journal.told()[before:] if one[0].startswith("attempt.")]
        recovered = [("attempt.starting", "runtime_recovered"), ("attempt.started", "")]
        ended = [("attempt.exited", "runtime_replaced")] if stall is stalled_output else []
        assert started == [*ended, *recovered]


async def test_one_that_ends_by_itself_meanwhile_is_waited_for(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal, nursery):
        await stalled_output(session, journal, host)
        with trio.fail_after(LONG):
            await session.suspend()

            async def make_room() -> None:
                await trio.sleep(1)
                journal.refuse = None

            nursery.start_soon(make_room)
            await session.wait_parted()
        assert ("output", "") in journal.told()
        assert ("attempt.exited", "runtime_replaced") in journal.told()
        assert session.phase is Phase.SUSPENDED
