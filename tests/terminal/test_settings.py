"""What stays set of output that is left out: the same modes as feeding it all, however split."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.terminal import Screen, Settings, Snapshot

ROWS, COLS = 8, 40
SETTERS = (
    *(b"\x1b[?%d%c" % (mode, how) for mode in (1, 6, 25, 47, 1002, 1006, 2004) for how in b"hl"),
    *(
        b"\x1b[4h",
        b"\x1b[4l",
        b"\x1b=",
        b"\x1b>",
        b"\x1b[2;5r",
        b"\x1b[r",
        b"\x1b[5 q",
        b"\x1b[>4;1m",
    ),
    *(b"\x1b]2;title\x07", b"\x1b]0;other\x1b\\", b"\x1b]1;icon\x07", b"\x1b[!p", b"\x1bc"),
    *(b"\x1b(0", b"\x1b)0", b"\x1b(B", b"\x0e", b"\x0f", b"\x1bn", b"\x1b*0"),
    *(b"\x1b[31m", b"\x1b[1;44m", b"\x1b[m", b"\x1b[0m", b"\x1b[38:5:9m"),
)
OTHERS = (
    b"text",
    b"\r\n",
    b"\x1b[3;4H",
    b"\x1b[K",
    b"\x1b[2J",
    b"\x1b[A",
    b"\xe6\xbc\xa2",
    b"\x1b[5;",
)
output = st.lists(st.sampled_from(SETTERS + OTHERS), max_size=30).map(b"".join)


def after(data: bytes, *sizes: int) -> Settings:
    """The settings of `data`, taken in pieces of these sizes."""
    taken = Settings()
    for size in sizes:
        taken.take(data[:size])
        data = data[size:]
    taken.take(data)
    return taken


def set_by(data: bytes) -> Snapshot:
    """The screen with "q" on it, in the colours and the character set of the moment."""
    screen = Screen(ROWS, COLS)
    # What text before would do with it is another question: where it stands, what it pushes.
    screen.feed(data + b"\x18\x1b[4l\x1b[?6l\x1b[2J\x1b[3J\x1b[Hq")
    return msgspec.structs.replace(screen.snapshot(), scrollback_lines=0)


@given(output, st.lists(st.integers(0, 12), max_size=30))
@settings(max_examples=300, deadline=None)
def test_what_was_set_is_what_all_of_the_output_set(data: bytes, sizes: list[int]) -> None:
    assert set_by(after(data, *sizes).anew()) == set_by(data)


def test_the_screen_is_clear_and_nothing_is_above_it() -> None:
    screen = Screen(ROWS, COLS)
    screen.feed(b"old\r\n" * 50 + b"\x1b[31mold\x1b[5")
    screen.feed(after(b"\x1b[?2004h" + b"new\r\n" * 50).anew())
    snapshot = screen.snapshot(100)
    assert (screen.text(100).split(), snapshot.scrollback) == ([], ())
    assert (snapshot.cursor.row, snapshot.cursor.col) == (0, 0)
    assert snapshot.modes.bracketed_paste


@pytest.mark.parametrize("split", range(1, 12))
def test_a_sequence_in_two_pieces_counts(split: int) -> None:
    for data in (b"\x1b[?1000;2004h", b"\x1b]2;a title\x1b\\", b"\x1b]2;a title\x07"):
        assert set_by(after(data, split).anew()) == set_by(data)


def test_margins_go_with_a_change_of_size() -> None:
    taken = after(b"\x1b[2;5r")
    taken.resized()
    taken.take(b"more")
    assert set_by(taken.anew()).margins == (0, ROWS - 1)
    taken.take(b"\x1b[3;4r")
    assert set_by(taken.anew()).margins == (2, 3)


def test_what_is_kept_is_bounded() -> None:
    taken = Settings()
    for n in range(20_000):
        taken.take(b"\x1b]2;%b\x07\x1b[?%dh\x1b[38;5;%dm" % (b"t" * 4000, n, n))
    assert len(taken.anew()) < 200_000
    taken.take(b"\x1b]2;" + b"." * 1_000_000)
    taken.take(b"\x07")
    assert len(taken.anew()) < 200_000
