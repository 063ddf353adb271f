"""A fault at each operation: nothing acknowledged is lost, memory never runs ahead of disk."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
from pathlib import Path

import pytest

from s0d.journal import (
    GAP,
    Entry,
    Journal,
    JournalError,
    Limits,
    RealDisk,
    make_directory,
    write_atomically,
)
from s0d.journal.disk import opened, opened_directory
from s0d.journal.rounds import SUSPECT_SUFFIX
from tests.journal.disks import FailDisk, SimDisk, Stopped, Trap
from tests.journal.tools import SESSION, Clock, contents, control, create, output, reopen, seqs

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.EMFILE)
SMALL = Limits(256 * 1024)
PATH = "/journal"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("short", [None, 1, 7, 50, 120, 260])
async def test_a_failed_append_changes_nothing(path: Path, error: int, short: int | None) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    journal.append([control(1)])
    size, before = journal.retained_bytes, await contents(journal)
    if short is not None:
        disk.fail("writev", name=".seg", short=short)
    disk.fail("writev", error, name=".seg")
    with pytest.raises(JournalError) as caught:
        journal.append([output(100), output(100), output(100)])
    assert caught.value.errno == error
    assert caught.value.retryable
    assert (journal.latest, journal.retained_bytes) == (1, size)
    assert next(path.glob("*.seg")).stat().st_size == size
    assert await contents(journal) == before
    assert journal.append([output(5)]).first == 2
    assert seqs(await contents(journal)) == [1, 2]
    journal.close()


async def test_a_short_write_is_continued(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    for short in range(1, 150, 7):
        disk.fail("writev", name=".seg", short=short)
        journal.append([output(100)])
    assert seqs(await contents(journal)) == list(range(1, 23))
    journal.close()


async def test_a_segment_that_cannot_be_cut_back_is_left(path: Path) -> None:
    """Whole frames of the failed append stay in the file; their numbers are given out again."""
    disk = FailDisk()
    journal = create(path, disk)
    journal.append([control(1)])
    disk.fail("writev", name=".seg", short=300)
    disk.fail("writev", errno.EIO, name=".seg")
    disk.fail("ftruncate", errno.EIO, name=".seg")
    with pytest.raises(JournalError):
        journal.append([output(100, 1), output(100, 2), output(100, 3)])
    records = journal.append([output(50, 9)]).records
    assert records[0].seq == 2
    assert len(list(path.glob("*.seg"))) == 2
    assert (await contents(journal))[1:] == records
    journal.close(clean=False)
    journal = reopen(path)
    again = await contents(journal)
    assert again[1] == records[0]
    assert [r.type for r in again] == ["session.updated", "output", GAP]
    assert journal.recovery.damage == []
    journal.close()


async def test_new_segments_of_a_failed_batch_are_removed(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk, limits=SMALL)
    journal.append([control(1)])
    for failed in range(1, 5):
        disk.fail("writev", errno.EIO, name=".seg", skip=failed)
        with pytest.raises(JournalError):
            journal.append([output(12_000)] * 4)
        assert len(list(path.glob("*.seg"))) == 1
        assert journal.latest == 1
    assert journal.append([output(12_000)] * 4).last == 5
    journal.close()


async def test_nothing_is_written_beside_remains(path: Path) -> None:
    """A segment of a failed batch that cannot be removed would be taken for the journal's."""
    disk = FailDisk()
    journal = create(path, disk, limits=SMALL)
    disk.fail("writev", errno.EIO, name=".seg", skip=3)
    point = disk.fail("unlink", errno.EIO, name=".seg", times=None)
    with pytest.raises(JournalError):
        journal.append([output(12_000, 1)] * 4)
    with pytest.raises(JournalError):
        journal.append([control()])
    disk.points.remove(point)
    journal.append([output(100, 7)])
    assert [r.fields["data"][0] for r in await contents(journal)] == [7]
    assert len(list(path.glob("*.seg"))) == 1
    journal.close()


@pytest.mark.parametrize("also", [(), ("ftruncate",), ("ftruncate", "unlink")])
@pytest.mark.parametrize("end", ["crash", "power_cut"])
async def test_a_failed_append_never_comes_to_light(end: str, also: tuple[str, ...]) -> None:
    """Whole frames of it are left in files, and its numbers may have been given out again."""
    for seed, batch in itertools.product(range(25), [[17_000], [20, 20, 17_000], [17_000, 20]]):
        sim = SimDisk(seed)
        disk = FailDisk(sim)
        journal = create(PATH, disk, limits=SMALL)
        journal.append([control(1), control(2)])
        await journal.wait_durable()
        disk.fail("writev", name=".seg", short=17_000, skip=len(batch) - 1)
        disk.fail("writev", errno.EIO, name=".seg", skip=len(batch) - 1)
        for operation in also:
            disk.fail(operation, errno.EIO, name=".seg", times=None)
        with pytest.raises(JournalError):
            journal.append([output(size, 8) for size in batch])
        disk.points.clear()
        written = journal.append([output(3_000, 9), control(3)]).records
        if end == "crash":
            sim.crash()
        else:
            sim.power_cut()
        journal = reopen(PATH, FailDisk(sim), limits=SMALL)
        found = [r for r in await contents(journal) if r.type != GAP]
        assert seqs(found)[:2] == [1, 2]
        assert all(record in written for record in found[2:])
        assert len(found) == 4 or end == "power_cut"
        journal.close()


async def test_what_was_taken_back_is_not_mixed_with_what_takes_its_place() -> None:
    """Frames of one size: some of the old ones, which had reached the disk, some of the new."""
    for seed in range(400):
        sim = SimDisk(seed)
        disk = FailDisk(sim)
        journal = create(PATH, disk, limits=SMALL)
        journal.append([control(1), control(2)])
        await journal.wait_durable()
        disk.fail("writev", name=".seg", short=1_750)
        disk.fail("writev", errno.EIO, name=".seg")
        disk.before = sim.write_back
        with pytest.raises(JournalError):
            journal.append([output(700, 8)] * 4)
        disk.points.clear()
        disk.before = None
        written = [journal.append([output(700, 9)]).records[0] for _ in range(6)]
        sim.power_cut()
        journal = reopen(PATH, FailDisk(sim), limits=SMALL)
        found = [r for r in await contents(journal) if r.type != GAP]
        assert all(record in written for record in found[2:])
        journal.close()


async def test_a_segment_is_gone_on_with_once_what_was_taken_back_is_settled(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    journal.append([control(1)])
    disk.fail("writev", name=".seg", short=150)
    disk.fail("writev", errno.EIO, name=".seg")
    with pytest.raises(JournalError):
        journal.append([output(100), output(100)])
    await journal.wait_durable()
    assert not journal.store.segments[0].unsettled
    journal.append([output(100)])
    assert len(list(path.glob("*.seg"))) == 1
    journal.close()


async def test_where_nothing_was_written_nothing_is_taken_back() -> None:
    """On a full disk the room that is kept for control records stays theirs."""
    disk = FailDisk(SimDisk())
    journal = create(PATH, disk)
    journal.append([control(1)])
    disk.fail("writev", errno.ENOSPC, name=".seg")
    with pytest.raises(JournalError):
        journal.append([output(100), output(100)])
    assert disk.count("ftruncate", ".seg") == 0
    assert journal.append([control(2)]).first == 2
    assert len(journal.store.segments) == 1
    journal.close()


@pytest.mark.parametrize("seed", range(20))
async def test_a_removed_segment_that_comes_back_costs_nothing(seed: int) -> None:
    """After a power cut: it bears a number that has been acknowledged in the one before it."""
    sim = SimDisk(seed)
    disk = FailDisk(sim)
    journal = create(PATH, disk, limits=SMALL)
    journal.append([control(1)])
    await journal.wait_durable()
    disk.fail("writev", errno.EIO, name=".seg", skip=2)
    with pytest.raises(JournalError):
        journal.append([output(12_000)] * 4)
    journal.append([control(n) for n in range(8)])
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    assert seqs(await contents(journal))[:9] == list(range(1, 10))
    journal.close()


@pytest.mark.parametrize("seed", range(20))
async def test_what_recovery_removes_stays_away(seed: int) -> None:
    sim = SimDisk(seed)
    journal = create(PATH, FailDisk(sim), limits=SMALL)
    journal.append([control(1)])
    await journal.wait_durable()
    sim.crash()
    sim.put(PATH, {**sim.files(PATH), "00000000000000000002.seg": b"s0djrnl"})
    sim.power_cut()
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    block = journal.append([control(2)])
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    assert block.records[0] in await contents(journal)
    journal.close()


async def test_no_segment_is_begun_under_a_name_that_is_to_be_removed() -> None:
    sim = SimDisk()
    disk, clock = FailDisk(sim), Clock()
    journal = create(PATH, disk, limits=Limits(256 * 1024, 100), clock=clock)
    journal.append([control(1)])
    disk.fail("writev", errno.EIO, name=".seg", skip=1)
    point = disk.fail("unlink", errno.EIO, name=".seg", times=None)
    with pytest.raises(JournalError):
        journal.append([output(20_000), output(20_000)])
    clock.now += 101
    with pytest.raises(JournalError):
        journal.retire(clock())
    disk.points.remove(point)
    journal.retire(clock())
    assert journal.append([control(2)]).first == 2
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    assert [r.fields.get("n") for r in await contents(journal)] == [2, None]
    journal.close()


async def test_what_could_not_be_removed_is_removed_at_the_next_look() -> None:
    disk = FailDisk(SimDisk())
    journal = create(PATH, disk, limits=SMALL)
    point = disk.fail("unlink", errno.EIO, name=".seg", times=None)
    journal.append([output(60_000)] * 5)
    assert journal.retained_bytes > SMALL.max_bytes
    disk.points.remove(point)
    journal.retire(0.0)
    assert journal.retained_bytes <= SMALL.max_bytes
    assert seqs(await contents(journal))[-1] == 5
    journal.close()


@pytest.mark.parametrize("place", [200, 600, 1_100])
@pytest.mark.parametrize("clean", [True, False])
async def test_nothing_is_written_behind_a_damaged_place(place: int, clean: bool) -> None:
    """A footer may reach the disk before what it speaks of; without one (after a crash) nothing
    would lead past the damage, and what was acknowledged behind it would be lost."""
    sim = SimDisk()
    journal = create(PATH, FailDisk(sim), limits=SMALL)
    journal.append([control(n) for n in range(30)])
    journal.close()
    if not clean:
        reopen(PATH, FailDisk(sim), limits=SMALL).store.seal()
        sim.crash()
    files = sim.files(PATH)
    name = min(name for name in files if name.endswith(".seg"))
    files[name] = files[name][:place] + bytes(40) + files[name][place + 40 :]
    sim.put(PATH, files)
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    block = journal.append([control(77)])
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, FailDisk(sim), limits=SMALL)
    assert block.records[0] in await contents(journal)
    journal.close()


async def test_control_records_have_room_on_a_full_disk(path: Path) -> None:
    disk = SimDisk(capacity=120_000)
    journal = create(path, disk, limits=Limits(4 << 20))
    caught: JournalError | None = None
    for _ in range(10):
        try:
            journal.append([control(), output(10_000)])
        except JournalError as error:
            caught = error
    assert caught is not None
    assert caught.errno == errno.ENOSPC
    earliest = journal.earliest
    for n in range(100):
        journal.append([control(n)])
    assert journal.earliest == earliest  # nothing was given up for them
    await journal.wait_durable()
    journal.close(clean=False)


async def test_a_full_disk_costs_the_own_oldest_history_first() -> None:
    disk = SimDisk(capacity=1_000_000)
    journal = create("/journal", disk, limits=Limits(1 << 22))
    for _ in range(20):
        journal.append([output(100_000)])
    assert journal.earliest > 1
    assert seqs(await contents(journal)) == list(range(journal.earliest, 21))
    assert disk.used() <= 1_000_000
    journal.close()


async def test_space_coming_back_heals(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    disk.fail("writev", errno.ENOSPC, times=5)
    done = 0
    for _ in range(20):
        try:
            journal.append([output(1000, done)])
            done += 1
        except JournalError:
            continue
    assert done == 15
    assert [r.fields["data"][0] for r in await contents(journal)] == list(range(15))
    journal.close()


async def test_a_segment_without_footer_is_read_all_the_same(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk, limits=SMALL)
    journal.append([output(12_000)])
    disk.fail("writev", errno.ENOSPC, name="1.seg")
    journal.append([output(12_000)])
    assert journal.latest == 2
    journal.close()
    journal = reopen(path, limits=SMALL)
    assert journal.recovery.damage == []
    assert seqs(await contents(journal)) == [1, 2]
    journal.close()


async def test_a_vanished_directory(path: Path) -> None:
    journal = create(path, limits=SMALL)
    journal.append([output(12_000)])
    path.rename(path.with_name("gone"))
    with pytest.raises(JournalError) as caught:
        journal.append([output(12_000)])
    assert caught.value.errno == errno.ENOENT
    path.with_name("gone").rename(path)
    assert journal.append([output(12_000)]).first == 2
    journal.close()


# A failed sync.


async def test_a_failed_sync_is_told_and_then_repaired(path: Path) -> None:
    disk = SimDisk()
    journal = create(path, disk)
    journal.append([control(1)])
    disk.fail_syncs = 1
    with pytest.raises(JournalError) as caught:
        await journal.wait_durable()
    assert caught.value.errno == errno.EIO
    assert journal.durable == 0
    journal.append([control(2)])  # into another file
    await journal.wait_durable()  # the first one is written anew
    assert journal.sync_error is None
    disk.power_cut()
    journal = reopen(path, disk)
    assert [r.type for r in await contents(journal)] == ["session.updated"] * 2 + [GAP]
    journal.close()


async def test_a_failed_sync_is_known_to_the_next_process() -> None:
    """To that one the kernel reports success: the pages count as clean."""
    sim = SimDisk()
    journal = create(PATH, sim)
    journal.append([control(1), output(5_000)])  # the next record lies in another sector
    sim.fail_syncs = 1
    with pytest.raises(JournalError):
        await journal.wait_durable()
    sim.crash()
    journal = reopen(PATH, sim)
    assert journal.recovery.damage == []
    sim.power_cut()
    journal = reopen(PATH, sim)
    assert seqs(r for r in await contents(journal) if r.type != GAP) == [1, 2]
    journal.close()
    assert not [name for name in sim.files(PATH) if name.endswith(SUSPECT_SUFFIX)]


async def test_a_sync_that_keeps_failing_never_acknowledges(path: Path) -> None:
    disk = SimDisk()
    journal = create(path, disk)
    for n in range(5):
        journal.append([control(n)])
        disk.fail_syncs = 100
        with pytest.raises(JournalError):
            await journal.wait_durable()
        assert journal.durable == 0
    disk.fail_syncs = 0
    await journal.wait_durable()
    disk.power_cut()
    assert seqs(await contents(reopen(path, disk)))[:-1] == [1, 2, 3, 4, 5]


async def test_a_directory_that_cannot_be_synced(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk, limits=SMALL)
    journal.append([output(12_000)])
    await journal.wait_durable()
    journal.append([output(12_000)])
    disk.fail("fsync", errno.EIO, name=str(path))
    with pytest.raises(JournalError):
        await journal.wait_durable()
    await journal.wait_durable()
    assert journal.durable == 2
    journal.close()


async def test_closing_on_a_failing_disk_is_not_clean(path: Path) -> None:
    disk = FailDisk()
    journal = create(path, disk)
    journal.append([control()])
    disk.fail("fdatasync", errno.EIO)
    with pytest.raises(JournalError):
        journal.close()
    assert reopen(path).recovery.unclean


# A fault, or the end of the process, at every single operation.


def story(journal: Journal) -> dict[int, bytes]:
    """What a session does in its life; returns what was published."""
    said: dict[int, bytes] = {}
    for n in range(18):
        size = (100, 9_000, 40_000)[n % 3]
        try:
            block = journal.append([output(size, n), output(10, n)])
        except JournalError:
            continue
        said.update({r.seq: r.fields["data"] for r in block.records})
    return said


async def check(path: str, disk: SimDisk, said: dict[int, bytes]) -> None:
    """After a crash all that was published and is retained is there, unchanged."""
    journal = reopen(path, disk, limits=SMALL)
    records = await contents(journal)
    data = {r.seq: r.fields["data"] for r in records if r.type == "output"}
    for seq, expected in said.items():
        if seq >= journal.earliest:
            assert data[seq] == expected
    assert journal.append([control()]).first > max(said, default=0)
    assert journal.recovery.damage == []
    journal.close()
    assert disk.descriptors == 0


@pytest.mark.parametrize("after", [False, True])
async def test_the_process_ends_at_each_operation(after: bool) -> None:
    for place in itertools.count():
        disk = FailDisk(sim := SimDisk(place))
        said: dict[int, bytes] = {}
        disk.trap = Trap(place, after=after)
        try:
            live(PATH, disk, said)
        except Stopped:
            sim.crash()
            if "mark" in sim.files(PATH):
                await check(PATH, sim, said)
        else:
            assert place > 100
            return


def live(path: str, disk: FailDisk, said: dict[int, bytes]) -> None:
    clock = Clock()
    journal = create(path, disk, limits=SMALL, clock=clock)

    def append(*entries: Entry) -> None:
        block = journal.append(entries)
        said.update({r.seq: r.fields["data"] for r in block.records})

    for n in range(18):
        size = (100, 9_000, 40_000)[n % 3]
        append(output(size, n), output(10, n))
    append(*[output(40_000, n) for n in range(9)])  # more than is retained: all else goes for it
    journal.set_limits(Limits(SMALL.max_bytes, 60))
    clock.now += 61
    assert journal.retire(clock()) is None  # all goes
    append(output(10, 1))
    journal.close()


@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC])
@pytest.mark.parametrize("operation", ["open", "writev", "unlink", "ftruncate", "fallocate"])
async def test_an_error_at_each_mutation(operation: str, error: int) -> None:
    for place in itertools.count():
        disk = FailDisk(sim := SimDisk(place))
        journal = create(PATH, disk, limits=SMALL)
        point = disk.fail(operation, error, skip=place)
        said = story(journal)
        journal.close(clean=False)
        sim.crash()
        await check(PATH, sim, said)
        if point.hits == 0:
            assert place
            return


def test_write_atomically_is_old_or_new_whatever_happens() -> None:
    for seed in range(200):
        disk = FailDisk(sim := SimDisk(seed))
        make_directory(disk, "/state/s")
        write_atomically(disk, "/state/s", "session.json", b"old" * 300)
        disk.trap = Trap(seed % 9, after=seed % 2 == 0)
        acknowledged = False
        try:
            write_atomically(disk, "/state/s", "session.json", b"new" * 500)
            acknowledged = True
        except Stopped:
            pass
        sim.power_cut()
        with opened_directory(sim, "/state/s") as d, opened(sim, d, "session.json") as fd:
            content = sim.pread(fd, 10_000, 0)
        assert content == b"new" * 500 or (content == b"old" * 300 and not acknowledged)


@pytest.mark.parametrize("spare", [True, False])
def test_write_atomically_keeps_room_for_the_next_time(spare: bool) -> None:
    disk = SimDisk(capacity=50_000)
    make_directory(disk, "/d")
    write_atomically(disk, "/d", "marker", b"0" * 300, spare=spare)
    with opened_directory(disk, "/d") as d, opened(disk, d, "filler", os.O_CREAT) as filler:
        disk.fallocate(filler, 0, disk.capacity - disk.used())
    for n in range(1, 4):
        if not spare:
            with pytest.raises(OSError, match="No space left"):
                write_atomically(disk, "/d", "marker", b"%d" % n * 300)
        else:
            write_atomically(disk, "/d", "marker", b"%d" % n * 300, spare=True)
            assert disk.files("/d")["marker"] == b"%d" % n * 300


@pytest.mark.parametrize("name", [".seg", "mark", "/state", "/state/sessions"])
def test_a_journal_that_cannot_be_made_durable_is_not_made(name: str) -> None:
    disk = FailDisk(SimDisk())
    make_directory(disk, "/state/sessions/s", sync=False)
    disk.fail("fsync", errno.EIO, name=name)
    with pytest.raises(JournalError):
        Journal.create(
            disk, "/state/sessions/s/journal", SESSION, SMALL,
            first=[control(1)], above=["/state/sessions"],
        )  # fmt: skip
    assert disk.names == {}


def test_a_new_journal_and_its_first_record_survive_a_power_cut() -> None:
    for seed in range(20):
        disk = SimDisk(seed)
        create("/state/journal", disk, first=[control(1)])
        disk.power_cut()
        journal = reopen("/state/journal", disk)
        records = list(journal.replay(0))
        assert [record.type for record in records] == ["session.updated", GAP]
        journal.close()


def test_syncs_side_by_side_all_end_and_the_first_error_is_told(tmp_path: Path) -> None:
    reading, writing = os.pipe()  # what cannot be synced: EINVAL
    file = os.open(tmp_path / "file", os.O_WRONLY | os.O_CREAT)
    try:
        RealDisk().sync_together([file, file])
        for fds in ([reading, file, file], [file, reading], [file, writing, reading]):
            with pytest.raises(OSError, match="Invalid") as caught:
                RealDisk().sync_together(fds)
            assert caught.value.errno == errno.EINVAL
    finally:
        for fd in (reading, writing, file):
            os.close(fd)


@pytest.mark.parametrize("skip", [0, 1, 2])
async def test_what_a_failed_append_left_is_gone_after_a_clean_end(path: Path, skip: int) -> None:
    """Its batch spans two segments, and neither could be taken back at once."""
    disk = FailDisk()
    journal = create(path, disk, limits=SMALL)
    disk.fail("writev", errno.EIO, name=".seg", skip=skip)
    disk.fail("ftruncate", errno.EIO, name=".seg")
    disk.fail("unlink", errno.EIO, name=".seg")
    with pytest.raises(JournalError):
        journal.append([control(0), output(60_000), output(60_000)])
    disk.points.clear()
    journal.close()
    journal = reopen(path, limits=SMALL)
    assert (journal.latest, journal.recovery.unclean, journal.recovery.damage) == (0, False, [])
    assert journal.append([control(1)]).first == 1
    assert seqs(await contents(journal)) == [1]
    journal.close()


async def empty_and_unwritable(disk: FailDisk, sim: SimDisk, *, suspect: bool) -> Journal:
    journal = create(PATH, disk, limits=SMALL)
    if suspect:
        journal.store.durability.wrote(
            journal.store.segments[0], journal.store.writer.file, journal.latest
        )
        sim.fail_syncs = 1
        await journal.wait_writable()
        with pytest.raises(OSError, match="Input/output"):
            journal.store.durability.sync_now()
        assert journal.store.segments[0].suspect
    else:
        disk.fail("writev", name=".seg", short=150)
        disk.fail("writev", errno.EIO, name=".seg")
        with pytest.raises(JournalError):
            journal.append([output(100, 8), output(100, 8)])
        assert journal.store.segments[0].unsettled
    return journal


@pytest.mark.parametrize("suspect", [False, True])
@pytest.mark.parametrize("operation", ["open", "writev", "rename"])
async def test_an_empty_segment_that_cannot_be_written_gets_a_new_file(
    suspect: bool, operation: str
) -> None:
    """Its successor bears its name: until that is there, the old one keeps it."""
    sim = SimDisk()
    disk = FailDisk(sim)
    journal = await empty_and_unwritable(disk, sim, suspect=suspect)
    before = journal.store.segments[0]
    disk.fail(operation, errno.EIO, name=".begun")
    with pytest.raises(JournalError):
        journal.append([control(1)])
    assert journal.store.segments == [before]
    assert sorted(n for n in sim.files(PATH) if "seg" in n and "suspect" not in n) == [before.name]
    block = journal.append([control(2)])
    assert block.first == 1
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, sim, limits=SMALL)
    assert (await contents(journal))[0] == block.records[0]
    journal.close()


async def test_a_file_written_anew_never_takes_the_name_of_its_successor() -> None:
    """A sync in its thread writes the empty segment anew while the loop replaces it."""
    sim = SimDisk()
    disk = FailDisk(sim)
    journal = await empty_and_unwritable(disk, sim, suspect=True)
    appended = []
    fsync = disk.fsync

    def amid(fd: int) -> None:
        if disk.names.get(fd, "").endswith("1.seg.new") and not appended:
            appended.append(journal.append([control(1)]))
        fsync(fd)

    disk.fsync = amid  # type: ignore[method-assign]
    journal.store.durability.sync_now()
    await journal.wait_durable()
    assert appended
    sim.power_cut()
    journal = reopen(PATH, sim, limits=SMALL)
    assert (await contents(journal))[0] == appended[0].records[0]
    journal.close()


@pytest.mark.parametrize("again", [1, 2])
async def test_a_disk_that_fills_amid_the_first_append_to_an_empty_segment(
    path: Path, again: int
) -> None:
    """An old segment goes for it, and the empty one's name is never taken from under it."""
    journal = create(path, limits=SMALL)
    journal.append([control(1)])
    journal.append([output(17_000)])
    journal.close()
    disk = FailDisk()
    journal = reopen(path, disk, limits=SMALL)
    assert journal.store.segments[-1].count == 0
    for _ in range(again):
        disk.fail("writev", name=".seg", short=700)
        disk.fail("writev", errno.ENOSPC, name=".seg")
    with contextlib.suppress(JournalError):
        journal.append([output(3_000)])
    disk.points.clear()
    block = journal.append([control(7)])
    await journal.wait_durable()
    assert Path(path, journal.store.segments[-1].name).exists()
    journal.close(clean=False)
    journal = reopen(path, limits=SMALL)
    assert block.records[0] in await contents(journal)
    journal.close()


async def test_an_old_segment_goes_for_the_new_file_of_an_empty_one() -> None:
    sim = SimDisk()
    journal = create(PATH, sim, limits=SMALL)
    journal.append([control(1)])
    journal.append([output(17_000)])
    journal.close()
    disk = FailDisk(sim)
    journal = reopen(PATH, disk, limits=SMALL)
    sim.fail_syncs = 1
    with pytest.raises(OSError, match="Input/output"):
        journal.store.durability.sync_now()
    disk.fail("writev", errno.ENOSPC, name=".seg")
    assert journal.append([control(2)]).first == 3
    assert journal.earliest == 2
    journal.close()


async def test_a_segment_counts_as_removed_before_its_file_is_gone() -> None:
    """A sync that writes it anew in its thread misses the file: no error, nobody asks for it."""
    sim = SimDisk()
    disk = FailDisk(sim)
    journal = create(PATH, disk, limits=SMALL)
    journal.append([output(60_000)] * 2)
    oldest, unlink = journal.store.segments[0], disk.unlink
    seen = []

    def look(directory: int, name: str) -> None:
        seen.append((name, oldest.removed))
        unlink(directory, name)

    disk.unlink = look  # type: ignore[method-assign]
    disk.fail("unlink", errno.EIO, name=".seg")
    with pytest.raises(JournalError):
        journal.give_up_oldest()
    assert not oldest.removed  # it is still there
    assert journal.give_up_oldest()
    assert seen == [(oldest.name, True)] * 2
    journal.close()
