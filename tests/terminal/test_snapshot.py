"""Snapshots as data, as text, as HTML and as ANSI; slices; sizes."""

from __future__ import annotations

import json

import msgspec
import pytest

from s0d.terminal import Cursor, Modes, Run, Screen, Snapshot


def screen_after(data: str | bytes, rows: int = 3, cols: int = 12) -> Screen:
    screen = Screen(rows, cols)
    screen.feed(data.encode() if isinstance(data, str) else data)
    return screen


def test_a_fresh_screen() -> None:
    assert Screen(2, 5).snapshot() == Snapshot(
        rows=2,
        cols=5,
        lines=((), ()),
        cursor=Cursor(row=0, col=0, visible=True, shape="block", blink=False),
        title="",
        modes=Modes(),
        margins=(0, 1),
        alternate=False,
    )


def test_runs_count_columns() -> None:
    line = screen_after("ab漢\x1b[31me\u0301x\x1b[m漢字").snapshot().lines[0]
    assert line == (Run("ab漢", 4), Run("e\u0301x", 2, fg=1), Run("漢字", 4))


def test_json_of_a_run_has_only_what_is_set() -> None:
    run = screen_after("\x1b[1;38;2;1;2;3mx").snapshot().lines[0][0]
    assert json.loads(msgspec.json.encode(run)) == {
        "text": "x",
        "width": 1,
        "fg": "#010203",
        "bold": True,
    }


def test_a_snapshot_survives_json() -> None:
    snapshot = screen_after("\x1b[1;32;48;5;99mé漢\r\n\x1b[?1049h\x1b]0;t\x07").snapshot(10)
    assert msgspec.json.decode(msgspec.json.encode(snapshot), type=Snapshot) == snapshot


MODES = {
    "\x1b[?1h": {"application_cursor": True},
    "\x1b=": {"application_keypad": True},
    "\x1b[?66h": {"application_keypad": True},
    "\x1b=\x1b>": {},
    "\x1b[?2004h": {"bracketed_paste": True},
    "\x1b[?2004h\x1b[?2004l": {},
    "\x1b[?1004h": {"focus_events": True},
    "\x1b[?9h": {"mouse": "x10"},
    "\x1b[?1000h": {"mouse": "normal"},
    "\x1b[?1000;1002h": {"mouse": "button"},
    "\x1b[?1003h": {"mouse": "any"},
    "\x1b[?1000h\x1b[?1002h\x1b[?1000l": {},
    "\x1b[?1005h": {"mouse_encoding": "utf8"},
    "\x1b[?1006h": {"mouse_encoding": "sgr"},
    "\x1b[?1015h": {"mouse_encoding": "urxvt"},
    "\x1b[?1016h": {"mouse_encoding": "sgr_pixels"},
    "\x1b[?1007h": {"alternate_scroll": True},
    "\x1b[>4;2m": {"modify_other_keys": 2},
    "\x1b[>4;2m\x1b[>4m": {},
    "\x1b[>4;1m\x1b[>4n": {},
    "\x1b[4h": {"insert": True},
    "\x1b[20h": {"newline": True},
    "\x1b[?6h": {"origin": True},
    "\x1b[?7l": {"autowrap": False},
    "\x1b[?45h": {"reverse_wrap": True},
    "\x1b[?5h": {"reverse_video": True},
    "\x1b[?1h\x1b=\x1b[4h\x1b[?6h\x1b[?7l\x1b[!p": {},
    "\x1b[?1h\x1b[?2004h\x1b[?1003h\x1b[?1006h\x1b[>4;2m\x1b[20h\x1bc": {},
    "\x1b[?3h\x1b[?40h\x1b[?9999h\x1b[99h": {},
}


@pytest.mark.parametrize(("data", "modes"), MODES.items(), ids=[repr(key) for key in MODES])
def test_modes(data: str, modes: dict[str, object]) -> None:
    snapshot = screen_after(data).snapshot()
    assert snapshot.modes == Modes(**modes)  # type: ignore[arg-type]
    again = Screen(3, 12)
    again.feed(screen_after(data).repaint())
    assert again.snapshot() == snapshot


@pytest.mark.parametrize(
    ("data", "shape", "blink", "visible"),
    [
        ("", "block", False, True),
        ("\x1b[0 q", "block", False, True),
        ("\x1b[ q", "block", False, True),
        ("\x1b[1 q", "block", True, True),
        ("\x1b[2 q", "block", False, True),
        ("\x1b[3 q", "underline", True, True),
        ("\x1b[4 q", "underline", False, True),
        ("\x1b[5 q", "bar", True, True),
        ("\x1b[6 q", "bar", False, True),
        ("\x1b[7 q", "block", False, True),
        ("\x1b[?12h", "block", True, True),
        ("\x1b[?25l", "block", False, False),
        ("\x1b[?25l\x1b[?12;25h", "block", True, True),
    ],
)
def test_the_cursor(data: str, shape: str, blink: bool, visible: bool) -> None:
    cursor = screen_after(data).snapshot().cursor
    assert (cursor.shape, cursor.blink, cursor.visible) == (shape, blink, visible)


def test_margins_and_the_alternate_screen() -> None:
    snapshot = screen_after("\x1b[?47h\x1b[1;2r").snapshot()
    assert (snapshot.margins, snapshot.alternate) == ((0, 1), True)


def test_text_has_scrollback_above() -> None:
    screen = screen_after("1\r\n2\r\n3\r\n4\r\n5")
    assert screen.text() == "3\n4\n5\n"
    assert screen.text(scrollback=1) == "2\n3\n4\n5\n"
    assert screen.text(scrollback=9) == "1\n2\n3\n4\n5\n"
    assert screen.snapshot(-1).scrollback == ()


def test_ansi_shows_the_same_on_another_screen() -> None:
    screen = screen_after(
        "\x1b[1;31mred\x1b[m plain\r\n\x1b[7m漢\x1b[38;2;1;2;3m.\r\n\x1b[53;8;2mx"
    )
    assert screen.ansi().split("\n")[0] == "\x1b[0;1;31mred\x1b[0m plain"
    other = screen_after("\x1b[?7l" + screen.ansi().rstrip("\n").replace("\n", "\r\n"))
    assert other.snapshot().lines == screen.snapshot().lines


def test_html_is_escaped_and_styled() -> None:
    screen = screen_after("<b>&\x1b[1;31;42mx\x1b[0;7my\x1b[0;3;4;9;38;5;231mz")
    assert screen.html().split("\n")[0] == (
        '<pre class="s0d-screen">&lt;b&gt;&amp;'
        '<span style="color:#cd0000;background:#00cd00;font-weight:bold">x</span>'
        '<span style="color:Canvas;background:CanvasText">y</span>'
        '<span style="color:#ffffff;font-style:italic;text-decoration:underline line-through">'
        "z</span>"
    )


@pytest.mark.parametrize(
    ("colour", "rgb"),
    [(16, "#000000"), (110, "#87afd7"), (232, "#080808"), (255, "#eeeeee"), (12, "#5c5cff")],
)
def test_palette_colours_are_those_of_xterm(colour: int, rgb: str) -> None:
    assert f"color:{rgb}" in screen_after(f"\x1b[38;5;{colour}mx").html()


def test_changed_rows() -> None:
    screen = screen_after("1\r\n2\r\n3")
    before = screen.snapshot()
    screen.feed(b"\x1b[2;1Hx")
    after = screen.snapshot()
    assert after.changed(before) == [1]
    assert after.changed(after) == []
    assert after.changed(None) == [0, 1, 2]
    screen.resize(2, 12)
    assert screen.snapshot().changed(after) == [0, 1]


def test_slices_yield_between_and_show_the_same() -> None:
    data = b"\x1b[31mline\r\n" * 1000
    whole, sliced = screen_after(data), Screen(3, 12)
    assert sum(1 for _ in sliced.feed_slices(data, 1000)) == (len(data) - 1) // 1000
    assert sliced.snapshot(10) == whole.snapshot(10)
    assert list(sliced.feed_slices(b"x")) == []
    assert list(sliced.feed_slices(b"")) == []


def test_slices_of_a_wide_screen_are_smaller() -> None:
    assert sum(1 for _ in Screen(3, 800).feed_slices(b"x" * 4000, 1000)) == 39


@pytest.mark.parametrize(
    ("asked", "given"),
    [((0, 0), (1, 1)), ((-5, 7), (1, 7)), ((65535, 65535), (512, 1024)), ((24, 80), (24, 80))],
)
def test_sizes_are_clamped(asked: tuple[int, int], given: tuple[int, int]) -> None:
    assert Screen(*asked).size == given
    screen = Screen(10, 10)
    screen.resize(*asked)
    assert screen.size == given
    assert (screen.snapshot().rows, screen.snapshot().cols) == given
