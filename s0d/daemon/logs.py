"""Logs for an operator: one line an event, as text or as JSON.

Fields beyond the message come by `extra={"session": …, "attempt": …}`.  Control characters are
escaped, tracebacks too: a session's name cannot forge a line.
"""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any, Final, TextIO

_STANDARD: Final = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None))
    | {"message": "", "asctime": "", "taskName": ""}
)
_TALKATIVE: Final = ("mcp",)
"""Packages that tell at `info` of every request."""
LEVELS: Final = ("debug", "info", "warning", "error")


def configure(format: str, level: str, stream: TextIO | None = None) -> None:
    """Send every logger of the process to `stream` (stderr), `format` being text or json."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    logging.captureWarnings(True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))


class TextFormatter(logging.Formatter):
    """`2026-01-02T03:04:05.006Z INFO s0d.daemon: message key=value`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_word(value)}" for name, value in _extras(record).items())
        text = f"{_time(record)} {record.levelname} {record.name}: {record.getMessage()}{fields}"
        if (error := self._exception(record)) is not None:
            text = f"{text} exception={error}"
        return escape(text)

    def _exception(self, record: logging.LogRecord) -> str | None:
        return self.formatException(record.exc_info) if record.exc_info else None


class JsonFormatter(logging.Formatter):
    """One ASCII object a line: `time`, `level`, `logger`, `message`, extras, `exception`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_extras(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def escape(text: str) -> str:
    """Control characters, newlines and lone surrogates as escapes; the rest as it is."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def _word(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or set(text) & set(' "=') else text


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _time(record: logging.LogRecord) -> str:
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
    return f"{whole}.{int(record.msecs):03d}Z"
