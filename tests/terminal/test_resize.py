"""Other sizes: where rows go, what comes back, what is reset."""

from __future__ import annotations

import pytest

from s0d.terminal import Run, Screen


def numbered(lines: int, rows: int = 6, cols: int = 10) -> Screen:
    screen = Screen(rows, cols)
    screen.feed("\r\n".join(str(n) for n in range(1, lines + 1)).encode())
    return screen


def rows_of(screen: Screen) -> list[str]:
    return screen.text().split("\n")[:-1]


def test_a_lower_screen_gives_up_what_is_beneath_the_cursor_first() -> None:
    screen = numbered(3)
    screen.resize(4, 10)
    assert rows_of(screen) == ["1", "2", "3", ""]
    assert screen.snapshot().scrollback_lines == 0


def test_then_the_top_goes_to_the_scrollback_and_comes_back() -> None:
    screen = numbered(6)
    screen.resize(4, 10)
    assert rows_of(screen) == ["3", "4", "5", "6"]
    assert screen.snapshot().scrollback_lines == 2
    assert screen.snapshot().cursor.row == 3
    screen.resize(6, 10)
    assert rows_of(screen) == ["1", "2", "3", "4", "5", "6"]
    assert screen.snapshot().cursor.row == 5


def test_a_higher_screen_takes_lines_from_the_scrollback() -> None:
    screen = numbered(10)
    screen.resize(8, 10)
    assert rows_of(screen) == ["3", "4", "5", "6", "7", "8", "9", "10"]
    screen.resize(12, 10)
    assert rows_of(screen)[:3] == ["1", "2", "3"]
    assert rows_of(screen)[10:] == ["", ""]
    assert screen.snapshot().cursor.row == 9


def test_rows_cut_beneath_the_cursor_come_back_unless_the_screen_has_scrolled() -> None:
    screen = numbered(6)
    screen.feed(b"\x1b[2;1H")
    screen.resize(3, 10)
    assert rows_of(screen) == ["1", "2", "3"]
    screen.resize(6, 10)
    assert rows_of(screen) == ["1", "2", "3", "4", "5", "6"]
    screen.resize(3, 10)
    screen.feed(b"\x1b[3;1H\r\nnew")
    screen.resize(6, 10)
    assert rows_of(screen) == ["1", "2", "3", "new", "", ""]


def test_columns_come_back_with_styles_and_wide_characters() -> None:
    screen = Screen(3, 10)
    screen.feed("\x1b[31mabcde漢字\x1b[m".encode())
    screen.resize(3, 6)
    assert screen.snapshot().lines[0] == (Run("abcde ", 6, fg=1),)  # half of it is no character
    screen.resize(3, 10)
    assert screen.snapshot().lines[0] == (Run("abcde漢字", 9, fg=1),)


def test_hidden_columns_go_with_an_erasure() -> None:
    screen = Screen(3, 10)
    screen.feed(b"abcdefghij")
    screen.resize(3, 5)
    screen.feed(b"\r\x1b[3C\x1b[K")
    screen.resize(3, 10)
    assert rows_of(screen)[0] == "abc"


def test_both_screens_are_resized() -> None:
    screen = numbered(6)
    screen.feed(b"\x1b[?1049h\x1b[Halternate\x1b[6;1Hlast")
    screen.resize(4, 8)
    assert rows_of(screen) == ["", "", "", "last"]
    screen.resize(6, 10)
    assert rows_of(screen) == ["alternate", "", "", "", "", "last"]
    screen.feed(b"\x1b[?1049l")
    assert rows_of(screen) == ["1", "2", "3", "4", "5", "6"]


def test_the_alternate_screen_feeds_no_scrollback_by_shrinking() -> None:
    screen = Screen(6, 10)
    screen.feed(b"\x1b[?1049h" + b"x\r\n" * 5 + b"x")
    screen.resize(2, 10)
    screen.feed(b"\x1b[?1049l")
    assert screen.snapshot().scrollback_lines == 0


def test_margins_are_reset_and_the_cursor_stays_on_the_screen() -> None:
    screen = numbered(6)
    screen.feed(b"\x1b[2;4r\x1b[6;10H")
    screen.resize(3, 4)
    snapshot = screen.snapshot()
    assert snapshot.margins == (0, 2)
    assert (snapshot.cursor.row, snapshot.cursor.col) == (2, 3)


def test_new_columns_have_tab_stops() -> None:
    screen = Screen(2, 8)
    screen.resize(2, 30)
    screen.feed(b"\t\tx")
    assert rows_of(screen)[0] == " " * 16 + "x"


@pytest.mark.parametrize("sequence", [b"\x1b[2J", b"\r\n" * 20, b"\x1b#8", b"\x1b[5S", b"\x1bc"])
def test_what_resizing_took_is_forgotten_once_the_screen_moves_on(sequence: bytes) -> None:
    screen = numbered(6)
    screen.feed(b"\x1b[1;1H")
    screen.resize(2, 10)
    screen.feed(sequence + b"\x1b[3J")
    screen.resize(6, 10)
    assert {"5", "6"}.isdisjoint(rows_of(screen))
