from __future__ import annotations

import random
import re

import pytest

from s0d.model.errors import InvalidRequest
from s0d.wire.log import MAX_LINE, Assembler, Found, every, parse_moment

KEY = ("att-1", "stdout")


def joined(pieces: list[bytes], assembler: Assembler) -> list[bytes]:
    lines = [line for n, piece in enumerate(pieces) for line in assembler.feed(n, 0, KEY, piece)]
    return [line.data for line in [*lines, *assembler.end(len(pieces), 0, KEY[0])]]


def cut(data: bytes, source: random.Random) -> list[bytes]:
    places = sorted(source.randrange(len(data)) for _ in range(source.randrange(20)))
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True) if a < b]


@pytest.mark.parametrize("seed", range(30))
def test_lines_do_not_depend_on_how_they_were_written(seed: int) -> None:
    source = random.Random(seed)
    data = bytes(source.choices(b"ab\n\r \xff", k=200))
    whole = data if data.endswith(b"\n") else data + b"\n"
    lines = whole.replace(b"\r\n", b"\n").split(b"\n")[:-1]
    assert joined(cut(data, source), Assembler(every)) == lines
    for expression in (rb"(?m)^a", rb"(?m)b$", rb"(?m)^$", rb"(?m)a\s*b", rb"(?m)a|b"):
        wanted = [line for line in lines if re.search(expression, line)]
        assert joined(cut(data, source), Assembler(Found(re.compile(expression)))) == wanted


def test_streams_and_attempts_are_apart_and_a_line_is_its_last_pieces() -> None:
    assembler = Assembler()
    assert assembler.feed(1, 10, ("a", "stdout"), b"out ") == []
    assert assembler.feed(2, 20, ("a", "stderr"), b"err\nrest") == [(2, 20, "a", "stderr", b"err")]
    assert assembler.feed(3, 30, ("b", "stdout"), b"other\n") == [(3, 30, "b", "stdout", b"other")]
    assert assembler.feed(4, 40, ("a", "stdout"), b"put\n") == [(4, 40, "a", "stdout", b"out put")]
    assert assembler.end(5, 50, "b") == []
    assert assembler.end(6, 60, "a") == [(6, 60, "a", "stderr", b"rest")]
    assert assembler.unfinished == {}


def test_a_line_has_an_end() -> None:
    assembler = Assembler()
    lines = joined([b"x" * 1000] * 200, assembler)
    assert max(map(len, lines)) == MAX_LINE
    assert b"".join(lines) == b"x" * 200_000


@pytest.mark.parametrize(
    ("text", "ns"),
    [
        ("90s", 10**18 - 90 * 10**9),
        ("250ms", 10**18 - 250 * 10**6),
        ("2h", 10**18 - 7200 * 10**9),
        ("1d", 10**18 - 86400 * 10**9),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01T01:00:01.000001+01:00", 10**9 + 1000),
        ("1970-01-02", 86400 * 10**9),
    ],
)
def test_moments(text: str, ns: int) -> None:
    assert parse_moment(text, "since", 10**18) == ns


@pytest.mark.parametrize("text", ["", "soon", "-5s", "5", "5x", "2026-13-01"])
def test_no_moment(text: str) -> None:
    with pytest.raises(InvalidRequest, match="since: write a time"):
        parse_moment(text, "since", 0)
