"""Group sync: one fdatasync for all who wait, none when nothing is dirty."""

from __future__ import annotations

import errno
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import trio
import trio.testing

from s0d.journal import Journal, JournalError, Syncer
from s0d.journal.mark import BLOCK
from tests.journal.disks import FailDisk
from tests.journal.tools import control, create, output


@pytest.fixture
async def syncer(nursery: trio.Nursery) -> Syncer:
    syncer = Syncer()
    await nursery.start(syncer.run)
    return syncer


@pytest.fixture
async def disk() -> FailDisk:
    return FailDisk()


@pytest.fixture
async def journal(tmp_path: Path, disk: FailDisk, syncer: Syncer) -> AsyncIterator[Journal]:
    journal = create(tmp_path / "journal", disk, syncer=syncer)
    disk.calls.clear()
    yield journal
    disk.points.clear()
    journal.close(clean=False)


def syncs(disk: FailDisk) -> int:
    return disk.count("fdatasync") + disk.count("fsync")


async def settled(journal: Journal) -> None:
    """Until no round runs (the mock clock does not know of threads)."""
    while journal._durability.syncing:
        await trio.lowlevel.checkpoint()


async def test_one_sync_serves_all_who_wait(journal: Journal, disk: FailDisk) -> None:
    async with trio.open_nursery() as nursery:
        for n in range(50):
            journal.append([control(n)])
            nursery.start_soon(journal.wait_durable, journal.latest)
    assert journal.durable == 50
    assert disk.count("fdatasync") == 1


async def test_who_comes_during_a_sync_is_served_by_the_next(
    journal: Journal, disk: FailDisk
) -> None:
    async with trio.open_nursery() as nursery:
        for n in range(20):
            journal.append([control(n)])
            nursery.start_soon(journal.wait_durable)
            await trio.lowlevel.checkpoint()
    assert journal.durable == 20
    assert 1 <= disk.count("fdatasync") < 20


async def test_output_is_durable_within_the_interval(
    journal: Journal, disk: FailDisk, autojump_clock: trio.testing.MockClock
) -> None:
    for _ in range(5):
        journal.append([output()])
    assert syncs(disk) == 0
    start = trio.current_time()
    await trio.sleep(0.049)
    assert syncs(disk) == 0
    await trio.sleep(0.002)
    while journal.durable < 5:
        await trio.lowlevel.checkpoint()
    assert trio.current_time() - start < 0.06
    assert disk.count("fdatasync") == 1


async def test_an_idle_journal_is_never_synced(
    journal: Journal, disk: FailDisk, autojump_clock: trio.testing.MockClock
) -> None:
    journal.append([output()])
    await journal.wait_durable()
    disk.calls.clear()
    await trio.sleep(3600)
    assert disk.calls == []
    statistics = trio.lowlevel.current_statistics()
    assert statistics.seconds_to_next_deadline == float("inf")


async def test_a_failed_sync_is_told_to_all_and_retried_slowly(
    journal: Journal, disk: FailDisk, autojump_clock: trio.testing.MockClock
) -> None:
    disk.fail("fdatasync", errno.EIO, times=None, name=".seg")
    journal.append([control()])
    failed: list[int] = []

    async def wait() -> None:
        with pytest.raises(JournalError) as caught:
            await journal.wait_durable(1)
        failed.append(caught.value.errno)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(wait)
    assert failed == [errno.EIO] * 10
    disk.fail("fsync", errno.EIO, times=None, name=".new")
    disk.calls.clear()
    for _ in range(50):
        await trio.sleep(0.11)
        await settled(journal)
    assert 4 <= disk.count("fsync", ".new") <= 6
    assert journal.sync_error is not None
    disk.points.clear()
    await trio.sleep(1.1)
    await settled(journal)
    assert journal.durable == 1
    assert journal.sync_error is None


async def test_the_next_block_is_reserved_in_the_background(
    journal: Journal, disk: FailDisk, autojump_clock: trio.testing.MockClock
) -> None:
    for _ in range(8):
        journal.append([control()] * (BLOCK // 10))
        await trio.sleep(0.2)
        await journal.wait_durable()
    assert disk.count("fdatasync", "mark") == 1
    for _ in range(8):
        journal.append([control()] * (BLOCK // 10))
        await trio.sleep(0.2)
        await journal.wait_durable()
    assert journal.latest > BLOCK


async def test_one_stuck_file_does_not_hold_up_the_others(
    tmp_path: Path, journal: Journal, disk: FailDisk, syncer: Syncer
) -> None:
    other = create(tmp_path / "other", syncer=syncer)
    release = trio.Event()
    real = disk.inner.fdatasync

    def stuck(fd: int) -> None:
        trio.from_thread.run(release.wait)
        real(fd)

    disk.inner.fdatasync = stuck  # type: ignore[method-assign]
    journal.append([control()])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(journal.wait_durable)
        await trio.testing.wait_all_tasks_blocked()
        other.append([control()])
        with trio.fail_after(5):
            await other.wait_durable()
        assert journal.durable == 0
        release.set()
    assert journal.durable == 1
    other.close(clean=False)


async def test_a_stopped_syncer_leaves_nobody_waiting(tmp_path: Path) -> None:
    syncer = Syncer()
    journal = create(tmp_path / "journal", syncer=syncer)
    journal.append([control()])
    async with trio.open_nursery() as nursery:
        await nursery.start(syncer.run)
        nursery.cancel_scope.cancel()
    for _ in range(2):
        with pytest.raises(JournalError), trio.fail_after(5):
            await journal.wait_durable()
    journal.close()


async def test_closing_finishes_the_round_that_runs(
    journal: Journal, disk: FailDisk, nursery: trio.Nursery
) -> None:
    release = trio.Event()
    real = disk.inner.fdatasync
    stuck = [True]

    def slow(fd: int) -> None:
        if stuck.pop() if stuck else False:
            trio.from_thread.run(release.wait)
        real(fd)

    disk.inner.fdatasync = slow  # type: ignore[method-assign]
    journal.append([control()])
    nursery.start_soon(journal.wait_durable)
    await trio.testing.wait_all_tasks_blocked()
    async with trio.open_nursery() as closing:
        closing.start_soon(trio.to_thread.run_sync, journal.close)
        await trio.testing.wait_all_tasks_blocked(0.01)
        release.set()
    assert journal.durable == 1


async def test_without_a_syncer_who_waits_does_the_work(tmp_path: Path) -> None:
    disk = FailDisk()
    journal = create(tmp_path / "journal", disk)
    disk.calls.clear()
    journal.append([control()])
    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(journal.wait_durable)
    assert disk.count("fdatasync") == 1
    with pytest.raises(ValueError, match="beyond"):
        await journal.wait_durable(2)
    journal.close()


@pytest.mark.parametrize("grouped", [True, False])
async def test_who_comes_after_the_end_is_told_at_once(
    tmp_path: Path, disk: FailDisk, syncer: Syncer, grouped: bool
) -> None:
    """A snapshot of a session that was deleted meanwhile must not wait for ever."""
    journal = create(tmp_path / "ended", disk, syncer=syncer if grouped else None)
    journal.append([control(1)])
    await journal.wait_durable()
    journal.append([control(2)])
    journal.close(clean=False)
    with trio.fail_after(5):
        await journal.wait_durable(1)
        with pytest.raises(JournalError, match="the journal is closed"):
            await journal.wait_durable(2)
    assert journal.durable == 1
