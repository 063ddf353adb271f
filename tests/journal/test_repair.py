"""Repair by an operator: what can be mended is, what cannot is told, and no byte is removed."""

from __future__ import annotations

import errno
import random
import re
from contextlib import suppress

import pytest

from s0d.journal import GAP, CannotRepair, Limits, layout, owner, records, repair, verify
from s0d.journal.frame import checksum
from tests.journal.disks import FailDisk, SimDisk
from tests.journal.tools import SESSION, contents, control, create, output, reopen, seqs

PATH = "/journal"
SMALL = Limits(256 * 1024)
Files = dict[str, bytes]


def made(*, clean: bool = True) -> Files:
    disk = SimDisk()
    journal = create(PATH, disk, limits=SMALL)
    for n in range(40):
        journal.append([control(n), output(900, n), output(500, n)])
    journal.close(clean=clean)
    return disk.files(PATH)


@pytest.fixture(scope="module")
def sample() -> Files:
    return made()


@pytest.fixture
def files(sample: Files) -> Files:
    return dict(sample)


def on_disk(files: Files) -> SimDisk:
    disk = SimDisk()
    disk.put(PATH, files)
    return disk


def mend(disk: SimDisk, session_id: str | None = None) -> list[str]:
    """The files that were mended."""
    done = repair(PATH, session_id, disk)
    assert disk.descriptors == 0
    return [file for file, _ in done]


def segments(files: Files) -> list[str]:
    return sorted(name for name in files if name.endswith(".seg"))


def is_there(name: str, data: bytes, after: Files) -> bool:
    """Where it was (but for a good footer), whole under another name, or cut in two."""
    nonce, end = data[92:100], len(data)
    with suppress(layout.BadLayout):
        end = layout.decode_trailer(data[-layout.TRAILER_SIZE :], len(data), nonce)
    if after.get(name, b"").startswith(data[:end]) or after.get(name + ".kept") == data:
        return True
    cut = re.compile(rf"{name}\.(\d+)\.kept")
    ends = {int(m[1]): after[m[0]] for m in map(cut.fullmatch, after) if m}
    return any(after[name][:at] + kept == data for at, kept in ends.items())


def test_a_sound_journal_is_not_written_to(files: Files) -> None:
    for before in (files, made(clean=False)):
        disk = on_disk(before)
        assert mend(disk) == []
        assert disk.files(PATH) == before


async def test_a_torn_end_is_kept_and_cut_off() -> None:
    files = made(clean=False)
    newest = segments(files)[-1]
    whole = files[newest]
    disk = on_disk({**files, newest: whole + b"torn" * 10})
    assert mend(disk) == [newest]
    after = disk.files(PATH)
    assert after == {**files, f"{newest}.{len(whole)}.kept": b"torn" * 10}
    assert mend(disk) == []
    journal = reopen(PATH, disk, limits=SMALL)
    assert seqs(await contents(journal))[:120] == list(range(1, 121))
    assert journal.recovery.gap is not None, "the daemon's own recovery has still to tell of it"
    journal.close()


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_footer_is_rebuilt_as_it_was(files: Files, which: int) -> None:
    name = segments(files)[which]
    original = files[name]
    for place in (-3, -10, -40):
        data = bytearray(original)
        data[place] ^= 1
        disk = on_disk({**files, name: bytes(data)})
        assert not next(s for s in verify(PATH, disk).segments if s.file == name).sealed
        assert mend(disk) == [name, name]
        after = disk.files(PATH)
        assert after[name] == original
        (kept,) = [content for name, content in after.items() if name.endswith(".kept")]
        assert data.endswith(kept), "also what looked like a footer is kept"
        assert verify(PATH, disk).clean


def test_a_segment_without_its_footer_gets_one(files: Files) -> None:
    name = segments(files)[0]
    original = files[name]
    nonce = layout.decode_header(original[: layout.HEADER_SIZE]).nonce
    end = layout.decode_trailer(original[-layout.TRAILER_SIZE :], len(original), nonce)
    disk = on_disk({**files, name: original[:end]})
    assert mend(disk) == [name]
    assert disk.files(PATH) == files


def test_a_middle_segment_that_is_not_whole_is_left_alone(files: Files) -> None:
    name = segments(files)[1]
    for data in (files[name][:3000], files[name][:3000] + b"?" * 500 + files[name][3500:-9]):
        disk = on_disk({**files, name: data})
        damage = verify(PATH, disk).damage
        assert damage
        assert mend(disk) == []
        assert disk.files(PATH) == {**files, name: data}
        assert verify(PATH, disk).damage == damage


async def test_a_mark_that_cannot_be_relied_on_is_made_anew(files: Files) -> None:
    for mark in (b"", b"\0" * 8192, files["mark"][:4096]):
        disk = on_disk({**files, "mark": mark})
        assert not verify(PATH, disk).ok
        assert mend(disk) == ["mark"]
        assert verify(PATH, disk).clean
        journal = reopen(PATH, disk, limits=SMALL)
        last = (await contents(journal))[-1]
        assert (last.type, last.fields["first"], last.seq > 2**32) == (GAP, 121, True)
        assert journal.latest == last.seq
        journal.close()


async def test_a_missing_end_is_told(files: Files) -> None:
    lost = segments(files)[-1]
    first = int(lost[:20])
    del files[lost]
    disk = on_disk(files)
    assert [(d.first, d.last) for d in verify(PATH, disk).damage] == [(first, 120)]
    (gap,) = [r for r in records(PATH, 0, disk) if r.type == GAP]
    assert gap.fields == {"first": first, "last": 120, "reason": "damage"}
    assert mend(disk) == ["mark"]
    assert verify(PATH, disk).clean
    (gap,) = [r for r in records(PATH, 0, disk) if r.type == GAP]
    assert gap.fields == {"first": first, "last": 121, "reason": "damage"}


@pytest.mark.parametrize("content", [b"", b"\0" * 5000, b"hello" * 1000, None])
def test_a_newest_segment_with_nothing_in_it_is_set_aside(
    files: Files, content: bytes | None
) -> None:
    newest = segments(files)[-1]
    if content is None:  # a zeroed first page, and more than can be read behind it
        content = bytes(4096) + files[newest][4096:]
    disk = on_disk({**files, newest: content})
    assert mend(disk) == [newest, "mark"]
    assert disk.files(PATH)[newest + ".kept"] == content
    assert verify(PATH, disk).clean


def test_foreign_files_are_set_aside_and_never_twice_under_one_name(files: Files) -> None:
    newest = segments(files)[-1]
    names = ["notes", f"{2**50:020d}.seg", newest + ".new"]
    kept = {"notes.kept": b"1", "notes.2.kept": b"2"}
    before = {**files, **dict.fromkeys(names, b"mine"), **kept, newest + ".7.torn": b"old"}
    disk = on_disk(before)
    assert sorted(mend(disk)) == sorted(names)
    after = disk.files(PATH)
    assert (
        after["notes.3.kept"] == after[f"{names[1]}.kept"] == after[f"{names[2]}.kept"] == b"mine"
    )
    assert kept.items() <= after.items()
    assert sorted(after.values()) == sorted(before.values())
    report = verify(PATH, disk)
    assert (report.clean, report.foreign) == (True, [])


def test_what_is_kept_outlives_any_number_of_recoveries(files: Files) -> None:
    disk = on_disk({**files, "0": b"mine"})
    mend(disk)
    for n in range(10):
        files = disk.files(PATH)
        files[segments(files)[-1]] += b"torn" * (10 + n)
        disk.put(PATH, files)
        reopen(PATH, disk, limits=SMALL).close(clean=False)
    assert disk.files(PATH)["0.kept"] == b"mine"


def test_what_repair_would_make_worse_is_refused(files: Files) -> None:
    newest = segments(files)[-1]
    unborn = SimDisk()
    create(PATH, unborn).close(clean=False)
    reopen(PATH, unborn).close(clean=False)
    assert [record.type for record in records(PATH, 0, unborn)] == [GAP]
    (only,) = segments(unborn.files(PATH))
    unborn.put(PATH, {**unborn.files(PATH), only: unborn.files(PATH)[only] + b"torn"})
    header = bytearray(layout.Header(SESSION, int(newest[:20]), 0, bytes(8)).encode())
    header[8] = 9
    header[-4:] = checksum(bytes(header[:-4]))
    later = on_disk({**files, newest: bytes(header) + files[newest][104:]})
    nobody = on_disk({"mark": files["mark"], "notes": b"mine"})
    for disk, why in (
        (unborn, "no record"),
        (later, "format version"),
        (nobody, "which session"),
    ):
        before = disk.files(PATH)
        with pytest.raises(CannotRepair, match=why):
            repair(PATH, None, disk)
        assert disk.files(PATH) == before


def test_a_full_disk_loses_nothing() -> None:
    files = made(clean=False)
    newest = segments(files)[-1]
    torn = {**files, newest: files[newest] + b"torn" * 10}
    disk = on_disk(torn)
    failing = FailDisk(disk)
    failing.fail("pwrite", errno.ENOSPC)
    with pytest.raises(OSError, match="No space"):
        repair(PATH, None, failing)
    assert disk.descriptors == 0
    assert {name: disk.files(PATH)[name] for name in torn} == torn


@pytest.mark.parametrize("seed", range(40))
async def test_records_are_what_a_reader_of_the_daemon_gets(files: Files, seed: int) -> None:
    """And after a repair still the same ones; every byte that was there still is."""
    chance = random.Random(seed)
    for name in chance.sample(sorted(files), 2):
        data = bytearray(files[name])
        place = chance.randrange(len(data))
        data[place : place + chance.choice([1, 64, 4096])] = b""
        data[place:place] = chance.randbytes(chance.choice([0, 1, 64]))
        files[name] = bytes(data)
    disk = on_disk(files)
    before = list(records(PATH, 0, disk, SESSION))
    for after in (7, 60, 119):
        tail = [r for r in records(PATH, after, disk, SESSION) if r.type != GAP]
        assert tail == [r for r in before if r.seq > after and r.type != GAP]
    journal = reopen(PATH, on_disk(files), limits=SMALL)
    seen = await contents(journal)
    journal.close()
    readable = [r for r in before if r.type != GAP]
    assert [r for r in seen if r.type != GAP] == readable
    assert repair(PATH, SESSION, disk) is not None
    assert [r for r in records(PATH, 0, disk, SESSION) if r.type != GAP] == readable
    assert all(is_there(name, files[name], disk.files(PATH)) for name in segments(files))
    assert repair(PATH, SESSION, disk) == []
    assert disk.descriptors == 0


def test_the_owner_is_by_most_segments(files: Files) -> None:
    assert owner(PATH, on_disk(files)) == SESSION
    assert owner(PATH, on_disk({"mark": files["mark"]})) is None
