"""Catching up: the same screen as feeding everything, in bounded steps, and most of it unread."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.supervisor.feeding import LIMIT, Feeder
from s0d.terminal import Screen

LINES = b"".join(b"line %d of a flood\r\n" % n for n in range(30_000))
COLOURED = b"".join(b"\x1b[1;3%dmline %d\x1b[0m\x1b[K\r\n" % (n % 8, n) for n in range(30_000))
MOVING = b"".join(b"\x1b[%d;%dHword %d" % (n % 24 + 1, n % 70 + 1, n) for n in range(50_000))
PIECES = [
    b"plain text\r\n",
    b"\x1b[1;31mred\x1b[0m and not\r\n",
    b"\x1b[?1049h\x1b[2Jfull\x1b[5;5Hscreen",
    b"\x1b[?1049l",
    b"\x1b[2;10r\x1b[10;1Hscroll\r\n\n\n\x1b[r",
    b"\x1b]2;a title\x07",
    b"\x1b[3",
    b"2mgreen",
    b"\xe6\xbc",
    b"\xa2 wide\r\n",
    LINES[: 30 << 10],
    COLOURED[: 30 << 10],
]


def steps(feeder: Feeder, data: bytes, size: int) -> Iterator[None]:
    left = len(data)
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        left -= len(piece)
        yield from feeder.take(piece, left)
    yield from feeder.flush()


def fed(data: bytes, size: int = 4096, before: bytes = b"") -> tuple[Screen, int]:
    """The screen after `data`, and in how many steps."""
    screen = Screen(24, 80, 1000)
    screen.feed(before)
    return screen, sum(1 for _ in steps(Feeder(screen), data, size))


def whole(data: bytes) -> Screen:
    screen = Screen(24, 80, 1000)
    screen.feed(data)
    return screen


@settings(deadline=None, max_examples=40)
@given(st.lists(st.sampled_from(PIECES), max_size=12), st.integers(1, 100_000))
def test_any_output_in_any_pieces_gives_the_screen_of_all_of_it(
    parts: list[bytes], size: int
) -> None:
    data = b"".join(parts)
    screen, _ = fed(data, max(size, len(data) // 50 + 1))
    assert screen.snapshot(1000) == whole(data).snapshot(1000)


@pytest.mark.parametrize("flood", [LINES, COLOURED], ids=["lines", "coloured"])
def test_a_flood_is_skipped_whatever_the_size_of_its_events(flood: bytes) -> None:
    expected = whole(flood).snapshot(1000)
    for size in (100, 4095, 65536):
        screen, count = fed(flood, size)
        assert screen.snapshot(1000) == expected
        assert not screen.history_cut
        # Fed were at most the last screens of lines, 256 bytes a step, beside two steps a piece.
        assert count < (1048 * 40) // 256 + 3 * (len(flood) // 65536 + 2)


def test_a_flood_after_a_full_screen_program_is_skipped() -> None:
    """The program is drawn only as far as it lies within the last `LIMIT` bytes."""
    before = b"\x1b[?1049h" + MOVING[: 600 << 10] + b"\x1b[?1049l"
    screen, count = fed(before + LINES * 2, 65536)
    assert screen.text(1000) == whole(LINES).text(1000)
    assert not screen.snapshot().alternate
    assert count < len(before) // 256


def test_what_cannot_be_skipped_is_cut_to_the_limit_and_keeps_its_modes() -> None:
    data = b"\x1b[?1049h\x1b[?2004h\x1b[?1h\x1b]2;title\x07" + MOVING
    assert len(data) > 1.5 * LIMIT
    screen, count = fed(data, 65536)
    snapshot = screen.snapshot()
    assert screen.history_cut
    assert (snapshot.alternate, snapshot.title) == (True, "title")
    assert snapshot.modes.bracketed_paste
    assert snapshot.modes.application_cursor
    assert snapshot.lines == whole(data).snapshot().lines
    assert count < (LIMIT + (64 << 10)) // 256 + 8 * (len(data) // 16384 + 2)


def test_a_resize_applies_between_what_came_before_and_after() -> None:
    screen = Screen(24, 80, 1000)
    feeder = Feeder(screen)
    for _ in feeder.take(b"x" * 100 + b"\r\n", 10):
        pass
    for _ in feeder.resize(10, 40, 10):
        pass
    for _ in feeder.take(b"y" * 50, 0):
        pass
    for _ in feeder.flush():
        pass
    other = whole(b"x" * 100 + b"\r\n")
    other.resize(10, 40)
    other.feed(b"y" * 50)
    assert screen.size == (10, 40)
    assert screen.snapshot(1000) == other.snapshot(1000)


@pytest.mark.parametrize("data", [LINES, COLOURED, MOVING, b"\x1b[?1049h" + MOVING])
def test_no_step_holds_the_loop_for_long(data: bytes) -> None:
    """The processor time of a step: 2 to 5 ms here; ten times that is a broken promise."""
    longest = 0.0
    work = steps(Feeder(Screen(24, 80, 1000)), data, 65536)
    done = object()
    while True:
        began = time.thread_time()
        if next(work, done) is done:
            break
        longest = max(longest, time.thread_time() - began)
    assert longest < 0.03
