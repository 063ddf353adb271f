"""A screen as it changes, as a `text/event-stream` (an extension of the wire contract).

The first frame is the whole screen (`event: screen`), the later ones what changed (`event:
changes`), at most 30 a second whatever the program writes; a new attempt or size begins anew with
a whole one.  A client that misses some has missed nothing: each is as of its `seq`.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import trio
from quart.wrappers.response import Response, ResponseBody

from s0d.journal import CursorExpired
from s0d.supervisor.screens import Screens, View
from s0d.supervisor.waiting import pause
from s0d.wire.envelope import to_json

from .call import Call
from .screen import view_changes, view_screen
from .sse import HEADERS
from .streams import Streams

if TYPE_CHECKING:
    from s0d.supervisor import Session


async def stream_screen(call: Call) -> Response:
    """The screen now, and then its changes.  No terminal: refused before the head."""
    with call.sandbox.screens.looking(call.session) as screen:
        await screen.refresh()
    body = ScreenStream(call.session, call.sandbox.screens, call.streams, call.config.heartbeat)
    response = Response(body, headers=HEADERS)
    response.timeout = None  # RESPONSE_TIMEOUT would cut it
    return response


class ScreenStream(ResponseBody):
    """The frames of one looker; an attachment while it is open.

    Ends when the session is deleted or the application stops.
    """

    def __init__(
        self, session: Session, screens: Screens, streams: Streams, heartbeat: float
    ) -> None:
        self._session = session
        self._screens = screens
        self._streams = streams
        self._heartbeat = heartbeat
        self._stack = ExitStack()
        self._stack.enter_context(session.attach(session.journal.latest))
        self._position: int | None = None  # the journal has been looked at up to here
        self._last: View | None = None
        self._due = 0.0  # when to look again at the earliest

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Detach.  May be called twice, and without the stream ever having begun."""
        self._stack.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        with self._streams.waiting(self._heartbeat) as wait:
            frame = await self._next_frame()
        if wait.cancelled_caught and not self._streams.stopped:
            return b": keep-alive\n\n"
        if wait.cancelled_caught or frame is None:
            raise StopAsyncIteration
        return frame

    async def _next_frame(self) -> bytes | None:
        """The next frame; None when the session has been deleted."""
        while await self._wait():
            await trio.sleep_until(self._due)
            began = trio.current_time()
            frame = await self._look()
            now = trio.current_time()
            self._due = now + pause(now - began)
            if frame is not None:
                return frame
        return None

    async def _wait(self) -> bool:
        """Until there is something new in the journal; False when nothing more will come."""
        if self._position is None:
            return True
        try:
            with self._session.journal.cursor(self._position) as bell:
                return await bell.read() is not None
        except CursorExpired:
            return True  # it has run away: certainly something new

    async def _look(self) -> bytes | None:
        with self._screens.looking(self._session) as screen:
            view = await screen.look()
            self._position = screen.position
        last, self._last = self._last, view
        if last is not None and (last.attempt_id, last.seq) == (view.attempt_id, view.seq):
            return None
        return self._frame(view, last)

    def _frame(self, view: View, last: View | None) -> bytes:
        kind, shown = "screen", view_screen(self._session.id, view)
        if last is not None and _comparable(view, last):
            kind, shown = "changes", view_changes(self._session.id, view, last)
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (view.seq, kind.encode(), to_json(shown))


def _comparable(view: View, last: View) -> bool:
    now, then = view.snapshot, last.snapshot
    return view.attempt_id == last.attempt_id and (now.rows, now.cols) == (then.rows, then.cols)
