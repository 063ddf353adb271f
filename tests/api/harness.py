"""A served API, and clients that see every byte: raw HTTP and raw WebSocket on a Trio stream."""

from __future__ import annotations

import base64
import json
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import h11
import trio
from wsproto.connection import Connection, ConnectionType
from wsproto.events import CloseConnection, Message, Ping, TextMessage

from s0d.api.auth import StaticTokens
from s0d.api.config import ApiConfig, TcpAddress, UnixAddress
from s0d.api.server import serve_api

TOKEN = "a-token-of-the-tests"
AUTH = {"Authorization": f"Bearer {TOKEN}"}
JSON = {**AUTH, "Content-Type": "application/json"}
LIMIT = 10.0  # seconds after which a test is taken to hang


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def data(self) -> Any:
        assert self.json["success"] is True, self
        return self.json["data"]

    @property
    def code(self) -> str:
        assert self.json["success"] is False, self
        assert self.headers["content-type"] == "application/json"
        return str(self.json["error"]["code"])


def request(
    method: str,
    target: str,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    host: str | None = "localhost",
) -> bytes:
    """The bytes of a request, with a Content-Length where there is a body."""
    lines = [f"{method} {target} HTTP/1.1"]
    fields = {"Host": host, **(headers or {})}
    if body:
        fields.setdefault("Content-Length", str(len(body)))
    lines += [f"{name}: {value}" for name, value in fields.items() if value is not None]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body


class Wire:
    """One connection."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._h11 = h11.Connection(h11.CLIENT)
        self._data = bytearray()

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def ask(self, method: str, target: str, headers: Any = None, body: bytes = b"") -> Answer:
        await self.send(request(method, target, AUTH if headers is None else headers, body))
        return await self.answer(method)

    async def answer(self, method: str = "GET") -> Answer:
        """The next answer, whole."""
        head = await self.head(method)
        with trio.fail_after(LIMIT):
            while (await self._event()) is not h11.EndOfMessage:
                pass
        self._done()
        return Answer(head.status, head.headers, bytes(self._data))

    async def head(self, method: str = "GET") -> Answer:
        """The head of the next answer (100 Continue, too); its body is for `until`."""
        if self._h11.our_state is h11.IDLE:
            self._h11.send(h11.Request(method=method, target="/", headers=[("Host", "x")]))
            self._h11.send(h11.EndOfMessage())
        self._data.clear()
        with trio.fail_after(LIMIT):
            event = await self._event()
        assert isinstance(event, h11.Response | h11.InformationalResponse), event
        headers = {name.decode(): value.decode() for name, value in event.headers}
        return Answer(event.status_code, headers, b"")

    async def until(self, text: bytes) -> bytes:
        """The body so far, once it holds `text`; what stands after `text` is kept."""
        looked = 0
        with trio.fail_after(LIMIT):
            while self._data.find(text, looked) < 0:
                looked = max(0, len(self._data) - len(text))
                assert await self._event() is h11.Data, f"ended with {bytes(self._data)!r}"
        found, _, rest = bytes(self._data).partition(text)
        self._data[:] = rest
        return found + text

    async def rest(self) -> bytes:
        """What comes until the answer ends."""
        with trio.fail_after(LIMIT):
            while (await self._event()) is h11.Data:
                pass
        return bytes(self._data)

    async def closed(self) -> bytes:
        """What still comes until the server hangs up."""
        data = bytearray(self._h11.trailing_data[0])
        with trio.fail_after(LIMIT):
            try:
                while chunk := await self.stream.receive_some():
                    data += chunk
            except trio.BrokenResourceError:
                data += b"<reset>"
        return bytes(data)

    async def _event(self) -> Any:
        while True:
            event = self._h11.next_event()
            if event is h11.NEED_DATA:
                self._h11.receive_data(await self.stream.receive_some())
            elif isinstance(event, h11.Data):
                self._data += event.data
                return h11.Data
            elif isinstance(event, h11.EndOfMessage):
                return h11.EndOfMessage
            else:
                return event

    def _done(self) -> None:
        if self._h11.their_state is h11.DONE and self._h11.our_state is h11.DONE:
            self._h11.start_next_cycle()


class Closed(NamedTuple):
    code: int
    reason: str


class Socket:
    """A WebSocket client that takes whatever comes as it comes."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self._connection = Connection(ConnectionType.CLIENT)
        self._events: list[Any] = []
        self._text = ""

    async def send(self, message: Any) -> None:
        text = message if isinstance(message, str) else json.dumps(message)
        await self.stream.send_all(self.frame(TextMessage(text)))

    def frame(self, event: Any) -> bytes:
        return self._connection.send(event)

    async def receive(self) -> Any:
        """The next message (parsed JSON), `Closed` or `Ping`; b"" without a close frame."""
        with trio.fail_after(LIMIT):
            while True:
                while not self._events:
                    data = await self.stream.receive_some()
                    if not data:
                        return b""
                    self._connection.receive_data(data)
                    self._events = list(self._connection.events())
                event = self._events.pop(0)
                if isinstance(event, CloseConnection):
                    return Closed(event.code, event.reason or "")
                if isinstance(event, Ping):
                    return event
                if isinstance(event, Message):
                    self._text += event.data
                    if event.message_finished:
                        text, self._text = self._text, ""
                        return json.loads(text)

    async def until(self, type: str) -> list[Any]:
        """All messages up to the first of this type."""
        found = []
        while not found or found[-1]["type"] != type:
            message = await self.receive()
            assert isinstance(message, dict), message
            found.append(message)
        return found


def handshake(target: str, headers: Mapping[str, str] | None = None) -> bytes:
    key = base64.b64encode(bytes(16)).decode()
    upgrade = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": key,
    }
    return request("GET", target, {**upgrade, **(AUTH if headers is None else headers)})


@dataclass
class Served:
    """A running `serve_api`."""

    address: TcpAddress
    path: str
    shutdown: trio.Event
    close: trio.Event
    ended: trio.Event = field(default_factory=trio.Event)
    cancel: trio.CancelScope = field(default_factory=trio.CancelScope)
    streams: list[trio.SocketStream] = field(default_factory=list)

    async def connect(self, *, unix: bool = False, window: int = 0) -> Wire:
        """A connection; it is closed with the server if the test does not do so.

        With a `window` (bytes) the client's kernel takes about that much and no more.
        """
        sock = trio.socket.socket(socket.AF_UNIX if unix else socket.AF_INET)
        if window:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, window)
        stream = trio.SocketStream(sock)
        self.streams.append(stream)
        await sock.connect(self.path if unix else self.address)
        return Wire(stream)

    async def admitted(self) -> None:
        """Connect until there is room: the server learns of an end later than the client."""
        with trio.fail_after(LIMIT):
            while True:
                wire = await self.connect()
                try:
                    await wire.send(request("GET", "/healthz"))
                    if await wire.stream.receive_some():
                        return
                except trio.BrokenResourceError:
                    pass
                await wire.stream.aclose()

    async def ask(
        self, method: str, target: str, headers: Any = None, body: Any = b"", unix: bool = False
    ) -> Answer:
        """One request on a connection of its own; a body that is not bytes goes as JSON."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
            headers = JSON if headers is None else headers
        wire = await self.connect(unix=unix)
        async with wire.stream:
            return await wire.ask(method, target, headers, body)

    async def websocket(self, target: str, headers: Any = None, window: int = 0) -> Socket:
        wire = await self.connect(window=window)
        await wire.send(handshake(target, headers))
        with trio.fail_after(LIMIT):
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += await wire.stream.receive_some(1)
        assert head.startswith(b"HTTP/1.1 101"), head
        return Socket(wire.stream)


@asynccontextmanager
async def serving(
    supervisor: Any, directory: Path, *, two_steps: bool = False, **settings: Any
) -> AsyncIterator[Served]:
    """Serve on a TCP and a Unix socket; in one step unless the test closes for itself."""
    path = str(directory / "api.sock")
    config = ApiConfig(
        **{
            "listen": (TcpAddress("127.0.0.1", 0), UnixAddress(path)),
            "tokens": StaticTokens.one(TOKEN),
            **settings,
        }
    )
    shutdown = trio.Event()
    close = trio.Event() if two_steps else shutdown
    async with trio.open_nursery() as nursery:
        served = Served(TcpAddress("", 0), path, shutdown, close)
        serve = partial(serve_api, supervisor, config, shutdown=shutdown, close=close)
        with trio.fail_after(LIMIT):
            [served.address, *_] = await nursery.start(_run, serve, served)
        try:
            yield served
        finally:
            shutdown.set()
            close.set()
            for stream in served.streams:
                stream.socket.close()
            nursery.cancel_scope.deadline = trio.current_time() + LIMIT


async def _run(serve: Any, served: Served, *, task_status: trio.TaskStatus[Any]) -> None:
    with served.cancel:
        await serve(task_status=task_status)
    served.ended.set()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()
