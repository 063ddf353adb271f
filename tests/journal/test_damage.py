"""Damage at every kind of place: explicit gaps, everything else readable, never garbage."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from s0d.journal import GAP, Journal, Limits, Record, dump, layout, verify
from s0d.journal.record import encode_record
from tests.journal.disks import SimDisk
from tests.journal.tools import SESSION, contents, control, create, output, read_all, reopen, seqs

SMALL = Limits(256 * 1024)


PATH = "/journal"
Files = dict[str, bytes]
Truth = dict[int, Record]


def on_disk(files: Files) -> SimDisk:
    disk = SimDisk()
    disk.put(PATH, files)
    return disk


@pytest.fixture(scope="module")
def sample() -> tuple[Files, Truth]:
    """A journal of several segments, closed cleanly, and what is in it."""
    disk = SimDisk()
    journal = create(PATH, disk, limits=SMALL)
    records: Truth = {}
    for n in range(40):
        for record in journal.append([control(n), output(900, n), output(500, n)]).records:
            records[record.seq] = record
    journal.close()
    return disk.files(PATH), records


@pytest.fixture
def files(sample: tuple[Files, Truth]) -> Files:
    return dict(sample[0])


@pytest.fixture
def truth(sample: tuple[Files, Truth]) -> Truth:
    return sample[1]


def segments(files: Files) -> list[str]:
    return sorted(name for name in files if name.endswith(".seg"))


def first_of(name: str) -> int:
    return int(name[:20])


async def check(files: Files, truth: Truth, *, most_lost: int = 40) -> Files:
    """Open, read: each number is there as it was or in a gap; the numbers go on."""
    disk = on_disk(files)
    journal = reopen(PATH, disk, limits=SMALL)
    last = max(truth)
    covered = 0
    lost = 0
    position = journal.earliest - 1
    for record in await contents(journal):
        if record.type == GAP:
            first = record.fields["first"]
            lost += max(0, min(last, record.seq) - first + 1)
        else:
            first = record.seq
            assert record == truth.get(record.seq)
            covered += 1
        assert first == position + 1
        position = record.seq
    assert position == journal.latest
    assert lost <= most_lost
    assert covered + lost == last
    folded = [r.seq for r in journal.replay(0) if r.type != GAP]
    readable = [r.seq for r in await contents(journal) if r.type == "session.updated"]
    assert folded == readable
    block = journal.append([control()])
    assert block.first > last
    for after in (0, 17, last // 2, last):  # readers that come in anywhere agree
        with journal.cursor(max(after, journal.earliest - 1)) as cursor:
            while (read := await cursor.read_available(12_000)) is not None:
                assert all(r.type == GAP or r == truth.get(r.seq, r) for r in read.records)
    journal.close()
    assert disk.descriptors == 0
    return disk.files(PATH)


def flip(data: bytearray, place: int, chance: random.Random) -> None:
    data[place] ^= 1 << chance.randrange(8)


def zero_page(data: bytearray, place: int, chance: random.Random) -> None:
    start = place // 4096 * 4096
    data[start : start + 4096] = bytes(len(data[start : start + 4096]))


def cut(data: bytearray, place: int, chance: random.Random) -> None:
    del data[place:]


def scribble(data: bytearray, place: int, chance: random.Random) -> None:
    data[place : place + 64] = chance.randbytes(len(data[place : place + 64]))


@pytest.mark.parametrize("harm", [flip, zero_page, cut, scribble])
@pytest.mark.parametrize("which", [0, 2, -1])
@pytest.mark.parametrize("unclean", [False, True])
async def test_harm_anywhere(
    files: Files,
    truth: Truth,
    harm: Callable[[bytearray, int, random.Random], None],
    which: int,
    unclean: bool,
) -> None:
    name = segments(files)[which]
    original = files[name]
    if unclean:
        disk = on_disk(files)
        reopen(PATH, disk, limits=SMALL).close(clean=False)
        files["mark"] = disk.files(PATH)["mark"]
    chance = random.Random(which)
    places = [*range(0, 240, 31), *chance.sample(range(len(original)), 6), -1, -10, -19]
    for place in places:
        data = bytearray(original)
        harm(data, place % len(original), chance)
        await check({**files, name: bytes(data)}, truth)


async def test_harm_to_the_mark(files: Files, truth: Truth) -> None:
    for place in [*range(0, 70, 9), *range(4096, 4166, 9)]:
        data = bytearray(files["mark"])
        data[place] ^= 0x10
        await check({**files, "mark": bytes(data)}, truth, most_lost=0)
    for content in (b"", b"\0" * 8192, b"x" * 8192, files["mark"][:4096]):
        await check({**files, "mark": content}, truth, most_lost=0)


async def test_one_flipped_bit_costs_one_record(files: Files, truth: Truth) -> None:
    for name in segments(files):
        data = bytearray(files[name])
        data[layout.HEADER_SIZE + 30] ^= 4  # the payload of the first frame
        harmed = {**files, name: bytes(data)}
        await check(harmed, truth, most_lost=1)
        assert [d.first for d in verify(PATH, on_disk(harmed)).damage] == [first_of(name)]


async def test_a_missing_middle_segment(files: Files, truth: Truth) -> None:
    _, second, third, *_ = segments(files)
    del files[second]
    lost = (first_of(second), first_of(third) - 1)
    journal = reopen(PATH, on_disk(files), limits=SMALL)
    assert [(d.first, d.last) for d in journal.recovery.damage] == [lost]
    gap = next(r for r in await contents(journal) if r.type == GAP)
    assert gap.fields == {"first": lost[0], "last": lost[1], "reason": "damage"}
    assert gap.seq == lost[1]
    journal.close()
    await check(files, truth, most_lost=lost[1] - lost[0] + 1)


@pytest.mark.parametrize("which", [0, 1, -1])
@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"hello" * 1000])
async def test_files_that_are_no_segments(
    files: Files, truth: Truth, which: int, content: bytes
) -> None:
    files[segments(files)[which]] = content
    await check(files, truth)


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_a_segment_of_another_session(files: Files, truth: Truth, which: int) -> None:
    other = SimDisk()
    journal = Journal.create(other, PATH, "ses-other", SMALL)
    journal.append([control(99)])
    journal.close()
    files[segments(files)[which]] = other.files(PATH)[f"{1:020d}.seg"]
    damage = verify(PATH, on_disk(files)).damage
    assert any("another session" in d.reason for d in damage)
    await check(files, truth)


@pytest.mark.parametrize("which", [0, 1, -1])
async def test_another_format_version(
    files: Files, truth: Truth, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = segments(files)[which]
    with monkeypatch.context() as patch:
        patch.setattr(layout, "VERSION", 0)
        header = layout.Header(SESSION, first_of(name), 0, bytes(8)).encode()
    files[name] = header + files[name][layout.HEADER_SIZE :]
    assert any("format version 0" in d.reason for d in verify(PATH, on_disk(files)).damage)
    await check(files, truth)


async def test_foreign_files_are_left_alone(files: Files, truth: Truth) -> None:
    names = ["1.seg", "notes.txt", f"{2**50:020d}.seg", f"{2**60:020d}.seg"]
    files.update(dict.fromkeys(names, b"mine"))
    journal = reopen(PATH, on_disk(files), limits=SMALL)
    assert journal.recovery.foreign == sorted(names)
    journal.close()
    after = await check(files, truth, most_lost=0)
    assert all(after[name] == b"mine" for name in names)


async def test_all_segments_lost(files: Files, truth: Truth) -> None:
    journal = reopen(PATH, on_disk({"mark": files["mark"]}), limits=SMALL)
    assert journal.latest > max(truth)
    journal.close()


async def test_a_torn_end_is_kept_aside(files: Files) -> None:
    name = segments(files)[-1]
    files[name] += b"torn" * 10
    disk = on_disk(files)
    reopen(PATH, disk, limits=SMALL).close()
    aside = [data for name, data in disk.files(PATH).items() if name.endswith(".torn")]
    assert len(aside) == 1
    assert files[name].endswith(aside[0])


async def test_a_newest_segment_without_its_first_page_is_kept_aside(files: Files) -> None:
    name = segments(files)[-1]
    files[name] = bytes(4096) + files[name][4096:]
    disk = on_disk(files)
    reopen(PATH, disk, limits=SMALL).close()
    assert disk.files(PATH)[name + ".bad"] == files[name]


async def test_what_is_set_aside_is_bounded(files: Files) -> None:
    disk = on_disk(files)
    for n in range(10):
        files = disk.files(PATH)
        files[segments(files)[-1]] += b"torn" * (10 + n)
        disk.put(PATH, files)
        reopen(PATH, disk, limits=SMALL).close(clean=False)
    assert len([name for name in disk.files(PATH) if name.endswith(".torn")]) == 4


async def test_printed_look_alikes_of_a_footer_are_output() -> None:
    """A child prints what would be this segment's footer, and the daemon is killed."""
    disk = SimDisk()
    journal = create(PATH, disk, limits=SMALL)
    journal.append([control()])
    end = len(disk.files(PATH)[f"{1:020d}.seg"])
    fake = layout.Footer(SESSION, 1, 1000, 1, 0, 1, 1, [(1, layout.HEADER_SIZE)])
    frame_of_it = layout.encode_footer(fake, 0, bytes(8))[: -layout.TRAILER_SIZE]
    head = len(encode_record(Record(2, 1, 1, "att-1", "output", {"data": frame_of_it * 2}))) - 2 * (
        len(frame_of_it)
    )
    data = layout.encode_footer(fake, end + 8 + head, bytes(8))
    journal.append([output(0)._replace(fields={"data": data})])
    disk.crash()
    before = disk.files(PATH)
    name = f"{1:020d}.seg"
    assert layout.decode_trailer(before[name][-layout.TRAILER_SIZE :], len(before[name]), bytes(8))
    journal = reopen(PATH, disk, limits=SMALL)
    assert seqs(await contents(journal))[:-1] == [1, 2]
    journal.close()


async def test_a_bit_that_flips_while_the_journal_is_open() -> None:
    disk = SimDisk()
    journal = create(PATH, disk, limits=SMALL)
    journal.append([control(n) for n in range(10)])
    disk.directories[PATH].names[f"{1:020d}.seg"].cache[-20] ^= 1
    records = await contents(journal)
    assert seqs(records) == list(range(1, 11))
    assert [r.type for r in records[-2:]] == ["session.updated", GAP]
    with journal.cursor(5) as cursor:
        assert seqs(await read_all(cursor)) == [6, 7, 8, 9, 10]
        journal.append([control(99)])
        assert [r.fields for r in await read_all(cursor)] == [{"n": 99}]
    journal.close()


def test_dump_and_verify_agree(files: Files, truth: Truth) -> None:
    report = verify(PATH, on_disk(files))
    assert report.clean
    assert report.records == len(truth)
    found = list(dump(PATH, on_disk(files)))
    assert found == list(truth.values())
    data = bytearray(files[segments(files)[1]])
    data[500] ^= 1
    disk = on_disk({**files, segments(files)[1]: bytes(data)})
    report = verify(PATH, disk)
    assert not report.ok
    assert report.damage == [d for d in dump(PATH, disk) if not isinstance(d, Record)]
