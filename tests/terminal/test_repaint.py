"""Repainting, where a picture alone would not show that it is complete."""

from __future__ import annotations

import pytest

from s0d.terminal import Screen

ROWS, COLS = 5, 12


def screen_after(*chunks: str | bytes) -> Screen:
    screen = Screen(ROWS, COLS)
    for chunk in chunks:
        screen.feed(chunk.encode() if isinstance(chunk, str) else chunk)
    return screen


HIDDEN = {
    "the pen": ("\x1b[1;31;48;2;1;2;3m", "x\x1b[2J"),
    "a pending wrap": ("0123456789ab", "x"),
    "a pending wrap after a wide character": ("0123456789漢", "x"),
    "margins": ("\x1b[2;4r\x1b[4;1H", "\n\n\nx"),
    "origin mode": ("\x1b[2;4r\x1b[?6h\x1b[2;2H", "x\x1b[1;1Hy"),
    "insert mode": ("abc\r\x1b[4h", "x"),
    "no autowrap": ("\x1b[?7l\x1b[1;12H", "xyz"),
    "newline mode": ("ab\x1b[20h", "\nx"),
    "tab stops": ("\x1b[3g\x1b[5G\x1bH\x1b[9G\x1bH\r", "\tx\ty\tz"),
    "no tab stops": ("\x1b[3g", "\tx"),
    "line drawing": ("\x1b(0", "q\x1b(Bq"),
    "line drawing in G1": ("\x1b)0", "q\x0eq\x0fq"),
    "line drawing in G2, locked": ("\x1b*0\x1bn", "q\x0fq"),
    "the saved cursor": ("\x1b[3;4H\x1b[1;35m\x1b(0\x1b7\x1b(B\x1b[m\x1b[H", "\x1b8q"),
    "the saved cursor with a pending wrap": ("0123456789ab\x1b7\x1b[H", "\x1b8x"),
    "the saved cursor with origin mode": (
        "\x1b[2;4r\x1b[?6h\x1b[2;2H\x1b7\x1b[?6l\x1b[r",
        "\x1b8x",
    ),
    "no saved cursor": ("ab\r\ncd", "\x1b8x"),
    "the primary screen beneath": ("ab\x1b[31m\x1b[?1049h\x1b[3;3Hcd", "\x1b[?1049lx"),
    "beneath without a saved cursor": ("ab\x1b[?47hcd", "\x1b[?47lx\x1b8y"),
    "each one's saved cursor": ("ab\x1b7\x1b[?47h\x1b[3;3H\x1b7\x1b[H", "\x1b8x\x1b[?47l\x1b8y"),
    "the alternate screen behind": ("ab\x1b[?47h\x1b[3;3Hcd\x1b[?47l", "\x1b[?47hx"),
    "half a sequence": ("ab\x1b[1;3", "1mx"),
    "half a title": ("\x1b]2;ab", "cd\x07x"),
    "kept titles": ("\x1b]2;a\x07\x1b[22t\x1b]2;b\x07", "\x1b[23t"),
    "a kept title that was empty": ("\x1b[22;2t\x1b]0;b\x07", "\x1b[23t"),
    "no title over a kept one": ("\x1b]0;a\x07\x1b[22t\x1b]0;\x07", "\x1b[23t"),
    "a kept name of an icon": ("\x1b]0;a\x07\x1b[22;1t\x1b]0;b\x07", "\x1b[23t"),
    "half a character": ("漢".encode()[:2], "漢".encode()[2:]),
    "a colour of a blank row": ("\x1b[44m\x1b[2K\x1b[m", "x"),
    "a cell of many marks": ("e\u0301\u0302\u0303漢\u0301", "x"),
    "a joiner before another character": ("  🔥\x1b[1G漢\u200d\x1b[2;1H", "x"),
}


@pytest.mark.parametrize(("before", "after"), HIDDEN.values(), ids=HIDDEN.keys())
def test_a_repainted_screen_goes_on_the_same(before: str | bytes, after: str | bytes) -> None:
    original = screen_after(before)
    again = screen_after(original.repaint())
    assert again.snapshot() == original.snapshot()
    for screen in (original, again):
        screen.feed(after.encode() if isinstance(after, str) else after)
    assert again.snapshot() == original.snapshot()
    assert again.snapshot() != screen_after(before).snapshot()


def test_a_repaint_needs_no_fresh_terminal_but_one_with_its_modes() -> None:
    original = screen_after("one\x1b[2;3Htwo")
    used = screen_after("x" * 50, "\x1b[2;3r\x1b(0\x1b[7m\x1b[4h", original.repaint())
    assert used.snapshot() == original.snapshot()


def test_a_title_that_is_not_set_is_not_sent() -> None:
    assert b"\x1b]" not in screen_after("x").repaint()


@pytest.mark.parametrize("count", [0, 1, 3, 4, 5, 20])
def test_so_many_lines_of_the_scrollback_come_along(count: int) -> None:
    original = screen_after("".join(f"\x1b[3{n % 8}mline {n}\r\n" for n in range(16)))
    again = screen_after(original.repaint(scrollback=count))
    assert again.snapshot(count).scrollback == original.snapshot(count).scrollback
    assert again.snapshot(99).lines == original.snapshot().lines
    assert again.snapshot().scrollback_lines == min(count, 12)
