"""Bytes of a terminal as text."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s0d.mcp.text import cut_end, cut_start, plain, readable, shortened, unfinished

PIECES = st.sampled_from(
    [
        b"\x1b",
        b"[",
        b"]",
        b"0;t",
        b"\x07",
        b"\x1b\\",
        b"31m",
        b"\r",
        b"\n",
        b"\x08",
        b"a",
        b"\xc3\xa9",
    ]
)
STREAMS = st.lists(st.one_of(PIECES, st.binary(max_size=4)), max_size=60).map(b"".join)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (b"\x1b[1;31mred\x1b[0m\r\n", "red\n"),
        (b"\x1b]0;title\x07$ \x1b[?2004hls", "$ ls"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1bP$q m\x1b\\after", "after"),
        (b"\x1b(B\x1b=\x1b7x\x1b8", "x"),
        (b"10%\r20%\r30%\r\ndone\r\n", "30%\ndone\n"),
        (b"one\r\r\ntwo", "one\ntwo"),
        (b"\x07bell\x00\x0b", "bell"),
        (b"tabs\tstay", "tabs\tstay"),
        (b"typo\x08 \x08e", "type"),
        ("grün\r\n".encode(), "grün\n"),
        (b"\xff\xfe", "\ufffd\ufffd"),
    ],
)
def test_plain_text(written: bytes, text: str) -> None:
    assert readable(written, strip_ansi=True) == text


def test_as_written() -> None:
    assert readable(b"\x1b[1mx\r\n", strip_ansi=False) == "\x1b[1mx\r\n"


@given(STREAMS)
def test_any_bytes_become_plain(data: bytes) -> None:
    assert not set(plain(data)) & (set(range(32)) - {9, 10} | {127})


@pytest.mark.parametrize(
    "unit", [b"\x1b", b"\x1b]", b"\x1b[", b"\r", b"\x08", b"a\x08", b"\x1b]x\x1b"]
)
def test_time_is_in_proportion(unit: bytes) -> None:
    data = unit * (100_000 // len(unit))
    began = time.perf_counter()
    plain(data)
    unfinished(data)
    assert time.perf_counter() - began < 2.0


@pytest.mark.parametrize(
    ("data", "half"),
    [
        (b"", 0),
        (b"text", 0),
        (b"text\x1b", 1),
        (b"text\x1b[31", 4),
        (b"text\x1b[31m", 0),
        (b"text\x1b]0;ti", 6),
        (b"text\x1b]0;ti\x07", 0),
        (b"text\x1b(", 2),
        (b"text\r", 1),
        (b"text\r\n", 0),
        ("é".encode()[:1], 1),
        ("é".encode(), 0),
        ("x€".encode()[:-1], 2),
        ("x🙂".encode()[:-1], 3),
        ("x🙂".encode(), 0),
        (b"\x80\x80\x80\x80\x80", 0),
    ],
)
def test_what_is_not_finished(data: bytes, half: int) -> None:
    assert unfinished(data) == half


@given(STREAMS, st.integers(1, 40))
def test_pages_put_together_are_the_whole(data: bytes, most: int) -> None:
    pages = []
    rest = data
    while rest:
        end = cut_end(rest, most)
        assert 0 < end <= max(most, 1)
        pages.append(rest[:end])
        rest = rest[end:]
    assert b"".join(pages) == data


@given(st.text(max_size=200), st.integers(4, 40))
def test_no_cut_goes_through_a_character(text: str, most: int) -> None:
    data = text.encode()
    data[: cut_end(data, most)].decode()
    data[cut_start(data, most) :].decode()
    assert len(data) - cut_start(data, most) <= most


def test_cuts_are_at_lines_where_there_are_some() -> None:
    lines = b"".join(b"line %d\n" % n for n in range(100))
    assert lines[: cut_end(lines, 100)].endswith(b"\n")
    assert lines[cut_start(lines, 100) :].startswith(b"line ")


@given(st.text(max_size=300), st.integers(3, 100))
def test_shortened(text: str, most: int) -> None:
    short, left_out = shortened(text, most)
    if left_out == 0:
        assert short == text
    else:
        assert left_out == len(text) - most
        head, _, tail = short.partition(f"\n[... {left_out} characters left out ...]\n")
        assert text.startswith(head)
        assert text.endswith(tail)
        assert len(head) + len(tail) == most
