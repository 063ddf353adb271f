"""A terminal's history as an asciicast, version 2 or 3 (docs.asciinema.org/manual/asciicast).

One JSON value a line: a header, then `[time, code, data]`; `o` is output, `i` input, `r` a resize
as `COLSxROWS`, `m` a marker, `x` (version 3) the exit status.  Times are seconds since the attempt
began in version 2, and since the line before in version 3.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any, Literal

from s0d.model import event as ev
from s0d.model.event import Event

from .envelope import to_json

Version = Literal[2, 3]


class Asciicast:
    """Encodes the events of one attempt, in order; what is of another is passed over.

    With `inputs` also what was typed.  The journal keeps that only where the specification asks for
    it (it may have been a password); else each input is a marker with its size.
    """

    def __init__(self, version: Version, attempt_id: str, *, inputs: bool = False) -> None:
        self._version = version
        self._attempt_id = attempt_id
        self._inputs = inputs
        self._start_ns: int | None = None
        self._last = 0.0
        # A character may be split between two events.
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._typed = codecs.getincrementaldecoder("utf-8")("replace")

    def header(
        self, rows: int, cols: int, *, start_ns: int, term: str, command: str, title: str = ""
    ) -> bytes:
        """The first line; `start_ns` is when the attempt began (Unix time)."""
        self._start_ns = start_ns
        size: dict[str, Any]
        if self._version == 2:
            size = {"width": cols, "height": rows, "env": {"TERM": term}}
        else:
            size = {"term": {"cols": cols, "rows": rows, "type": term}}
        fields = {"version": self._version, **size, "timestamp": start_ns // 10**9}
        fields["command"] = command
        if title:
            fields["title"] = title
        return to_json(fields) + b"\n"

    def lines(self, events: Iterable[Event]) -> bytes:
        """The lines of `events`."""
        return b"".join([self._line(e) for e in events if e.attempt == self._attempt_id])

    def _line(self, event: Event) -> bytes:
        fields = event.fields
        if event.type == ev.OUTPUT:
            return self._entry(event, "o", self._decoder.decode(fields["data"]))
        if event.type == ev.TERMINAL_RESIZED:
            return self._entry(event, "r", f"{fields['cols']}x{fields['rows']}")
        if event.type == ev.INPUT_ACCEPTED and self._inputs:
            return self._input(event)
        if event.type == ev.ATTEMPT_EXITED:
            return self._end(event)
        return b""

    def _input(self, event: Event) -> bytes:
        typed = event.fields.get("typed")
        if typed is None:
            return self._entry(event, "m", f"input: {event.fields['bytes']} bytes")
        return self._entry(event, "i", self._typed.decode(typed))

    def _end(self, event: Event) -> bytes:
        rest = self._decoder.decode(b"", final=True)
        last = self._entry(event, "o", rest)
        if self._version == 3 and "exit_code" in event.fields:
            last += self._entry(event, "x", str(event.fields["exit_code"]))
        return last

    def _entry(self, event: Event, code: str, data: str) -> bytes:
        if not data:
            return b""
        start = self._start_ns if self._start_ns is not None else event.time_ns
        # The wall clock may have been set back: a recording never goes back.
        at = max((event.time_ns - start) / 1e9, self._last)
        time = at if self._version == 2 else at - self._last
        self._last = at
        return to_json([round(time, 6), code, data]) + b"\n"
