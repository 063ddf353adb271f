"""Logs for an operator: one line an event, as text or as JSON.

Fields beyond the message come by `extra={"session": …, "attempt": …}`.  Control characters are
escaped, tracebacks too: a session's name cannot forge a line.
"""

from __future__ import annotations

import contextlib
import json
import logging
import queue
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

_STANDARD: Final = frozenset(
    vars(logging.LogRecord("", 0, "", 0, "", (), None))
    | {"message": "", "asctime": "", "taskName": ""}
)
_TALKATIVE: Final = ("mcp",)
"""Packages that tell at `info` of every request."""
_OF_REQUESTS: Final = ("s0d.access", "s0d.audit")
_GATHER: Final = 0.02  # seconds
_AT_ONCE: Final = 1000
LEVELS: Final = ("debug", "info", "warning", "error")


def configure(format: str, level: str, stream: TextIO | None = None) -> Callable[[], None]:
    """Send every logger of the process to `stream` (stderr), `format` being text or json.

    What is returned writes what waits, at the end.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if format == "json" else TextFormatter())
    logging.basicConfig(handlers=[handler], level=level.upper(), force=True)
    aside = Aside(handler)
    for name in _OF_REQUESTS:
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [aside], False
    logging.captureWarnings(True)
    for name in _TALKATIVE:
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(level.upper())))
    return aside.close


class Aside(logging.Handler):
    """Writes by a thread: a line a request must not hold up the loop where nobody reads the log.

    At most `room` lines wait; of those beyond it is said how many there were.
    """

    def __init__(self, target: logging.StreamHandler[TextIO], room: int = 10_000) -> None:
        super().__init__()
        self._target = target
        self._queue: queue.Queue[logging.LogRecord | None] = queue.Queue(room)
        self._dropped = 0
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="log", daemon=True)
            self._thread.start()
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self._dropped += 1

    def close(self) -> None:
        """Write what waits, for a second at most."""
        if self._thread is not None:
            with contextlib.suppress(queue.Full):
                self._queue.put(None, timeout=1)
            self._thread.join(1)
            self._thread = None
        super().close()

    def _run(self) -> None:
        over = False
        while not over:
            records = [self._queue.get()]
            if records[0] is not None:
                time.sleep(_GATHER)  # one write for all that came meanwhile
            with contextlib.suppress(queue.Empty):
                while len(records) < _AT_ONCE:
                    records.append(self._queue.get_nowait())
            over = None in records
            self._write([record for record in records if record is not None])

    def _write(self, records: list[logging.LogRecord]) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            text = "lines of the log were dropped"
            said = logging.LogRecord("s0d.log", logging.WARNING, "", 0, text, (), None)
            said.__dict__["lines"] = dropped
            records.append(said)
        target = self._target
        text = "".join([target.format(record) + target.terminator for record in records])
        with contextlib.suppress(OSError, ValueError):  # nobody reads it, or it has been closed
            target.acquire()
            try:
                target.stream.write(text)
                target.flush()
            finally:
                target.release()


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
