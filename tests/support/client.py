"""A client on Trio that sees every byte: requests, event streams and WebSockets on a Unix socket.

Small and fast on purpose: nothing between the test and the daemon may repair, reorder or hide
anything.  A connection that ends, in whatever way, is `Gone`: the daemon may die at any moment.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import trio

API: Final = "/api/v1/sessions"
_CHUNK: Final = 256 << 10
_EVENT: Final = b'{"type":"event","event":'


class Gone(Exception):
    """The connection has ended; what was asked for may or may not have happened."""


class Refused(Exception):
    """A stream was not granted."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Answer(NamedTuple):
    status: int
    body: bytes

    @property
    def data(self) -> Any:
        """`data` of an answer that must be a success."""
        envelope = json.loads(self.body)
        assert envelope["success"] is True, self
        return envelope["data"]

    @property
    def error(self) -> dict[str, Any]:
        envelope = json.loads(self.body)
        assert envelope["success"] is False, self
        return dict(envelope["error"])


class Event(NamedTuple):
    """An event with its JSON as it came: the same bytes on every surface and at every time."""

    seq: int
    fields: dict[str, Any]
    raw: bytes


def parse_event(raw: bytes) -> Event:
    fields = msgspec.json.decode(raw)
    return Event(fields["seq"], fields, bytes(raw))


class Reader:
    """Bytes of a stream, by line and by count."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self._stream = stream
        self._buffer = bytearray()

    async def line(self) -> bytes:
        """Up to and without the next CRLF."""
        searched = 0
        while (end := self._buffer.find(b"\r\n", searched)) < 0:
            searched = max(0, len(self._buffer) - 1)
            await self._more()
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 2]
        return line

    async def exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            await self._more()
        data = bytes(self._buffer[:size])
        del self._buffer[:size]
        return data

    async def _more(self) -> None:
        try:
            data = await self._stream.receive_some(_CHUNK)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Gone(str(error)) from error
        if not data:
            raise Gone("end of file")
        self._buffer += data


class Connection:
    """One connection, for requests one after the other, or for one stream."""

    def __init__(self, stream: trio.SocketStream) -> None:
        self.stream = stream
        self.reader = Reader(stream)

    async def send(self, data: bytes) -> None:
        try:
            await self.stream.send_all(data)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise Gone(str(error)) from error

    async def ask(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request below `API`, and its answer."""
        await self.send(request(method, path, body, headers))
        status, fields = await self.head()
        if fields.get("transfer-encoding") == "chunked":
            return Answer(status, b"".join([part async for part in self._chunks()]))
        return Answer(status, await self.reader.exactly(int(fields["content-length"])))

    async def _chunks(self) -> AsyncIterator[bytes]:
        while size := int(await self.reader.line(), 16):
            yield await self.reader.exactly(size)
            await self.reader.line()
        await self.reader.line()

    async def head(self) -> tuple[int, dict[str, str]]:
        status = int((await self.reader.line()).split()[1])
        fields = {}
        while line := await self.reader.line():
            name, _, value = line.decode("latin-1").partition(": ")
            fields[name.lower()] = value
        return status, fields


def request(
    method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
) -> bytes:
    data = b"" if body is None else json.dumps(body).encode()
    fields = {"Host": "localhost", "Content-Length": str(len(data)), **(headers or {})}
    if body is not None:
        fields["Content-Type"] = "application/json"
    lines = [f"{method} {API}{path} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


class EventStream:
    """Server-sent events; `comments` are the lines for nobody in particular."""

    def __init__(self, connection: Connection) -> None:
        self._reader = connection.reader
        self._rest = b""
        self.comments: list[bytes] = []

    async def receive(self) -> list[Event] | None:
        """The events of the next chunk; None when the server has ended the stream.

        `Gone` where it is cut short.
        """
        size = int(await self._reader.line(), 16)
        frames = (self._rest + await self._reader.exactly(size)).split(b"\n\n")
        await self._reader.line()
        self._rest = frames.pop()
        if size == 0:
            assert self._rest == b""
            return None
        return [event for frame in frames if (event := self._parse(frame)) is not None]

    def _parse(self, frame: bytes) -> Event | None:
        if frame.startswith(b":"):
            self.comments.append(frame)
            return None
        number, kind, data = frame.split(b"\n")
        event = parse_event(data.removeprefix(b"data: "))
        assert number == b"id: %d" % event.seq
        assert kind == b"event: " + event.fields["type"].encode()
        return event


class WebSocket:
    """The client's side of RFC 6455, as far as it is needed."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.closed: tuple[int, str] | None = None

    async def send(self, message: Mapping[str, Any]) -> None:
        await self._connection.send(_masked(0x81, json.dumps(message).encode()))

    async def receive(self) -> list[dict[str, Any] | Event] | None:
        """The next message, an event as `Event`; None when the server has closed."""
        opcode, data = await self._frame()
        while opcode == 9:
            await self._connection.send(_masked(0x8A, data))
            opcode, data = await self._frame()
        if opcode == 8:
            self.closed = int.from_bytes(data[:2], "big"), data[2:].decode()
            return None
        if data.startswith(_EVENT):
            return [parse_event(data[len(_EVENT) : -1])]
        return [json.loads(data)]

    async def _frame(self) -> tuple[int, bytes]:
        reader = self._connection.reader
        first, size = await reader.exactly(2)
        assert first & 0xF0 == 0x80, "a whole frame, without extensions"
        if size >= 126:
            size = int.from_bytes(await reader.exactly(2 if size == 126 else 8), "big")
        return first & 0x0F, await reader.exactly(size)


def _masked(first: int, data: bytes) -> bytes:
    size = len(data)
    head = bytes((first, 0x80 | size)) if size < 126 else bytes((first, 0xFE))
    head += b"" if size < 126 else size.to_bytes(2, "big")
    return head + bytes(4) + data  # a mask of zeros is a mask


class Client:
    """Everything that the tests ask of the daemon behind `socket`."""

    def __init__(self, socket: Path) -> None:
        self._socket = str(socket)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Connection]:
        try:
            stream = await trio.open_unix_socket(self._socket)
        except OSError as error:
            raise Gone(str(error)) from error
        try:
            yield Connection(stream)
        finally:
            stream.socket.close()

    async def ask(
        self, method: str, path: str = "", body: Any = None, key: str | None = None
    ) -> Answer:
        """One request on a connection of its own; `key` is the Idempotency-Key."""
        headers = {} if key is None else {"Idempotency-Key": key}
        async with self.connect() as connection:
            return await connection.ask(method, path, body, headers)

    @asynccontextmanager
    async def events(self, session: str, after: int | None = None) -> AsyncIterator[EventStream]:
        """An event stream; `Refused` where it is not granted (`refused_stream` says why)."""
        async with self.connect() as connection:
            await connection.send(request("GET", _target(session, "events/stream", after)))
            status, _ = await connection.head()
            if status != 200:
                raise Refused(status)
            yield EventStream(connection)

    @asynccontextmanager
    async def websocket(self, session: str, after: int | None = None) -> AsyncIterator[WebSocket]:
        async with self.connect() as connection:
            await connection.send(request("GET", _target(session, "ws", after), None, _UPGRADE))
            status, _ = await connection.head()
            if status != 101:
                raise Refused(status)
            yield WebSocket(connection)

    async def refused_stream(self, session: str, kind: str, after: int) -> Answer:
        """The plain answer to a stream (`events/stream` or `ws`) that is not granted."""
        headers = _UPGRADE if kind == "ws" else {}
        async with self.connect() as connection:
            return await connection.ask("GET", _target(session, kind, after), None, headers)

    async def page(self, session: str, after: int | None, limit: int = 10_000) -> list[Event]:
        answer = await self.ask("GET", _target(session, "events", after, limit))
        return parse_page(answer)

    async def history(self, session: str) -> list[Event]:
        """Every retained event, page by page, up to the latest as of the first page.

        Ends early where a fast session has run away from the reader in the meantime.
        """
        answer = await self.ask("GET", _target(session, "events", None, 10_000))
        latest = answer.data["cursor"]["latest"]
        events = parse_page(answer)
        while events and events[-1].seq < latest:
            answer = await self.ask("GET", _target(session, "events", events[-1].seq, 10_000))
            if answer.status == 410:
                break
            events += parse_page(answer)
        return events


class _Page(msgspec.Struct):
    events: list[msgspec.Raw]


class _PageAnswer(msgspec.Struct):
    data: _Page


def parse_page(answer: Answer) -> list[Event]:
    assert answer.status == 200, answer
    page = msgspec.json.decode(answer.body, type=_PageAnswer)
    return [parse_event(bytes(raw)) for raw in page.data.events]


_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


def _target(session: str, kind: str, after: int | None, limit: int | None = None) -> str:
    query = [f"after={after}"] if after is not None else []
    query += [f"limit={limit}"] if limit is not None else []
    return f"/{session}/{kind}" + ("?" + "&".join(query) if query else "")


def new_name(prefix: str) -> str:
    """A name that nothing else has."""
    return f"{prefix}-{os.urandom(6).hex()}"
