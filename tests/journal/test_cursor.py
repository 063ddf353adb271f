"""Cursors: catching up, live, shared blocks, overtaken by retention, the end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import trio
import trio.testing

from s0d.journal import Block, Cursor, CursorExpired, Journal, JournalError, Limits
from tests.journal.disks import FailDisk
from tests.journal.tools import control, create, flat, output, read_all, seqs

SMALL = Limits(256 * 1024)


@pytest.fixture
def disk() -> FailDisk:
    return FailDisk()


@pytest.fixture
def journal(tmp_path: Path, disk: FailDisk) -> Iterator[Journal]:
    journal = create(tmp_path / "journal", disk, limits=SMALL)
    yield journal
    journal.close(clean=False)


async def follow(cursor: Cursor, into: list[Block]) -> None:
    with cursor:
        while (block := await cursor.read()) is not None:
            into.append(block)


async def test_all_live_readers_get_the_same_block(journal: Journal) -> None:
    got: list[list[Block]] = [[] for _ in range(5)]
    sent = []
    async with trio.open_nursery() as nursery:
        for into in got:
            nursery.start_soon(follow, journal.cursor(None), into)
        for _ in range(20):
            await trio.testing.wait_all_tasks_blocked()
            sent.append(journal.append([output(), output()]))
        await trio.testing.wait_all_tasks_blocked()
        journal.end()
    for into in got:
        assert all(a is b for a, b in zip(into, sent, strict=True))


async def test_live_reading_touches_no_file(journal: Journal, disk: FailDisk) -> None:
    got: list[Block] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, journal.cursor(None), got)
        await trio.testing.wait_all_tasks_blocked()
        for _ in range(10):
            journal.append([control()])
            await trio.testing.wait_all_tasks_blocked()
        journal.end()
    assert seqs(flat(got)) == list(range(1, 11))
    assert disk.count("pread") == 0


async def test_catching_up_then_live_has_no_seam(journal: Journal) -> None:
    for _ in range(50):
        journal.append([output(1000)] * 2)
    got: list[Block] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(follow, journal.cursor(None), got)
        for _ in range(200):
            journal.append([output(10)])
            await trio.lowlevel.checkpoint()
        journal.end()
    assert seqs(flat(got)) == list(range(1, 301))


async def test_a_cursor_in_the_middle_of_a_block_gets_the_rest(journal: Journal) -> None:
    with journal.cursor(None):  # keeps the tail
        block = journal.append([output(100)] * 10)
        with journal.cursor(4) as late:
            piece = await late.read()
            assert piece is not None
            assert (piece.first, piece.last) == (5, 10)
            assert piece is not block
        with journal.cursor(4) as late:
            pages = []
            while (page := await late.read_available(250, 4)) is not None:
                pages.append((page.first, page.last))
            assert pages == [(5, 5), (6, 6), (7, 7), (8, 8), (9, 9), (10, 10)]
        with journal.cursor(None) as late:
            sizes = []
            while (page := await late.read_available(1 << 20, 4)) is not None:
                sizes.append(len(page.records))
            assert sizes == [4, 4, 2]


async def test_pages_from_files_are_bounded(journal: Journal) -> None:
    journal.append([output(1000)] * 50)
    with journal.cursor(None) as cursor:
        blocks = []
        while (block := await cursor.read_available(4000, 7)) is not None:
            blocks.append(block)
        assert {len(b.records) for b in blocks[:-1]} == {3}
        assert all(b.nbytes <= 4000 for b in blocks)
    with journal.cursor(None) as cursor:
        first = await cursor.read_available(1 << 20, 7)
        assert first is not None
        assert len(first.records) == 7
    with journal.cursor(None) as cursor:
        one = await cursor.read_available(10)
        assert one is not None
        assert len(one.records) == 1  # larger than asked for, but never nothing
        assert await cursor.read_available(10) is not None


async def test_the_tail_lives_while_somebody_reads_and_is_bounded(tmp_path: Path) -> None:
    journal = create(tmp_path / "j", tail_bytes=10_000)
    journal.append([output(1000)])
    assert journal.tail.find(1) is None
    with journal.cursor(None) as cursor:
        for _ in range(100):
            journal.append([output(1000)])
        assert journal.tail.find(1) is None
        assert journal.tail.find(90) is None
        assert journal.tail.find(95) is not None
        assert seqs(await read_all(cursor)) == list(range(1, 102))
    assert journal.tail.find(101) is None
    journal.close()


async def test_a_reader_in_a_removed_segment_finishes_it_and_is_told(journal: Journal) -> None:
    journal.tail._limit = 0
    with journal.cursor(None) as cursor:
        for _ in range(20):
            journal.append([output(8000)])  # one segment holds two
        first = await cursor.read(8200)
        assert first is not None
        assert first.last == 1
        for _ in range(60):
            journal.append([output(8000)])
        assert journal.earliest > 3
        second = await cursor.read(8200)
        assert second is not None
        assert second.last == 2
        with pytest.raises(CursorExpired) as caught:
            await cursor.read()
        assert caught.value.earliest == journal.earliest
        assert caught.value.latest == journal.latest
    with journal.cursor(caught.value.earliest - 1) as cursor:
        assert seqs(await read_all(cursor)) == list(range(journal.earliest, 81))


async def test_followers_across_rotation_and_retention(journal: Journal) -> None:
    """Live rotation under load: each reader has everything, or is told where to go on."""
    told: list[int] = []
    seen: list[list[int]] = [[] for _ in range(4)]

    async def reader(into: list[int], pause: int) -> None:
        after: int | None = 0
        while True:
            try:
                with journal.cursor(after) as cursor:
                    while (block := await cursor.read(20_000)) is not None:
                        assert not into or block.first == into[-1] + 1 or after == into[-1]
                        into.extend(seqs(block.records))
                        for _ in range(pause):
                            await trio.lowlevel.checkpoint()
                    return
            except CursorExpired as expired:
                told.append(expired.earliest)
                after = expired.earliest - 1
                into.append(after)

    async with trio.open_nursery() as nursery:
        for n, into in enumerate(seen):
            nursery.start_soon(reader, into, n * n * 20)
        for n in range(1500):
            journal.append([output(1500, n % 256)])
            await trio.lowlevel.checkpoint()
        journal.end()
    for into in seen:
        assert into[-1] == 1500
        assert into == sorted(into)
    assert journal.earliest > 1


async def test_reading_while_a_segment_goes_away_under_it(journal: Journal, disk: FailDisk) -> None:
    """Removed between the look at the books and the open."""
    for _ in range(20):
        journal.append([output(8000)])
    journal.tail._limit = 0
    real = disk.open

    def late(directory: int, name: str, flags: int) -> int:
        disk.open = real  # type: ignore[method-assign]
        trio.from_thread.run_sync(overtake)
        return real(directory, name, flags)

    def overtake() -> None:
        for _ in range(60):
            journal.append([output(8000)])

    disk.open = late  # type: ignore[method-assign]
    with journal.cursor(0) as cursor, pytest.raises(CursorExpired):
        await cursor.read()


async def test_a_cancelled_read_has_handed_out_nothing(journal: Journal) -> None:
    with journal.cursor(None) as cursor:
        with trio.move_on_after(0) as scope:
            await cursor.read()
        assert scope.cancelled_caught
        journal.append([control()])
        with trio.CancelScope() as scope:
            scope.cancel()
            await cursor.read()
        assert cursor.position == 0
        assert (await cursor.read()) is not None


async def test_the_end(journal: Journal) -> None:
    journal.append([control()])
    with journal.cursor(None) as cursor:
        journal.end()
        assert await cursor.read() is not None
        assert await cursor.read() is None
    with pytest.raises(trio.ClosedResourceError):
        await cursor.read()
    cursor.close()


async def test_an_unreadable_file_is_an_error_not_a_gap(journal: Journal, disk: FailDisk) -> None:
    journal.append([control()])
    with journal.cursor(None) as cursor:
        disk.fail("pread", 5)
        with pytest.raises(JournalError):
            await cursor.read()
        assert seqs(await read_all(cursor)) == [1]
