"""Recordings, line by line (docs.asciinema.org/manual/asciicast/v2, v3)."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from s0d.wire.asciicast import Asciicast, Version

START = 1_800_000_000_000_000_000


class Event(NamedTuple):
    type: str
    fields: dict[str, Any]
    time_ns: int
    attempt: str | None = "att-1"
    seq: int = 1
    generation: int = 1


def output(seconds: float, data: bytes, attempt: str = "att-1") -> Event:
    return Event("output", {"stream": "pty", "data": data}, START + int(seconds * 1e9), attempt)


def cast(version: Version, *events: Event, inputs: bool = False) -> list[Any]:
    encoder = Asciicast(version, "att-1", inputs=inputs)
    head = encoder.header(24, 80, start_ns=START, term="xterm", command="sh -c x", title="t")
    text = head + encoder.lines(events)
    assert text.isascii()
    return [json.loads(line) for line in text.splitlines()]


EVENTS = (
    Event("attempt.starting", {"rows": 24, "cols": 80}, START),
    output(0.5, b"$ "),
    Event("input.accepted", {"input_id": "i", "bytes": 3}, START + 10**9),
    output(1.25, "lösé".encode()),
    output(1.5, b"not ours", "att-2"),
    Event("terminal.resized", {"rows": 30, "cols": 100}, START + 2 * 10**9),
    Event("attempt.exited", {"exit_code": 3}, START + 3 * 10**9),
)


def test_version_2() -> None:
    assert cast(2, *EVENTS) == [
        {
            "version": 2,
            "width": 80,
            "height": 24,
            "env": {"TERM": "xterm"},
            "timestamp": 1_800_000_000,
            "command": "sh -c x",
            "title": "t",
        },
        [0.5, "o", "$ "],
        [1.25, "o", "lösé"],
        [2.0, "r", "100x30"],
    ]


def test_version_3_counts_from_the_line_before_and_has_the_exit() -> None:
    assert cast(3, *EVENTS, inputs=True) == [
        {
            "version": 3,
            "term": {"cols": 80, "rows": 24, "type": "xterm"},
            "timestamp": 1_800_000_000,
            "command": "sh -c x",
            "title": "t",
        },
        [0.5, "o", "$ "],
        [0.5, "m", "input: 3 bytes"],
        [0.25, "o", "lösé"],
        [0.75, "r", "100x30"],
        [1.0, "x", "3"],
    ]


def test_what_was_typed_is_given_where_it_was_retained() -> None:
    typed = [
        Event("input.accepted", {"bytes": len(data), "typed": data}, START + int(at * 1e9))
        for at, data in [(1, b"ls\r"), (2, b"\xc3"), (3, b"\xa9\x03")]
    ]
    assert cast(2, *typed, inputs=True)[1:] == [[1.0, "i", "ls\r"], [3.0, "i", "é\x03"]]
    assert cast(2, *typed)[1:] == []


@pytest.mark.parametrize("split", range(1, 6))
def test_a_character_that_is_split_between_events_stays_whole(split: int) -> None:
    data = "é漢!".encode()
    lines = cast(2, output(0, data[:split]), output(1, data[split:]))[1:]
    assert "".join(line[2] for line in lines) == "é漢!"


def test_bytes_that_are_no_text_are_replaced_and_a_half_one_at_the_end_is_said() -> None:
    exited = Event("attempt.exited", {"exit_code": 0}, START + 10**9)
    lines = cast(2, output(0, b"a\xffb\xe6"), exited)[1:]
    assert lines == [[0.0, "o", "a�b"], [1.0, "o", "�"]]


def test_time_never_goes_back() -> None:
    later, earlier = output(2, b"a"), output(1, b"b")
    assert cast(2, later, earlier)[1:] == [[2.0, "o", "a"], [2.0, "o", "b"]]
    assert cast(3, later, earlier)[1:] == [[2.0, "o", "a"], [0.0, "o", "b"]]
