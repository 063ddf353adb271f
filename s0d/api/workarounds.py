"""Faults of Hypercorn 0.18 and Quart-Trio 0.12, each handled in one place.

Look at each again when a version moves; `tests/api/test_workarounds.py` has a test for every line
that fails without it (of 17: `tests/e2e/test_tls.py`).

==  =========================================================================================
 #  fault, and what is done here
==  =========================================================================================
 1  Connections never close after `Connection: close`: Quart-Trio takes the `http.disconnect`
    that follows the last body for the client's leaving and cancels Hypercorn's own close
    (related: hypercorn issue 330).  `HTTPConnection` remembers that the last body was sent.
 2  A WebSocket handshake and a frame in one packet make Hypercorn answer twice and raise
    `LocalProtocolError` out of the connection.  `WSStream` takes no bytes before the accept;
    `s0d.api.connection` lets no exception out of a connection.
 3  After a disconnect `send` returns without a checkpoint, so a producing loop never yields.
    Both streams and the connection yield there.
 4  `send_all` is shielded, so a reader that is stuck defeats shutdown: see `connection.abort`.
 5  An answer that does not wait for the body hangs when the body has filled the application's
    queue: the disconnect event cannot be queued.  `Inbox` always has room for it.
 6  An empty binary WebSocket message reaches the application as None.  `WebsocketConnection`.
 7  A WebSocket handler's exception closes with 1000, not 1011.  `WebsocketConnection`.
 8  A client's close cancels the handler with messages still unread.  `WebsocketConnection`
    ends the handler's input instead: what arrived before the close is still handled.
 9  A WebSocket message over the limit closes with 1009 but leaves the socket open; a protocol
    error closes the socket without a close frame.  `WSStream._handle_events`.
10  `permessage-deflate` is accepted whenever it is offered, with no option against it: it
    triples CPU and base64 gains little.  `WSStream` does not see the offer.
11  The first ping comes at once, and the pinging task outlives its connection by an interval.
12  The head of an answer goes out in a write of its own (and a packet).  `H11Protocol` holds it
    for the first bytes of the body.
13  100 Continue is sent before anybody decided to want the body.  `_Connection`.
14  Errors of Hypercorn's own have no body.  They get one of ours here.
15  Cleartext HTTP/2 (h2c and prior knowledge) would bypass all of this: not offered.
16  Of several `Connection` headers the last one counts; the sandbox0 SDK sends `Upgrade` and then
    `keep-alive`.  `_with_one_connection` joins them (RFC 9110, section 5.3).
17  An HTTP/2 client that leaves while an answer is being sent leaves its connection for ever: the
    answer waits for a buffer that nobody empties.  `http2.H2Protocol` closes the buffers.
==  =========================================================================================

Handled elsewhere, since they are only settings: `keep_alive_max_requests` (`connection`),
`RESPONSE_TIMEOUT`, which cuts streams (`app`), and `GET ?x`, which gives a 500 (`gate`).  A
pipelined second request stops Hypercorn from seeing a disconnect: the heartbeats of `sse` and
the pings here make a write fail instead.
"""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from itertools import chain
from typing import Any, cast

import h11
import trio
from hypercorn.config import Config
from hypercorn.events import RawData
from hypercorn.protocol.events import Body, Data, EndBody, Request, Response, StreamClosed
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import STREAM_ID, H11WSConnection
from hypercorn.protocol.h11 import H11Protocol as HypercornH11Protocol
from hypercorn.protocol.http_stream import ASGIHTTPState
from hypercorn.protocol.http_stream import HTTPStream as HypercornHTTPStream
from hypercorn.protocol.ws_stream import FrameTooLargeError
from hypercorn.protocol.ws_stream import WSStream as HypercornWSStream
from hypercorn.trio.task_group import TaskGroup as HypercornTaskGroup
from hypercorn.trio.task_group import _handle
from hypercorn.typing import AppWrapper
from quart.asgi import ASGIHTTPConnection
from quart_trio import QuartTrio
from quart_trio.asgi import TrioASGIHTTPConnection, TrioASGIWebsocketConnection
from wsproto.connection import ConnectionState
from wsproto.events import CloseConnection, Message, Ping
from wsproto.frame_protocol import CloseReason

from s0d.wire.envelope import failure
from s0d.wire.problem import CONTENT_TYPE, expects_problem, problem

FRAMES = "s0d.websocket.frames"
"""The ASGI extension by which `WSStream` takes whole frames: many messages in one write."""

CUT = "cut"
"""The key of a connection's state by which the application ends it, also amid a write (4)."""

MAX_JOINED = 64 << 10
"""Bytes of a body that are copied to go out with their head; more go out by themselves."""

Send = Callable[[Any], Awaitable[None]]


# -- the application's side of a connection -----------------------------------------------------


class Inbox:
    """What the server has for the application: bounded, but a disconnect always fits (5)."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._events: deque[Any] = deque()
        self._room = trio.lowlevel.ParkingLot()
        self._news = trio.lowlevel.ParkingLot()
        self._over = False

    async def put(self, event: Any) -> None:
        if event["type"].endswith(".disconnect"):
            self._events.append(event)
            self.close()
            return
        while len(self._events) >= self._size and not self._over:
            await self._room.park()
        if self._over:
            await trio.lowlevel.checkpoint()
        else:
            self._events.append(event)
            self._news.unpark()

    async def get(self) -> Any:
        while not self._events:
            await self._news.park()
        if len(self._events) == 1 and self._over:
            return self._events[0]  # the disconnect stays: whoever asks again gets it again
        self._room.unpark()
        return self._events.popleft()

    def close(self) -> None:
        """Nobody needs anything more: later events are dropped, nobody waits for room."""
        self._over = True
        self._room.unpark_all()
        self._news.unpark_all()


class TaskGroup(HypercornTaskGroup):
    """Hypercorn's tasks of one connection, with an `Inbox` for each application call."""

    async def spawn_app(
        self, app: Any, config: Config, scope: Any, send: Send
    ) -> Callable[[Any], Awaitable[None]]:
        inbox = Inbox(config.max_app_queue_size)

        async def run() -> None:
            try:
                await _handle(
                    app,
                    config,
                    scope,
                    inbox.get,
                    send,
                    trio.to_thread.run_sync,
                    trio.from_thread.run,
                )
            finally:
                inbox.close()

        assert self._nursery is not None
        self._nursery.start_soon(run)
        return inbox.put


class Frames(bytes):
    """Whole WebSocket frames, sent as they are where the server offers `FRAMES`."""


class HTTPConnection(TrioASGIHTTPConnection):
    """One HTTP request in Quart-Trio."""

    _finished = False

    async def handle_messages(  # type: ignore[override]
        self, nursery: trio.Nursery, request: Any, receive: Any
    ) -> None:
        await ASGIHTTPConnection.handle_messages(self, request, receive)
        if not self._finished:  # (1)
            nursery.cancel_scope.cancel()

    async def handle_request(self, nursery: trio.Nursery, request: Any, send: Any) -> None:  # type: ignore[override]
        try:
            await super().handle_request(nursery, request, send)
        finally:
            request.body.release()  # see `bodies`

    async def _send_response(self, send: Any, response: Any) -> None:
        async def noting(message: Any) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body", False):
                self._finished = True
            await send(message)

        try:
            await super()._send_response(noting, response)
        finally:
            # A client that left before the first byte leaves a body that was never entered.
            close = getattr(response.response, "close", None)
            if close is not None:
                close()


class WebsocketConnection(TrioASGIWebsocketConnection):
    """One WebSocket in Quart-Trio."""

    async def handle_messages(self, nursery: trio.Nursery, receive: Any) -> None:  # type: ignore[override]
        async with self.send_channel:  # (8): closing it ends the handler's input
            while (event := await receive())["type"] != "websocket.disconnect":
                if event["type"] == "websocket.receive":
                    data = event.get("bytes")
                    await self.send_channel.send(event["text"] if data is None else data)  # (6)

    async def handle_websocket(self, nursery: trio.Nursery, websocket: Any, send: Any) -> None:  # type: ignore[override]
        async def failing(message: Any) -> None:
            # Handlers close for themselves, so a close by the framework means one has failed (7).
            if message["type"] == "websocket.close":
                message = {**message, "code": 1011}
            await send(message)

        await super().handle_websocket(nursery, websocket, failing)

    async def send_data(self, send: Any, data: str | bytes) -> None:
        if isinstance(data, Frames):
            await send({"type": "websocket.send", "bytes": None, "text": None, "frames": data})
        else:
            await super().send_data(send, data)


class Application(QuartTrio):
    """Quart-Trio with the connections above."""

    asgi_http_class = HTTPConnection
    asgi_websocket_class = WebsocketConnection


# -- the protocol's side ------------------------------------------------------------------------


def _error(status: int, target: bytes = b"/") -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Body and headers of an answer of the server's own (14)."""
    code, says = "invalid_request", "malformed HTTP request"
    if status >= 500:
        code, says = "internal_error", "internal error"
    body, kind = failure(code, says), "application/json"
    if expects_problem(target.decode("latin-1")):
        code = "validation_failed" if status < 500 else code
        body, kind = problem(code, status, says), CONTENT_TYPE
    headers = [
        (b"content-type", kind.encode()),
        (b"content-length", b"%d" % len(body)),
        (b"x-request-id", uuid.uuid4().hex.encode()),
        (b"connection", b"close"),
    ]
    return body, headers


async def _send_error(send: Send, stream_id: int, status: int, target: bytes) -> None:
    body, headers = _error(status, target)
    await send(Response(stream_id, headers, status))
    await send(Body(stream_id, body))
    await send(EndBody(stream_id))


class HTTPStream(HypercornHTTPStream):
    _target = b"/"

    async def handle(self, event: StreamEvent) -> None:
        if isinstance(event, Request):
            self._target = event.raw_path
        await super().handle(event)

    async def app_send(self, message: Any) -> None:
        if self.closed and message is not None:
            await trio.lowlevel.checkpoint()  # (3)
        else:
            await super().app_send(message)

    async def _send_error_response(self, status_code: int) -> None:
        await _send_error(self.send, self.stream_id, status_code, self._target)
        self.state = ASGIHTTPState.CLOSED


class WSStream(HypercornWSStream):
    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._target = b"/"
        self._answered = trio.Event()
        self._gone = trio.Event()

    async def handle(self, event: StreamEvent) -> None:
        if isinstance(event, Request):  # (10)
            self._target = event.raw_path
            headers = [h for h in event.headers if h[0].lower() != b"sec-websocket-extensions"]
            event = replace(event, headers=headers)
        elif isinstance(event, Body | Data):  # (2): nothing is read before the handshake's answer
            await self._answered.wait()
            if not self.handshake.accepted:
                return
        elif isinstance(event, StreamClosed):
            self._answered.set()
            self._gone.set()
        await super().handle(event)

    async def app_send(self, message: Any) -> None:
        if self.closed:
            await trio.lowlevel.checkpoint()  # (3)
        elif message is not None and "frames" in message:
            if self.connection.state is ConnectionState.OPEN:
                await self.send(Data(self.stream_id, message["frames"]))
        else:
            await super().app_send(message)

    async def _accept(self, message: Any) -> None:
        await super()._accept(message)
        self._answered.set()

    async def _handle_events(self) -> None:
        for event in self.connection.events():
            if isinstance(event, Message):
                if not await self._take(event):
                    return
            elif isinstance(event, Ping):
                await self._send_wsproto_event(event.response())
            elif isinstance(event, CloseConnection):
                # Asked by the client it is echoed; for a protocol error we say which (9).
                await self._send_wsproto_event(event.response())
                await self.send(StreamClosed(self.stream_id))

    async def _take(self, event: Any) -> bool:
        """Hand a message on once it is complete; False when it is over the limit (9)."""
        try:
            self.buffer.extend(event)
        except FrameTooLargeError:
            await self._send_wsproto_event(CloseConnection(code=CloseReason.MESSAGE_TOO_BIG))
            await self.send(StreamClosed(self.stream_id))
            return False
        if event.message_finished:
            message = self.buffer.to_message()
            self.buffer.clear()
            await cast(Send, self.app_put)(message)
        return True

    async def _send_error_response(self, status_code: int) -> None:
        await _send_error(self.send, self.stream_id, status_code, self._target)
        await self.send(StreamClosed(self.stream_id))  # Hypercorn leaves it open

    async def _send_pings(self) -> None:
        """A ping after each interval, until the stream is gone (11)."""
        while not self._gone.is_set():
            with trio.move_on_after(cast(float, self.config.websocket_ping_interval)):
                await self._gone.wait()
                return
            await self._send_wsproto_event(Ping())


class _Connection(h11.Connection):
    """Never asks Hypercorn for a 100 Continue: `H11Protocol` sends it when the body is wanted."""

    they_are_waiting_for_100_continue = False

    @property
    def wants_continue(self) -> bool:
        return bool(self.client_is_waiting_for_100_continue)


class H11Protocol(HypercornH11Protocol):
    """HTTP/1.1, with the streams above."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connection = _Connection(
            h11.SERVER, max_incomplete_event_size=self.config.h11_max_incomplete_size
        )
        self._head = b""

    async def stream_send(self, event: StreamEvent) -> None:
        if isinstance(event, Response) and event.status_code >= 200 and self._is_last():
            event = replace(event, headers=[*event.headers, (b"connection", b"close")])
        await super().stream_send(event)

    def _is_last(self) -> bool:
        """Stopping, or the body was not read: the connection cannot go on, and says so."""
        return self.context.terminated.is_set() or self.connection.their_state is h11.SEND_BODY

    async def _check_protocol(self, event: h11.Request) -> None:
        """No HTTP/2 in clear text (15)."""

    async def _create_stream(self, request: h11.Request) -> None:
        headers = _with_one_connection(request.headers)
        stream_class = WSStream if _is_upgrade(request.method, headers) else HTTPStream
        self.stream = stream_class(
            cast(AppWrapper, self._run_app),
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            STREAM_ID,
        )
        if isinstance(self.stream, WSStream):
            self.connection = H11WSConnection(cast(h11.Connection, self.connection))
        await self.stream.handle(
            Request(
                stream_id=STREAM_ID,
                headers=headers,
                http_version=request.http_version.decode(),
                method=request.method.decode("ascii").upper(),
                raw_path=request.target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    async def _run_app(self, scope: Any, receive: Any, send: Any, *spawn: Any) -> None:
        """The application, which gets a 100 Continue out by asking for the body (13)."""
        if scope["type"] == "websocket":
            scope["extensions"][FRAMES] = {}

        async def receive_body() -> Any:
            connection = self.connection
            if isinstance(connection, _Connection) and connection.wants_continue:
                await self._send_h11_event(h11.InformationalResponse(status_code=100, headers=[]))
            return await receive()

        await self.app(scope, receive_body, send, *spawn)

    async def _send_h11_event(self, event: Any) -> None:
        try:
            data = self.connection.send(event)
        except h11.LocalProtocolError:
            if self.connection.their_state is not h11.ERROR:
                raise
            return
        if isinstance(event, h11.Response):
            self._head += data  # (12)
        elif data or self._head:
            head, self._head = self._head, b""
            if head and len(data) > MAX_JOINED:
                await self.send(RawData(data=head))
                head = b""
            await self.send(RawData(data=head + data))

    async def _send_error_response(self, status_code: int) -> None:
        body, ours = _error(status_code)
        headers = list(chain(ours, self.config.response_headers("h11")))
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


def _with_one_connection(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers with all that `Connection` said in one (16)."""
    rest = [(name, value) for name, value in headers if name != b"connection"]
    said = [value for name, value in headers if name == b"connection"]
    return [*rest, (b"connection", b", ".join(said))] if said else rest


def _is_upgrade(method: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Is this a WebSocket's opening handshake (RFC 6455, section 4.2.1)?"""
    found = {name: value.lower() for name, value in headers}
    tokens = found.get(b"connection", b"").split(b",")
    return (
        method == b"GET"
        and found.get(b"upgrade", b"").strip() == b"websocket"
        and any(token.strip() == b"upgrade" for token in tokens)
    )
