"""Whether the unfinished line is empty, as the terminal itself sees it."""

from __future__ import annotations

import os
import select
import termios
import tty

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.process.line import InputLine, LineSettings


def fed(settings_: LineSettings, *parts: bytes) -> InputLine:
    line = InputLine()
    for part in parts:
        line.feed(part, settings_)
    return line


@pytest.fixture(scope="module")
def usual() -> LineSettings:
    master, slave = os.openpty()
    try:
        return LineSettings.of(master)
    finally:
        os.close(slave)
        os.close(master)


CASES = [
    (b"", True),
    (b"a", False),
    (b"a\n", True),
    (b"a\r", True),
    (b"a\nb", False),
    (b"\x04", True),
    (b"a\x04", True),
    (b"ab\x7f", False),
    (b"ab\x7f\x7f", True),
    (b"ab\x15", True),
    (b"ab cd\x17", False),
    (b"ab  \x17", True),
    (b"a-b\x17", False),
    (b" \x16\n\x17", True),
    ("é".encode() + b"\x7f", False),  # two characters, unless the terminal knows UTF-8
    (b"a\x03", True),
    (b"a\x16\n", False),
    (b"\x16\x04", False),
    (b"\x16", False),
    (b"x" * 5000, False),
]


@pytest.mark.parametrize(("data", "empty"), CASES)
def test_of_what_was_written(usual: LineSettings, data: bytes, empty: bool) -> None:
    assert fed(usual, data).empty == empty
    assert fed(usual, *[bytes([code]) for code in data]).empty == empty


def test_what_was_written_raw_is_no_line(usual: LineSettings) -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    raw = LineSettings.of(master)
    os.close(slave)
    os.close(master)
    line = fed(usual, b"abc")
    line.feed(b"x", raw)
    assert (raw.canonical, line.empty) == (False, True)


def test_a_disabled_character_is_none() -> None:
    master, slave = os.openpty()
    attributes = termios.tcgetattr(slave)
    attributes[6][termios.VEOF] = b"\0"
    termios.tcsetattr(slave, termios.TCSANOW, attributes)
    found = LineSettings.of(master)
    os.close(slave)
    os.close(master)
    assert (found.canonical, found.eof) == (True, None)


KEYS = st.lists(
    st.sampled_from(
        [b"a", b" ", b"_", b"-", "é".encode(), b"\n", b"\x7f", b"\x15", b"\x17", b"\x16", b"\r"]
    )
)


@settings(deadline=None, max_examples=200)
@given(KEYS)
def test_as_the_kernel_sees_it(keys: list[bytes]) -> None:
    """One EOF character ends the file exactly when the line is empty."""
    master, slave = os.openpty()
    try:
        data = b"".join(keys)
        os.write(master, data)
        line = fed(LineSettings.of(master), data)
        os.set_blocking(slave, False)
        _read_lines(slave)
        if line._literal:
            return  # the next key, the EOF character, would be quoted
        os.write(master, b"\x04")
        ready, _, _ = select.select([slave], [], [], 5)
        assert ready
        assert (os.read(slave, 4096) == b"") == line.empty
    finally:
        os.close(slave)
        os.close(master)


def _read_lines(slave: int) -> None:
    """Take the finished lines.  (What is written to a master is processed by a kernel worker.)"""
    termios.tcdrain(slave)
    while select.select([slave], [], [], 0.005)[0]:
        os.read(slave, 4096)
