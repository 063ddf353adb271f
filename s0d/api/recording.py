"""A terminal's history as an asciicast, streamed from the journal (an extension)."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Final

from quart.wrappers.response import Response

from s0d.journal import Record
from s0d.model import event as ev
from s0d.model.errors import SessionConflict
from s0d.model.spec import IOMode
from s0d.wire.asciicast import Asciicast, Version

from .attached import AttachedBody
from .call import Call
from .params import FLAG, Text

if TYPE_CHECKING:
    from s0d.supervisor import Session

_VERSIONS: Final[dict[str, Version]] = {"asciicast-v2": 2, "asciicast-v3": 3}
FORMAT: Final = Text("format", tuple(_VERSIONS))
ATTEMPT_ID: Final = Text("attempt_id")
INPUT: Final = Text("input", FLAG)
PARAMS: Final = (FORMAT, ATTEMPT_ID, INPUT)

MEDIA: Final = "application/x-asciicast"
_READ: Final = 64 << 10
"""Bytes of journal read and encoded at once: what a recording of any length costs in memory."""


async def get_recording(call: Call) -> Response:
    """What is retained of an attempt (the newest, or `attempt_id`), up to the request."""
    form = call.text(FORMAT) or "asciicast-v2"
    session = call.session
    attempt = session.record.attempt
    if session.record.spec.io.mode is not IOMode.PTY:
        raise SessionConflict("the session has pipes, not a terminal: there is no recording")
    if attempt is None:
        raise SessionConflict("the session has not been started: there is no recording yet")
    attempt_id = call.text(ATTEMPT_ID) or attempt.id
    cast = Asciicast(_VERSIONS[form], attempt_id, inputs=call.text(INPUT) in ("true", "1"))
    response = Response(Recording(session, cast, attempt_id), headers={"content-type": MEDIA})
    response.timeout = None  # RESPONSE_TIMEOUT would cut it
    return response


class Recording(AttachedBody):
    """The lines of a recording; the attempt's first retained event makes the header."""

    def __init__(self, session: Session, cast: Asciicast, attempt_id: str) -> None:
        super().__init__(session, None)
        self._session = session
        self._cast = cast
        self._attempt_id = attempt_id
        self._last = session.journal.latest
        self._started = False

    async def __anext__(self) -> bytes:
        # Retention that overtakes a slow client raises, and so cuts the answer short for it to
        # see: a recording with a hole would look whole.
        while self._cursor.position < self._last:
            block = await self._cursor.read_available(_READ)
            if block is None:
                break
            lines = self._lines([r for r in block.records if r.attempt == self._attempt_id])
            if lines:
                return lines
        if not self._started:
            self._started = True
            return self._header(None)
        raise StopAsyncIteration

    def _lines(self, records: list[Record]) -> bytes:
        if not records:
            return b""
        head = b""
        if not self._started:
            self._started = True
            head = self._header(records[0])
        return head + self._cast.lines(records)

    def _header(self, first: Record | None) -> bytes:
        spec = self._session.record.spec
        terminal = spec.io.terminal
        rows, cols = (terminal.rows, terminal.cols) if terminal else (24, 80)
        start_ns = self._session.record.created_at_ns
        if first is not None:
            start_ns = first.time_ns
            if first.type == ev.ATTEMPT_STARTING:
                rows = first.fields.get("rows", rows)
                cols = first.fields.get("cols", cols)
        return self._cast.header(
            rows,
            cols,
            start_ns=start_ns,
            term=terminal.term if terminal else "xterm-256color",
            command=shlex.join(spec.command),
            title=spec.name or "",
        )
