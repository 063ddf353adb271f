"""Events as a `text/event-stream` response (wire contract, section 2, "SSE").

The body is an iterator over a cursor.  It is no async generator: one that is cut in mid-stream
would be left to the garbage collector, with the cursor still open.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from quart.wrappers.response import Response

from s0d.journal.errors import CursorExpired
from s0d.wire.event import EventEncoder

from .attached import AttachedBody
from .call import Call
from .streams import BATCH, Streams, sse_frames, with_more

if TYPE_CHECKING:
    from s0d.supervisor import Session

log = logging.getLogger(__name__)

HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-cache",
    "x-accel-buffering": "no",
}


async def stream_events(call: Call) -> Response:
    """Retained events after the cursor, then live ones.  Refused cursors raise before the head."""
    body = EventStream(call.session, call.after, call.streams, call.config.heartbeat)
    response = Response(body, headers=HEADERS)
    response.timeout = None  # RESPONSE_TIMEOUT would cut it
    return response


class EventStream(AttachedBody):
    """The frames of one attachment.

    Ends when the session is deleted, the application stops, or retention overtook the reader.
    """

    def __init__(
        self, session: Session, after: int | None, streams: Streams, heartbeat: float
    ) -> None:
        super().__init__(session, after)
        self._encoder = EventEncoder(session.id)
        self._streams = streams
        self._heartbeat = heartbeat
        self._greeted = False
        self._over = False

    async def __anext__(self) -> bytes:
        if not self._greeted:
            self._greeted = True
            return b": connected\n\n"
        if self._over:
            raise StopAsyncIteration
        try:
            with self._streams.waiting(self._heartbeat) as wait:
                block = await self._cursor.read(BATCH)
        except CursorExpired as error:
            self._over = True
            return b": event_cursor_expired earliest=%d\n\n" % error.earliest
        if wait.cancelled_caught and not self._streams.stopped:
            return b": keep-alive\n\n"
        if wait.cancelled_caught or block is None:
            raise StopAsyncIteration
        blocks = await with_more(self._cursor, block)
        return b"".join([sse_frames(block, self._encoder) for block in blocks])
