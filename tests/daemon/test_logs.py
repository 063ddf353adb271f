"""One line an event, whatever is in it."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
import time
from typing import Any

import pytest

from s0d.daemon.logs import Aside, JsonFormatter, TextFormatter, escape

EVIL = "a\nFAKE LINE\r\x1b[2J\x00\x85\u2028é"


def record(message: str, *args: Any, error: bool = False, **extra: Any) -> logging.LogRecord:
    exc_info = None
    if error:
        exc_info = (ValueError, ValueError(EVIL), None)
    made = logging.LogRecord("s0d.x", logging.WARNING, "f", 1, message, args, exc_info)
    made.__dict__.update(extra)
    made.created, made.msecs = 1_700_000_000.0625, 62.5
    return made


def test_text() -> None:
    line = TextFormatter().format(record("hi %s", "there", session="ses-1", note="a b", none=""))
    assert line == (
        '2023-11-14T22:13:20.062Z WARNING s0d.x: hi there session=ses-1 note="a b" none=""'
    )


def test_json() -> None:
    line = JsonFormatter().format(record("hi %s", "there", session="ses-1", odd={1}))
    assert json.loads(line) == {
        "time": "2023-11-14T22:13:20.062Z",
        "level": "warning",
        "logger": "s0d.x",
        "message": "hi there",
        "session": "ses-1",
        "odd": "{1}",
    }


@pytest.mark.parametrize("formatter", [TextFormatter(), JsonFormatter()])
def test_nothing_forges_a_line_or_drives_a_terminal(formatter: logging.Formatter) -> None:
    line = formatter.format(record("%s", EVIL, error=True, session=EVIL))
    assert re.search(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]", line) is None
    assert "ValueError" in line


def test_escape() -> None:
    assert escape("plain é") == "plain é"
    assert escape(EVIL) == "a\\nFAKE LINE\\r\\x1b[2J\\x00\\x85\\u2028é"
    assert escape("\ud800") == "\\ud800"


class Stuck(io.StringIO):
    """A log that nobody reads until `go`."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def write(self, text: str) -> int:
        assert self.go.wait(30)
        return super().write(text)


def test_lines_of_requests_are_written_aside() -> None:
    """Whoever logs does not wait; what was too much is told, all else is there, in order."""
    stream = Stuck()
    target = logging.StreamHandler(stream)
    target.setFormatter(JsonFormatter())
    aside = Aside(target, room=100)
    began = time.monotonic()
    for number in range(5000):
        aside.emit(record("line", number=number))
    assert time.monotonic() - began < 5
    stream.go.set()
    aside.close()
    lines = [json.loads(line) for line in stream.getvalue().splitlines()]
    numbers = [line["number"] for line in lines if line["message"] == "line"]
    assert numbers == sorted(numbers)
    dropped = sum(line["lines"] for line in lines if line["message"].endswith("dropped"))
    assert dropped > 0
    assert len(numbers) + dropped == 5000


def test_a_log_that_was_closed_is_no_fault() -> None:
    stream = io.StringIO()
    target = logging.StreamHandler(stream)
    aside = Aside(target)
    stream.close()
    aside.emit(record("line"))
    aside.close()
    aside.close()
