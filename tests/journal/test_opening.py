"""Openings that are cut short or fail, and what an append that was cut short had begun."""

from __future__ import annotations

import contextlib
import errno
import struct

import google_crc32c
import pytest

from s0d.journal import GAP, JournalError, Limits, RecoveryReport, dump, repair, verify
from s0d.journal.layout import HEADER_SIZE
from tests.journal.disks import FailDisk, SimDisk, Stopped, Trap
from tests.journal.tools import SESSION, Clock, contents, control, create, output, reopen, seqs

PATH = "/journal"
SMALL = Limits(256 * 1024)
BEGUN = "00000000000000000002.seg"


def interrupted(segments: int, *, written: int) -> SimDisk:
    """A process that ended in an append over so many segments, with ``written`` of them written;
    one record of before is durable."""
    sim = SimDisk(3)
    disk = FailDisk(sim)
    journal = create(PATH, disk, limits=SMALL)
    journal.append([control(1), control(2)])
    disk.fail("writev", name=".seg", skip=segments + written, stop=True)
    with pytest.raises(Stopped):
        journal.append([output(17_000, n) for n in range(segments)])
    sim.crash()
    return sim


@pytest.mark.parametrize("segments", [1, 2, 3, 4])
@pytest.mark.parametrize("written", [0, 1, 2, 3])
async def test_nothing_of_an_append_that_was_cut_short_is_left(segments: int, written: int) -> None:
    if written >= segments:
        return
    sim = interrupted(segments, written=written)
    report = verify(PATH, sim)
    assert report.ok
    assert [s.records for s in report.segments] == [2] + [0] * (len(report.segments) - 1)
    assert len(report.segments) == segments + 1  # the files are told of, all the same
    assert [getattr(r, "seq", None) for r in dump(PATH, sim)] == [1, 2]
    journal = reopen(PATH, sim, limits=SMALL)
    assert journal.recovery.damage == []
    assert [(r.seq, r.type == GAP) for r in await contents(journal)] == [
        (1, False),
        (2, False),
        (65_537, True),
    ]
    names = [name for name in sim.files(PATH) if name.endswith(".seg")]
    assert len(names) <= 2
    assert sum(name.endswith(".torn") for name in sim.files(PATH)) == written  # copies
    assert (journal.recovery.torn_bytes > 0) == (written > 0)
    journal.close()


async def test_what_was_begun_is_removed_from_the_end() -> None:
    """So that a power cut in between never leaves a later one without those before it."""
    sim = interrupted(4, written=2)
    disk = FailDisk(sim)
    reopen(PATH, disk, limits=SMALL).close()
    removed = [name for operation, name in disk.calls if operation == "unlink"]
    assert removed[:4] == sorted(removed[:4], reverse=True)


@pytest.mark.parametrize("written", [0, 1, 2])
def test_a_repair_keeps_what_was_begun(written: int) -> None:
    sim = interrupted(3, written=written)
    disk = FailDisk(sim)
    done = repair(PATH, SESSION, disk)
    files = sim.files(PATH)
    assert [name for name in files if name.endswith(".seg")][:1] == ["00000000000000000001.seg"]
    begun = [name for name, deed in done if "did not come to its end" in deed]
    assert begun == ["00000000000000000005.seg", "00000000000000000004.seg"]
    assert all(f"{name}.kept" in files for name in begun)
    assert ("fsync", PATH) in disk.calls
    assert verify(PATH, sim).ok


@pytest.mark.parametrize("how", ["kill", "error"])
@pytest.mark.parametrize("seed", range(30))
async def test_an_opening_that_ends_before_names_are_synced(how: str, seed: int) -> None:
    """The next one finds nothing to remove; what it has acknowledged is not lost all the same."""
    sim = SimDisk(seed)
    journal = create(PATH, sim, limits=SMALL)
    journal.append([control(1)])
    await journal.wait_durable()
    sim.crash()
    sim.put(PATH, {**sim.files(PATH), BEGUN: b"s0djrnl"})
    sim.power_cut()
    disk = FailDisk(sim)
    disk.fail("fsync", errno.EIO if how == "error" else None, name=PATH, stop=how == "kill")
    with pytest.raises((Stopped, JournalError)):
        reopen(PATH, disk, limits=SMALL)
    sim.crash()
    journal = reopen(PATH, sim, limits=SMALL)
    block = journal.append([control(2)])
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, sim, limits=SMALL)
    assert block.records[0] in await contents(journal)
    journal.close()


@pytest.mark.parametrize("torn", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_a_sync_that_fails_while_opening_is_known_to_the_next(seed: int, torn: bool) -> None:
    """To which the kernel would report success, with nothing on the disk."""
    sim = SimDisk(seed)
    disk = FailDisk(sim)
    journal = create(PATH, disk, limits=SMALL)
    written = journal.append([control(1), output(3_000)]).records
    if torn:
        disk.fail("writev", name=".seg", short=20, stop=True)
        with pytest.raises(Stopped):
            journal.append([output(100)])
    sim.crash()
    sim.fail_syncs = 2 if torn else 1  # a copy of what was torn is worth having, no more
    with pytest.raises(JournalError):
        reopen(PATH, sim, limits=SMALL)
    sim.crash()
    journal = reopen(PATH, sim, limits=SMALL)
    assert journal.durable == journal.latest
    sim.power_cut()
    journal = reopen(PATH, sim, limits=SMALL)
    assert (await contents(journal))[:2] == written
    journal.close()


async def test_an_empty_segment_that_could_not_be_removed_is_no_damage() -> None:
    sim = SimDisk()
    disk = FailDisk(sim)
    journal = create(PATH, disk, limits=SMALL)
    journal.append([control(1)])
    disk.fail("writev", errno.EIO, name=".seg", skip=2)
    disk.fail("unlink", errno.EIO, name=".seg", times=None)
    with pytest.raises(JournalError):
        journal.append([output(12_000), output(12_000)])
    sim.crash()
    journal = reopen(PATH, sim, limits=SMALL)
    assert journal.recovery == RecoveryReport(unclean=True, gap=(2, 65_537))
    journal.close()
    assert verify(PATH, sim).ok


@pytest.mark.parametrize("seed", range(30))
async def test_what_retention_took_of_an_idle_journal_is_not_told_as_lost(seed: int) -> None:
    sim, clock, limits = SimDisk(seed), Clock(), Limits(1 << 20, 60)
    journal = create(PATH, sim, limits=limits, clock=clock)
    journal.append([control(n) for n in range(5)])
    journal.close()
    options = {"limits": limits, "clock": clock, "reserve": False, "wall_ns": lambda: 1}
    journal = reopen(PATH, sim, **options)
    clock.now += 100
    journal.retire(clock())
    sim.write_back()
    sim.power_cut()
    journal = reopen(PATH, sim, **options)
    assert journal.recovery.gap is None
    assert journal.recovery.damage == []
    journal.close()


def of_version(version: int, segment: bytes) -> bytes:
    head = bytearray(segment[: HEADER_SIZE - 4])
    head[8:12] = struct.pack("<I", version)
    return bytes(head) + google_crc32c.value(bytes(head)).to_bytes(4, "little") + segment[104:]


async def test_one_of_another_version_behind_an_append_that_was_cut_short_is_kept() -> None:
    sim = interrupted(2, written=1)
    files = sim.files(PATH)
    newest = max(name for name in files if name.endswith(".seg"))
    sim.put(PATH, {**files, newest: of_version(9, files[newest])})
    reopen(PATH, sim, limits=SMALL).close()
    assert f"{newest}.kept" in sim.files(PATH)


async def test_a_newest_segment_of_another_version_is_never_removed() -> None:
    sim = SimDisk()
    journal = create(PATH, sim, limits=SMALL)
    journal.append([control(1)])
    journal.close()
    for version in range(2, 9):
        files = sim.files(PATH)
        name = max(name for name in files if name.endswith(".seg"))
        sim.put(PATH, {**files, name: of_version(version, files[name])})
        journal = reopen(PATH, sim, limits=SMALL)
        assert f"format version {version}" in journal.recovery.damage[0].reason
        assert f"{name}.kept" in sim.files(PATH)
        journal.append([control(version)])
        journal.close()
    assert sum(name.endswith(".kept") for name in sim.files(PATH)) == 7
    assert seqs(await contents(reopen(PATH, sim, limits=SMALL)))[-1] > 1


@pytest.mark.parametrize("seed", range(20))
async def test_what_retention_removed_stays_away_once_a_sync_has_said_so(seed: int) -> None:
    sim, clock = SimDisk(seed), Clock()
    journal = create(PATH, sim, limits=Limits(1 << 20, 60), clock=clock)
    journal.append([output(17_000)] * 3)
    await journal.wait_durable()
    clock.now += 100
    journal.append([control(1)])
    journal.retire(clock())
    earliest = journal.earliest
    assert earliest > 1
    await journal.wait_durable()
    sim.power_cut()
    journal = reopen(PATH, sim, limits=SMALL)
    assert journal.earliest == earliest
    journal.close()


@pytest.mark.parametrize("whole", [1, 2, 3])
async def test_an_append_of_which_the_power_cut_left_the_first_segments(whole: int) -> None:
    """They have been sealed when all was written; a footer does not say that the rest is there."""
    sim = SimDisk()
    journal = create(PATH, sim, limits=SMALL)
    journal.append([control(1)])
    await journal.wait_durable()
    journal.append([output(10_000, n) for n in range(4)])
    sim.crash()
    files = sim.files(PATH)
    names = sorted(name for name in files if name.endswith(".seg"))
    for name in names[whole:]:
        files[name] = files[name][:HEADER_SIZE]
    sim.put(PATH, files)
    journal = reopen(PATH, sim, limits=SMALL)
    assert [(r.seq, r.type == GAP) for r in await contents(journal)] == [(1, False), (65_537, True)]
    assert journal.recovery.damage == []
    journal.close()


@pytest.mark.parametrize("seed", range(12))
async def test_no_mixture_of_marks_makes_numbers_go_back(seed: int) -> None:
    """A torn mark, and a power cut while its successor is being written."""
    for place in range(16, 36):
        sim = SimDisk(seed)
        journal = create(PATH, sim, limits=SMALL)
        for _ in range(seed % 3 + 2):
            sim.crash()
            journal = reopen(PATH, sim, limits=SMALL)
        shown = journal.append([control(1)]).last
        sim.crash()
        files = sim.files(PATH)
        torn = 4096 * (seed % 2)
        files["mark"] = files["mark"][:torn] + b"?" * 65 + files["mark"][torn + 65 :]
        sim.put(PATH, files)
        disk = FailDisk(sim)
        disk.trap = Trap(place)
        with contextlib.suppress(Stopped):
            shown = max(shown, reopen(PATH, disk, limits=SMALL).latest)
        sim.power_cut()
        journal = reopen(PATH, sim, limits=SMALL)
        assert journal.latest > shown
        journal.close()
