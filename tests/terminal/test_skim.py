"""Skipping what cannot be seen: that it is skipped, and that nothing else is."""

from __future__ import annotations

import pytest

from s0d.terminal import Screen
from s0d.terminal.skim import first_line_end

ROWS, SCROLLBACK = 4, 10
LINES = b"".join(b"line %d\r\n" % n for n in range(2000))
COLOURED = b"".join(b"\x1b[1;3%dmline %d\x1b[0m\x1b[K\r\n" % (n % 8, n) for n in range(2000))


def screen_after(*chunks: bytes) -> Screen:
    screen = Screen(ROWS, 20, SCROLLBACK)
    for chunk in chunks:
        screen.feed(chunk)
    return screen


def assert_skims(data: bytes, before: bytes = b"", most: int = 2000) -> None:
    screen = screen_after(before)
    left = screen.skim(data)
    assert len(left) <= most
    screen.feed(left)
    assert screen.snapshot(100) == screen_after(before, data).snapshot(100)
    assert not screen.history_cut


@pytest.mark.parametrize(
    "data",
    [
        LINES,
        COLOURED,
        LINES.replace(b"line", "漢字 e\u0301".encode()),
        LINES.replace(b"line ", b"\t\b\x07\v"),
        b"\x1b[32m" + LINES,  # the colour is carried over
        b"\x1b[2;5H" + LINES,
        b"\x1b]0;title\x07" + LINES,
        b"\x1b[?2004l" + LINES + b"\x1b[?2004h$ ",
        LINES + b"\x1b[3",  # half a sequence at the end
        LINES + b"\xe6\xbc",  # half a character at the end
        LINES + b"\x0e",
        b"\x1b)0" + LINES + b"\x1b[3;3H\x1b[J",
    ],
)
def test_a_flood_of_lines_is_skipped_and_shows_the_same(data: bytes) -> None:
    assert_skims(data)


def test_what_was_there_before_does_not_matter() -> None:
    assert_skims(LINES, before=b"\x1b[1mold\r\n" * 50 + b"\x1b[H\x1b[7m")


@pytest.mark.parametrize(
    "before",
    [
        b"\x1b[2;3r",  # margins
        b"\x1b[?1049h",  # the alternate screen
        b"\x1b[?45h",  # BS may go up
        b"\x1b[",  # in a sequence
        b"\x1bP",  # in a string
        b"\xe6",  # in a character
    ],
)
def test_where_lines_do_not_surely_scroll_out_nothing_is_skipped(before: bytes) -> None:
    assert screen_after(before).skim(LINES) == LINES


@pytest.mark.parametrize(
    "risk",
    [b"\x1b[2;3r", b"\x1b[?1049h", b"\x1b[1;3r\x1b[A", b"\x1b]0;title", b"\x1bPdata"],
)
def test_behind_what_may_stop_the_scrolling_nothing_is_skipped(risk: bytes) -> None:
    data = risk + LINES
    assert screen_after().skim(data) == data


def test_a_cursor_movement_among_the_last_lines_is_kept() -> None:
    data = LINES + b"\x1b[A" + b"x\r\n" * 5
    screen = screen_after()
    screen.feed(screen.skim(data))
    assert screen.snapshot(100) == screen_after(data).snapshot(100)


def test_catching_up_skims_blocks_that_begin_anywhere() -> None:
    data = b"\x1b[?1049h" + b"full\x1b[2J" * 50 + b"\x1b[?1049l" + COLOURED
    for size in (5000, 20000, len(data)):
        screen = screen_after()
        slices = 0
        for at in range(0, len(data), size):
            slices += sum(1 for _ in screen.catch_up(data[at : at + size], slice_bytes=64))
        assert screen.snapshot(100) == screen_after(data).snapshot(100)
        if size == 20000:
            assert (
                slices < len(data) / 64 / 2
            )  # the first block leaves the alternate screen: fed whole


def test_a_cut_is_said_and_starts_the_history_anew() -> None:
    screen = screen_after(b"old\r\n" * 50)
    data = b"".join(b"\x1b[%d;1Hrow %d" % (n % 4 + 1, n) for n in range(5000)) + b"\x1b[2J\x1b[Hnew"
    left = screen.skim(data, limit=2000)
    assert len(left) < 2200
    screen.feed(left)
    snapshot = screen.snapshot(100)
    assert snapshot.history_cut
    assert screen.history_cut
    assert snapshot.scrollback == ()
    assert screen.text().split() == ["new"]
    screen.feed(b"\x1bc")
    assert not screen.history_cut


def test_a_cut_keeps_modes_titles_colours_and_character_sets() -> None:
    settings = (
        b"\x1b[?2004h\x1b[?1h\x1b=\x1b[?1002h\x1b[?1006h\x1b[5 q\x1b[?25l\x1b[4h\x1b[>4;1m"
        b"\x1b]2;title\x1b\\\x1b)0\x0e\x1b[1;35m\x1b[?1h\x1b[?2004l\x1b[2;3r"
    )
    data = settings + b"\x1b[1Hx" * 3000
    whole = screen_after(data)
    screen = screen_after()
    screen.feed(screen.skim(data, limit=500))
    for each in (whole, screen):
        each.feed(b"\x1b[4l\x1b[2J\x1b[Hq")
    ours, theirs = screen.snapshot(), whole.snapshot()
    assert (ours.modes, ours.title, ours.cursor) == (theirs.modes, theirs.title, theirs.cursor)
    assert (ours.lines, ours.margins) == (theirs.lines, theirs.margins)
    assert theirs.lines[0][0].text == "─"


def test_a_cut_goes_to_where_the_screen_is_cleared_else_to_a_line() -> None:
    screen = screen_after()
    text = b"\x1b[A." * 300
    screen.feed(screen.skim(text + b"\x1b[2J\x1b[Hcleared" + b"\x1b[5Cx", limit=200))
    assert screen.text().split() == ["cleared", "x"]
    screen = screen_after()
    screen.feed(screen.skim(text + b"\r\nline\x1b[5Cx", limit=50))
    assert screen.text().split() == ["line", "x"]


def test_a_limit_that_is_not_reached_changes_nothing() -> None:
    screen = screen_after()
    assert screen.skim(b"\x1b[5Cx", limit=100) == b"\x1b[5Cx"
    assert not screen.history_cut


@pytest.mark.parametrize(("data", "end"), [(b"a\nb", 2), (b"ab", 2), (b"", 0), (b"\n\n", 1)])
def test_the_end_of_the_first_line(data: bytes, end: int) -> None:
    assert first_line_end(data) == end
