"""One line an event, whatever is in it."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest

from s0d.daemon.logs import JsonFormatter, TextFormatter, escape

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
