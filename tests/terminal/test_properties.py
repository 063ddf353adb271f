"""What holds for every stream of bytes."""

from __future__ import annotations

import itertools

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.terminal import Screen
from s0d.terminal.snapshot import Snapshot
from tests.terminal.streams import lines, streams

ROWS, COLS = 8, 20


def fed(*chunks: bytes, rows: int = ROWS, cols: int = COLS, scrollback: int = 12) -> Screen:
    screen = Screen(rows, cols, scrollback)
    for chunk in chunks:
        screen.feed(chunk)
    return screen


def seen(screen: Screen) -> Snapshot:
    return screen.snapshot(scrollback=100)


def picture(screen: Screen) -> Snapshot:
    """The snapshot but for how much is above it, which a plain repaint does not bring along."""
    return msgspec.structs.replace(screen.snapshot(), scrollback_lines=0)


@given(streams, st.lists(st.integers(0, 400), max_size=6))
@settings(max_examples=60, deadline=None)
def test_a_stream_split_anywhere_shows_the_same_as_the_whole(data: bytes, cuts: list[int]) -> None:
    at = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[start:stop] for start, stop in itertools.pairwise(at)]
    assert seen(fed(*pieces)) == seen(fed(data))


@given(streams)
@settings(max_examples=60, deadline=None)
def test_a_stream_fed_byte_by_byte_shows_the_same_as_the_whole(data: bytes) -> None:
    assert seen(fed(*(data[at : at + 1] for at in range(len(data))))) == seen(fed(data))


@given(st.binary(max_size=400), st.integers(1, 5), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_bytes_without_a_meaning_are_taken_at_any_size(data: bytes, rows: int, cols: int) -> None:
    screen = fed(data, rows=rows, cols=cols)
    snapshot = screen.snapshot(100)
    assert len(snapshot.lines) == rows
    assert all(sum(run.width for run in line) <= cols for line in snapshot.lines)
    assert 0 <= snapshot.cursor.row < rows
    assert 0 <= snapshot.cursor.col < cols


@given(streams)
@settings(max_examples=60, deadline=None)
def test_a_repainted_screen_equals_the_original(data: bytes) -> None:
    screen = fed(data)
    assert picture(fed(screen.repaint())) == picture(screen)


@given(streams, streams)
@settings(max_examples=60, deadline=None)
def test_a_repainted_screen_goes_on_as_the_original_does(data: bytes, more: bytes) -> None:
    original = fed(data)
    repainted = fed(original.repaint())
    # What REP repeats and a pending single shift are the two things no sequence restores.
    rest = b"\x1b[m" + more if not original.repaint().endswith((b"\x1b", b"[")) else more
    for screen in (original, repainted):
        screen.feed(rest)
    assert picture(repainted) == picture(original)


@given(streams)
@settings(max_examples=60, deadline=None)
def test_a_repaint_with_scrollback_brings_the_lines_above_too(data: bytes) -> None:
    screen = fed(data)
    again = fed(screen.repaint(scrollback=100))
    assert again.snapshot(100) == screen.snapshot(100)


@given(streams, st.integers(1, 12), st.integers(2, 30))
@settings(max_examples=60, deadline=None)
def test_shrinking_and_growing_back_loses_nothing(data: bytes, rows: int, cols: int) -> None:
    screen = fed(data + b"\x1b[?6l\x1b[r", scrollback=1000)
    before = screen.snapshot(1000)
    screen.resize(min(rows, ROWS), min(cols, COLS))
    screen.resize(ROWS, COLS)
    after = screen.snapshot(1000)
    assert after.lines[: len(before.lines)] == before.lines
    assert after.scrollback == before.scrollback
    assert after.cursor.row == before.cursor.row


@given(streams, st.lists(st.tuples(st.integers(1, 12), st.integers(1, 30)), max_size=4), streams)
@settings(max_examples=60, deadline=None)
def test_any_size_at_any_time_is_survived(
    data: bytes, sizes: list[tuple[int, int]], more: bytes
) -> None:
    screen = fed(data)
    for rows, cols in sizes:
        screen.resize(rows, cols)
        screen.feed(more)
        snapshot = screen.snapshot(100)
        assert (snapshot.rows, snapshot.cols, len(snapshot.lines)) == (rows, cols, rows)
        assert picture(fed(screen.repaint(), rows=rows, cols=cols)) == picture(screen)


@given(lines, lines, lines)
@settings(max_examples=150, deadline=None)
def test_skimming_changes_nothing_that_shows(first: bytes, flood: bytes, last: bytes) -> None:
    start = fed(first, rows=3, scrollback=4)
    skimmed = fed(first, rows=3, scrollback=4)
    data = flood * 5 + last
    start.feed(data)
    skimmed.feed(skimmed.skim(data))
    assert seen(skimmed) == seen(start)


@given(streams, streams, lines)
@settings(max_examples=150, deadline=None)
def test_skimming_whatever_comes_changes_nothing(first: bytes, flood: bytes, last: bytes) -> None:
    start = fed(first, rows=3, scrollback=4)
    skimmed = fed(first, rows=3, scrollback=4)
    data = flood + last * 4
    start.feed(data)
    for _ in skimmed.catch_up(data, slice_bytes=64):
        pass
    assert seen(skimmed) == seen(start)
