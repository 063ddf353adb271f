"""A client that is no bottleneck: blocking sockets, one read an answer, `wsproto` for frames."""

from __future__ import annotations

import base64
import json
import re
import socket
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import pybase64
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request, TextMessage

ROOT = "/api/v1/sandboxes/local/sessions"
TOKEN = "benchmark"  # on a socket that only this user can open
_HEADERS = f"Host: localhost\r\nAuthorization: Bearer {TOKEN}\r\n"
_PATIENCE = 120.0
_RECEIVE = 256 << 10
_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_END = b'"type":"attempt.exited"'
_END_WITHIN = 4096


def open_socket(path: str) -> socket.socket:
    """Connect to a Unix socket."""
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(_PATIENCE)
    connection.connect(path)
    return connection


class Client:
    """One connection that is kept alive; a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._socket = open_socket(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def raw(self, method: str, path: str = "", body: object = None) -> bytes:
        """The answer's body; raises `RuntimeError` for an error."""
        sent = b"" if body is None else json.dumps(body).encode()
        length = f"Content-Type: application/json\r\nContent-Length: {len(sent)}\r\n"
        self._socket.sendall(_request(method, path, length if sent else "").encode() + sent)
        head, body = _receive(self._socket)
        data = b"".join(body)
        if int(head[9:12]) >= 300:
            raise RuntimeError(f"{method} {path}: {head[9:12]!r} {data[:300]!r}")
        return data

    def call(self, method: str, path: str = "", body: object = None) -> Any:
        """The answer's data."""
        data = self.raw(method, path, body)
        return json.loads(data)["data"] if data else None

    def create(self, command: Sequence[str], mode: str = "pipes", max_bytes: int = 1 << 30) -> str:
        """A session; its id."""
        retention = {"max_bytes": max_bytes, "max_age_seconds": 86_400}
        spec = {"command": command, "io": {"mode": mode}, "event_retention": retention}
        return str(self.call("POST", "", spec)["id"])

    def input(self, session: str, number: int) -> bytes:
        """Send the input of this number, durable once this returns; its bytes."""
        line = b"%015d\n" % number
        body = {"input_id": f"in-{number}", "data_base64": base64.b64encode(line).decode()}
        self.call("POST", f"/{session}/inputs", body)
        return line

    def wait_exited(self, session: str) -> None:
        """Until the session's process has ended."""
        while self.call("GET", f"/{session}")["phase"] not in ("exited", "failed"):
            time.sleep(0.005)

    def pages(self, session: str, limit: int = 1000) -> Output:
        """All events, page by page."""
        output = Output()
        while output.take(self.raw("GET", f"/{session}/events?limit={limit}&after={output.last}")):
            pass
        return output

    def stream(self, session: str, after: int = 0) -> Output:
        """All events by SSE, until the process has ended."""
        output = Output(after)
        tail = b""
        for part in self.frames(session, after):
            whole, end, rest = (tail + part).rpartition(b"\n\n")
            tail = rest
            output.take(whole + end)
        return output

    def frames(self, session: str, after: int = 0) -> Iterator[bytes]:
        """The text of a stream in parts, up to the frame that says that the process has ended."""
        last = b""
        for part in self._stream(f"/{session}/events/stream?after={after}"):
            last = (last + part[-_END_WITHIN:])[-_END_WITHIN:]
            place = last.find(b"\n\n", last.find(_END)) + 2 if _END in last else 1
            if place > 1:
                yield part[: len(part) - len(last) + place]
                return
            yield part
        raise RuntimeError("the stream ended before the process did")

    def _stream(self, target: str) -> Iterator[bytes]:
        with open_socket(self.path) as connection:
            connection.sendall(_request("GET", target).encode())
            head, body = _receive(connection)
            if int(head[9:12]) != 200:
                raise RuntimeError(f"{target}: {head[9:12]!r}")
            yield from body


def on_connections(path: str, count: int, run: Callable[[Client], None]) -> None:
    """`run` on so many connections at once, each in a thread; raises what one of them raised."""

    def connected(_: int) -> None:
        with Client(path) as client:
            run(client)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(connected, range(count)))


def _request(method: str, path: str, headers: str = "") -> str:
    return f"{method} {ROOT}{path} HTTP/1.1\r\n{_HEADERS}{headers}\r\n"


def _receive(connection: socket.socket) -> tuple[bytes, Iterator[bytes]]:
    """An answer's head, and its body in the parts that it arrives in."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += _some(connection)
    head, _, rest = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head)
    if length is None and b"transfer-encoding: chunked" in head.lower():
        return head, _chunks(connection, rest)
    return head, _sized(connection, rest, int(length[1]) if length else 0)


def _some(connection: socket.socket) -> bytes:
    data = connection.recv(_RECEIVE)
    if not data:
        raise RuntimeError("the daemon hung up")
    return data


def _sized(connection: socket.socket, data: bytes, left: int) -> Iterator[bytes]:
    while left:
        data = data or _some(connection)
        yield data
        left, data = left - len(data), b""


def _chunks(connection: socket.socket, data: bytes) -> Iterator[bytes]:
    """The parts of a chunked body (RFC 9112, section 7.1)."""
    while True:
        while b"\r\n" not in data[:20]:
            data += _some(connection)
        line, _, data = data.partition(b"\r\n")
        size = left = int(line, 16)
        while left:
            data = data or _some(connection)
            yield data[:left]
            left, data = max(0, left - len(data)), data[left:]
        while len(data) < 2:
            data += _some(connection)
        data = data[2:]
        if not size:
            return


class Output:
    """Checks what comes: sequence numbers without a gap, and the checksum of all bytes."""

    def __init__(self, after: int = 0) -> None:
        self.last = after
        self.size = 0
        self.checksum = 0

    def take(self, encoded: bytes) -> int:
        """Count the events in a text of whole ones; how many there were.

        From one event to the next by `find`: what lies between is base64, and long.
        """
        count = 0
        place = encoded.find(b'{"seq":')
        while place >= 0:
            count += 1
            comma = encoded.index(b",", place)
            number = int(encoded[place + 7 : comma])
            if number != self.last + 1:
                raise RuntimeError(f"event {number} came after {self.last}")
            self.last = number
            data = encoded.find(b'"data_base64":"', comma, comma + 400)
            if data >= 0 and b"}" not in encoded[comma:data]:
                place = encoded.index(b'"', data + 15)
                self._add(pybase64.b64decode(memoryview(encoded)[data + 15 : place]))
            else:
                place = comma
            place = encoded.find(b'{"seq":', place)
        return count

    def _add(self, data: bytes) -> None:
        self.size += len(data)
        self.checksum = zlib.crc32(data, self.checksum)


class WebSocket:
    """An attachment: sends inputs, waits for their echo and for their acknowledgement."""

    def __init__(self, path: str, session: str, after: int) -> None:
        self._socket = open_socket(path)
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []
        target = f"{ROOT}/{session}/ws?after={after}"
        headers = [(b"authorization", f"Bearer {TOKEN}".encode())]
        request = Request("localhost", target, extra_headers=headers)
        self._socket.sendall(self._protocol.send(request))
        answer = self._next()
        if type(answer) is not AcceptConnection:
            raise RuntimeError(f"the WebSocket was refused: {answer}")

    def close(self) -> None:
        """Leave."""
        self._socket.close()

    def echo(self, number: int) -> None:
        """One line there and back; returns when it is acknowledged, too."""
        line = b"%07d\n" % number
        encoded = base64.b64encode(line).decode()
        body = {"type": "input", "request_id": str(number), "input_id": f"in-{number}"}
        message = json.dumps({**body, "data_base64": encoded})
        self._socket.sendall(self._protocol.send(TextMessage(message)))
        acknowledged = echoed = False
        while not (acknowledged and echoed):
            event = self._next()
            if isinstance(event, TextMessage):
                acknowledged = acknowledged or '"ack"' in event.data
                echoed = echoed or encoded[:10] in event.data

    def _next(self) -> Event:
        while not self._events:
            data = self._socket.recv(1 << 16)
            if not data:
                raise RuntimeError("the daemon hung up")
            self._protocol.receive_data(data)
            self._events.extend(self._protocol.events())
        return self._events.pop(0)
