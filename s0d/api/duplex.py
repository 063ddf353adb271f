"""One WebSocket between a client and a terminal: control as text, terminal bytes as binary."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, Protocol, TypeVar, cast

import trio
from quart import Websocket

from s0d.model.errors import InputBufferFull, InvalidRequest, S0dError
from s0d.wire.attach import MAX_START, START_WITHIN, Control, Reason, frame, refused
from s0d.wire.requests import decode

from .errors import RequestTimeout, RequestTooLarge
from .streams import BATCH, Streams, binary_frame
from .workarounds import CUT, FRAMES, Frames

NORMAL, GOING_AWAY, POLICY = 1000, 1001, 1008

_ROOM_WITHIN: Final = 30.0
"""Seconds that input waits for a program that does not read; then it is refused and said to be."""
_LAST_WITHIN: Final = 10.0
"""Seconds that a client has to take the last frame of what is not there any more."""
_FIRST_LOOK, _LONGEST_LOOK = 0.005, 0.1


class Start(Protocol):
    """The first message of a client."""

    type: str

    def check(self) -> None: ...


S = TypeVar("S", bound=Start)


class Controls(Protocol):
    """What a client may ask for; each raises an `S0dError` to refuse it."""

    async def input(self, data: bytes, *, eof: bool = False) -> None: ...
    async def resize(self, rows: int, cols: int) -> None: ...
    async def signal(self, name: str | int) -> None: ...


class Duplex:
    """The frames of one connection."""

    def __init__(self, websocket: Websocket, streams: Streams) -> None:
        self._websocket = websocket
        self._streams = streams
        scope = cast(dict[str, Any], websocket.scope)
        self._framed = FRAMES in scope.get("extensions", {})
        self._cut: Callable[[], None] = scope.get("state", {}).get(CUT, _nothing)

    # -- to the client -------------------------------------------------------------------------

    async def tell(self, message: bytes) -> None:
        """A control frame."""
        await self._websocket.send(message.decode("ascii"))

    async def output(self, chunks: Iterable[bytes]) -> None:
        """Terminal bytes, in one write."""
        data = memoryview(b"".join(chunks))
        pieces = [data[at : at + BATCH] for at in range(0, len(data), BATCH)]
        if self._framed and pieces:
            await self._websocket.send(Frames(b"".join(map(binary_frame, pieces))))
        else:
            for piece in pieces:
                await self._websocket.send(bytes(piece))

    def cut(self) -> None:
        """End the connection under whatever is being sent, which is done then, whoever reads."""
        self._cut()

    async def close(self, last: bytes | None, code: int = NORMAL) -> None:
        """Close, after `last` where there is something left to say."""
        if last is not None:
            await self.tell(last)
        await self._websocket.close(code, "")

    async def end(self, reason: Reason | None) -> None:
        """Close for a reason; for none where the client has left."""
        code = GOING_AWAY if reason is Reason.SHUTDOWN else NORMAL
        last = None if reason is None else frame("ENDED", reason=reason)
        async with trio.open_nursery() as nursery:
            if reason is Reason.DELETED:  # nothing is left that a slow client could come back to
                nursery.start_soon(self._cut_late)
            await self.close(last, code)
            nursery.cancel_scope.cancel()

    async def _cut_late(self) -> None:
        await trio.sleep(_LAST_WITHIN)
        self.cut()

    async def refuse(self, error: S0dError) -> None:
        """Close: the start was refused."""
        await self.close(refused(error), POLICY)

    # -- from the client -----------------------------------------------------------------------

    async def start(self, type: type[S]) -> S | Reason | None:
        """The first message; a reason where there was none and will be none, None where the client
        has left.  Raises what the client is refused with."""
        with self._streams.waiting(START_WITHIN) as wait:
            try:
                message = await self._websocket.receive()
            except trio.EndOfChannel:
                return None
        if wait.cancelled_caught:
            if self._streams.stopped:
                return Reason.SHUTDOWN
            raise RequestTimeout(f"START did not come within {START_WITHIN:g} s")
        return _parse_start(message, type)

    async def take(self, controls: Controls) -> Reason | None:
        """Carry out what the client sends, in order, until it detaches, or has left (None)."""
        while True:
            try:
                message = await self._websocket.receive()
            except trio.EndOfChannel:
                return None
            try:
                if isinstance(message, bytes):
                    if message:
                        await controls.input(message)
                elif await self._obey(_parse_control(message), controls):
                    return Reason.DETACHED
            except S0dError as error:
                await self.tell(refused(error))

    async def _obey(self, control: Control, controls: Controls) -> bool:
        """Carry out one control message; whether it was the last."""
        if control.type == "RESIZE":
            control.check_resize()
            await controls.resize(control.rows, control.cols)
        elif control.type == "SIGNAL":
            await controls.signal(control.signal)
        elif control.type == "EOF":
            await controls.input(b"", eof=True)
        elif control.type == "PING":
            await self.tell(frame("PONG"))
        elif control.type != "DETACH":
            raise InvalidRequest("type: must be one of RESIZE, SIGNAL, EOF, DETACH, PING")
        return control.type == "DETACH"

    async def until_shutdown(self) -> Reason:
        """Wait for the end of the application."""
        with self._streams.waiting():
            await trio.sleep_forever()
        return Reason.SHUTDOWN


class Patience:
    """Waits with input for a program that has enough of it, instead of refusing it.

    One that does not read for 30 s is waited for no more until it has read again.
    """

    def __init__(self) -> None:
        self._left = True

    async def put(self, put: Callable[[], Awaitable[object]]) -> None:
        """Call `put` until it does not raise `InputBufferFull` any more."""
        deadline = trio.current_time() + (_ROOM_WITHIN if self._left else 0)
        delay = _FIRST_LOOK
        while True:
            try:
                await put()
            except InputBufferFull:
                self._left = trio.current_time() < deadline
                if not self._left:
                    raise
            else:
                self._left = True
                return
            await trio.sleep(delay)
            delay = min(2 * delay, _LONGEST_LOOK)


def _nothing() -> None:
    """Where the server does not let its connections be cut."""


def _parse_start(message: str | bytes, type: type[S]) -> S:
    if not isinstance(message, str):
        raise InvalidRequest("the first message must be START, as text")
    data = message.encode(errors="surrogatepass")
    if len(data) > MAX_START:
        raise RequestTooLarge(f"START has at most {MAX_START} bytes")
    start = cast(S, decode(data, cast(Any, type)))
    if start.type != "START":
        raise InvalidRequest("type: the first message must be START")
    start.check()
    return start


def _parse_control(message: str) -> Control:
    return decode(message.encode(errors="surrogatepass"), Control)
