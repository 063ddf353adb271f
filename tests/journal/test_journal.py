"""The journal as its owner and its readers see it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio
import trio.testing

from s0d.journal import (
    GAP,
    CursorAhead,
    CursorExpired,
    Entry,
    Journal,
    JournalError,
    Limits,
    RealDisk,
    verify,
)
from s0d.journal.mark import BLOCK
from s0d.journal.recovery import JUMP
from tests.journal.disks import FailDisk
from tests.journal.tools import (
    LIMITS,
    SESSION,
    Clock,
    contents,
    control,
    create,
    output,
    read_all,
    reopen,
    seqs,
)


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


async def test_what_goes_in_comes_out(path: Path) -> None:
    journal = create(path)
    assert (journal.earliest, journal.latest) == (0, 0)
    entry = Entry(5, 2, "att-1", "output", {"data": b"\x00\xff", "stream": "pty"}, bulk=True)
    block = journal.append([control(7, time_ns=4), entry])
    assert (block.first, block.last, journal.earliest, journal.latest) == (1, 2, 1, 2)
    records = await contents(journal)
    assert records == block.records
    assert records[1] == (2, 5, 2, "att-1", "output", {"data": b"\x00\xff", "stream": "pty"})
    assert journal.last_time_ns == 5
    journal.close()


async def test_a_clean_end_goes_on_with_the_next_number(path: Path) -> None:
    journal = create(path)
    journal.append([control(n) for n in range(10)])
    before = await contents(journal)
    journal.close()
    assert verify(str(path)).clean
    journal = reopen(path)
    assert not journal.recovery.unclean
    assert journal.recovery.gap is None
    assert journal.append([control(10)]).first == 11
    assert (await contents(journal))[:10] == before
    journal.close()
    assert [s.sealed for s in verify(str(path)).segments] == [True]  # it went on in the same file


async def test_an_unclean_end_goes_on_beyond_the_block(path: Path) -> None:
    journal = create(path)
    journal.append([control(n) for n in range(10)])
    journal.close(clean=False)
    journal = reopen(path)
    gap = (await contents(journal))[-1]
    assert gap[0] == journal.latest == BLOCK + 1
    assert gap.type == GAP
    assert gap.fields == {"first": 11, "last": BLOCK + 1, "reason": "unclean_end"}
    assert journal.recovery.gap == (11, BLOCK + 1)
    assert journal.durable == journal.latest
    journal.close()


@pytest.mark.parametrize("close", [True, False])
async def test_an_empty_journal_opens_again(path: Path, close: bool) -> None:
    create(path).close(clean=close)
    journal = reopen(path)
    assert (journal.earliest, journal.latest) == ((0, 0) if close else (1, BLOCK + 1))
    journal.close()


async def test_without_a_mark_numbers_jump(path: Path) -> None:
    journal = create(path)
    journal.append([control()])
    journal.close()
    (path / "mark").unlink()
    journal = reopen(path)
    assert journal.recovery.mark_lost
    assert journal.latest == 1 + 1 + JUMP
    journal.close()
    assert not reopen(path).recovery.mark_lost


async def test_a_mark_whose_fellow_is_damaged_is_not_relied_on(path: Path) -> None:
    """The damaged slot may have been the newer one."""
    for place in (0, 4096):
        journal = create(path)
        journal.append([control()])
        journal.close()
        data = bytearray((path / "mark").read_bytes())
        data[place + 20] ^= 1
        (path / "mark").write_bytes(data)
        journal = reopen(path)
        assert journal.latest > JUMP
        journal.close()
        for file in path.iterdir():
            file.unlink()


async def test_create_refuses_a_used_directory(path: Path) -> None:
    create(path).close()
    with pytest.raises(JournalError) as caught:
        create(path)
    assert caught.value.errno == errno.EEXIST


async def test_cursors_check_their_place(path: Path) -> None:
    journal = create(path)
    with journal.cursor(0):
        pass
    with pytest.raises(CursorAhead):
        journal.cursor(1)
    journal.append([control() for _ in range(5)])
    with journal.cursor(3) as cursor:
        assert seqs(await read_all(cursor)) == [4, 5]
    with pytest.raises(CursorAhead) as caught:
        journal.cursor(6)
    assert caught.value.latest == 5
    journal.close()


async def test_size_retention_removes_whole_segments_from_the_old_end(path: Path) -> None:
    limits = Limits(256 * 1024)
    journal = create(path, limits=limits)
    for n in range(2000):
        journal.append([output(1000, n % 256)])
        files = sum(f.stat().st_size for f in path.glob("*.seg"))
        assert files == journal.retained_bytes <= limits.max_bytes
    assert journal.retained_bytes > limits.max_bytes * 0.8
    records = await contents(journal)
    assert seqs(records) == list(range(journal.earliest, 2001))
    with pytest.raises(CursorExpired) as caught:
        journal.cursor(journal.earliest - 2)
    assert (caught.value.earliest, caught.value.latest) == (journal.earliest, 2000)
    journal.close()
    assert sum(f.stat().st_size for f in path.glob("*.seg")) <= limits.max_bytes


async def test_a_batch_larger_than_what_is_retained(path: Path) -> None:
    journal = create(path, limits=Limits(256 * 1024))
    with journal.cursor(None) as cursor:
        block = journal.append([output(64 * 1024) for _ in range(4)])
        assert await cursor.read() is block  # readers get all of it
    assert journal.retained_bytes <= 256 * 1024
    assert seqs(await contents(journal)) == list(range(journal.earliest, 5))
    assert journal.earliest > 1
    journal.close()


async def test_a_record_that_cannot_be_kept_is_refused(path: Path) -> None:
    journal = create(path, limits=Limits(256 * 1024))
    with pytest.raises(ValueError, match="larger than half"):
        journal.append([output(200 * 1024)])
    with pytest.raises(ValueError, match="nothing"):
        journal.append([])
    with pytest.raises(TypeError):
        journal.append([control(), Entry(1, 1, None, "x", {"bad": object()})])
    with pytest.raises(ValueError, match="by the journal itself"):
        journal.append([Entry(1, 1, None, GAP, {})])
    assert journal.latest == 0
    assert journal.append([control()]).first == 1
    journal.close()


async def test_age_retention_acts_while_idle(path: Path) -> None:
    clock = Clock()
    journal = create(path, limits=Limits(1 << 20, 160), clock=clock)
    assert journal.retire(clock()) is None
    journal.append([control()])
    clock.now += 11  # more than a sixteenth: a new segment
    journal.append([control()])
    assert len(list(path.glob("*.seg"))) == 2
    assert journal.retire(clock()) == 1160.0
    clock.now = 1160.0
    assert journal.retire(clock()) == 1171.0
    assert (journal.earliest, journal.latest) == (2, 2)
    clock.now = 1171.0
    assert journal.retire(clock()) is None
    assert (journal.earliest, journal.latest) == (3, 2)
    assert journal.append([control()]).first == 3
    assert journal.earliest == 3
    journal.close()


async def test_nothing_retained_survives_a_clean_end(path: Path) -> None:
    clock = Clock()
    journal = create(path, limits=Limits(1 << 20, 10), clock=clock)
    journal.append([control(), control()])
    clock.now += 11
    journal.retire(clock())
    journal.close()
    for file in path.glob("*.seg"):
        file.unlink()
    journal = reopen(path)
    assert (journal.earliest, journal.latest, journal.recovery.gap) == (3, 2, None)
    journal.close()


async def test_ages_of_loaded_segments_are_never_negative(path: Path) -> None:
    clock = Clock()
    hour = 3_600_000_000_000
    journal = create(path, clock=clock)
    journal.append([control(time_ns=10 * hour)])
    journal.close()
    limits = Limits(1 << 20, 7200)
    for wall, due in ((9 * hour, 7200), (11 * hour, 3600), (13 * hour, None)):
        journal = reopen(path, limits=limits, clock=clock, wall_ns=lambda now=wall: now)
        expected = None if due is None else clock.now + due
        assert journal.retire(clock()) == expected
        journal.close()


async def test_set_limits_applies_at_once(path: Path) -> None:
    journal = create(path, limits=Limits(4 << 20))
    for _ in range(40):
        journal.append([output(64 * 1024)])
    journal.set_limits(Limits(512 * 1024))
    assert journal.retained_bytes <= 512 * 1024
    journal.set_limits(Limits(128 * 1024))
    assert journal.retained_bytes <= 128 * 1024
    assert journal.append([control()]).first == 41
    journal.close()


async def test_the_snapshot_is_made_durable_before_control_records_go(path: Path) -> None:
    journal = create(path, limits=Limits(256 * 1024))
    asked: list[int] = []

    def checkpoint() -> int:
        asked.append(journal.earliest)
        return journal.latest

    journal.checkpoint = checkpoint
    for n in range(1000):
        journal.append([control(n) if n == 20 else output(1000)])
    assert len(asked) == 1  # the other segments hold output only
    assert asked[0] <= 21
    assert journal.checkpointed >= 21
    journal.close()


async def test_what_no_snapshot_covers_stays(path: Path) -> None:
    journal = create(path, limits=Limits(256 * 1024))

    def checkpoint() -> int:
        raise OSError(errno.ENOSPC, "full")

    journal.checkpoint = checkpoint
    journal.append([control()])
    while journal.retained_bytes < 250 * 1024:
        journal.append([output(1000)])
    with pytest.raises(JournalError):
        journal.append([output(64 * 1024)])
    latest = journal.latest
    assert journal.earliest == 1
    journal.checkpoint = lambda: journal.latest
    assert journal.append([output(1000)]).first == latest + 1
    journal.close()


async def test_replay_skips_what_a_fold_does_not_need(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk, limits=Limits(1 << 20))
    for n in range(200):
        journal.append([control(n) if n in (5, 150) else output(3000)])
    disk.calls.clear()
    assert [r.seq for r in journal.replay(0)] == [6, 151]
    assert disk.count("open", ".seg") == 2
    assert [r.seq for r in journal.replay(6)] == [151]
    assert [r.seq for r in journal.replay(195, control_only=False)] == [196, 197, 198, 199, 200]
    journal.close()


async def test_opening_without_reserving_writes_nothing(path: Path) -> None:
    journal = create(path)
    journal.append([control()])
    journal.close()
    disk, before = FailDisk(), open_files()
    journal = reopen(path, disk, reserve=False)
    assert {call[0] for call in disk.calls} <= {"open_directory", "listdir", "open", "pread"}
    assert open_files() == before
    with pytest.raises(JournalError) as caught:
        journal.append([control()])
    assert caught.value.errno == errno.EAGAIN
    assert caught.value.retryable
    assert seqs(await contents(journal)) == [1]
    await journal.wait_writable()
    assert journal.append([control()]).first == 2
    journal.close()


async def test_an_exhausted_block_is_refused_until_the_next_is_durable(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    for _ in range(8):
        journal.append([control()] * (BLOCK // 8 - 1))
    journal.append([control()] * 7)
    with pytest.raises(JournalError) as caught:
        journal.append([control(), control()])
    assert caught.value.errno == errno.EAGAIN
    assert journal.append([control()]).last == BLOCK
    disk.fail("fdatasync", errno.EIO, name="mark")
    with pytest.raises(JournalError):
        await journal.wait_writable()
    await journal.wait_writable()
    assert journal.append([control()]).first == BLOCK + 1
    journal.close(clean=False)
    journal = reopen(path)
    assert journal.latest > BLOCK + 1
    journal.close()


async def test_relocation(path: Path) -> None:
    journal = create(path)
    journal.append([control()])
    path.rename(path.with_name("trash"))
    journal.relocate(str(path.with_name("trash")))
    journal.append([control()])
    assert seqs(await contents(journal)) == [1, 2]
    await journal.wait_durable()
    journal.close()
    assert verify(str(path.with_name("trash"))).clean


async def test_nothing_is_left_open(path: Path) -> None:
    before = open_files()
    journal = create(path, limits=Limits(256 * 1024))
    assert open_files() == before + 1
    for _ in range(20):
        journal.append([output(30_000)])
    await journal.wait_durable()
    assert open_files() == before + 1
    with journal.cursor(None) as cursor:
        assert await cursor.read(1000) is not None
        assert open_files() == before + 2
        while await cursor.read_available() is not None:
            pass
    journal.close()
    assert open_files() == before
    journal.close()


async def test_closing_in_a_thread_wakes_readers(
    path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    journal = create(path)
    got: list[object] = []

    async def reader() -> None:
        with journal.cursor(None) as cursor:
            got.append(await cursor.read())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(reader)
        await trio.testing.wait_all_tasks_blocked()
        await trio.to_thread.run_sync(journal.close)
    assert got == [None]
    with pytest.raises(JournalError):
        journal.append([control()])


def test_files_are_private(path: Path) -> None:
    old = os.umask(0)
    try:
        Journal.create(RealDisk(), str(path), SESSION, LIMITS).close()
    finally:
        os.umask(old)
    assert path.stat().st_mode & 0o777 == 0o700
    assert {f.stat().st_mode & 0o777 for f in path.iterdir()} == {0o600}
    (path / "mark").rename(path / "elsewhere")
    (path / "mark").symlink_to("elsewhere")
    with pytest.raises(JournalError) as caught:
        reopen(path)
    assert caught.value.errno == errno.ELOOP


def test_a_dormant_journal_that_gave_up_everything_has_lost_nothing(path: Path) -> None:
    clock = Clock()
    limits = Limits(1 << 20, 60)
    journal = create(path, limits=limits, clock=clock)
    journal.append([control(1), control(2)])
    journal.close()
    journal = reopen(path, limits=limits, clock=clock, reserve=False)
    clock.now += 61
    assert journal.retire(clock()) is None
    assert (journal.dormant, journal.earliest, journal.latest) == (True, 3, 2)
    journal.close(clean=False)
    journal = reopen(path, limits=limits, clock=clock)
    assert journal.recovery.gap is None
    assert journal.append([control(3)]).first == journal.earliest == 3
    journal.close()


async def test_the_footer_to_come_counts_for_what_is_retained(tmp_path: Path) -> None:
    """An append of more than is retained leaves it nearly full; closing seals the last segment."""
    limits = Limits(256 * 1024)
    sizes = [65_536, 60_000, 60_000, 65_000]
    journal = create(tmp_path / "measured", limits=Limits(1 << 20))
    journal.append([output(size) for size in sizes])
    room = limits.max_bytes - journal.retained_bytes
    journal.close()
    for spare in range(0, 120, 8):
        path = tmp_path / str(spare)
        journal = create(path, limits=limits)
        journal.append([output(65_536), *map(output, sizes[:3]), output(sizes[3] + room - spare)])
        journal.close()
        assert journal.retained_bytes <= limits.max_bytes
