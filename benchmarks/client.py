"""A client that is no bottleneck: blocking sockets, the standard library, `wsproto` for frames."""

from __future__ import annotations

import base64
import http.client
import json
import re
import socket
import time
import zlib
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Any, Self

import pybase64
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, Event, Request, TextMessage

ROOT = "/api/v1/sandboxes/local/sessions"
TOKEN = "benchmark"  # on a socket that only this user can open
_HEADERS = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
_PATIENCE = 120.0
_DATA = re.compile(rb'"data_base64":"([^"]*)"')
_SEQ = re.compile(rb'"seq":(\d+)')


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_PATIENCE)
        self._path = path

    def connect(self) -> None:
        self.sock = open_socket(self._path)


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
        self._connection = _Connection(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._connection.close()

    def raw(self, method: str, path: str = "", body: object = None) -> bytes:
        """The answer's body; raises `RuntimeError` for an error."""
        sent = None if body is None else json.dumps(body)
        self._connection.request(method, ROOT + path, sent, _HEADERS)
        response = self._connection.getresponse()
        data = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {data[:300]!r}")
        return data

    def call(self, method: str, path: str = "", body: object = None) -> Any:
        """The answer's data."""
        return json.loads(self.raw(method, path, body))["data"]

    def create(self, command: Sequence[str], mode: str = "pipes", max_bytes: int = 1 << 30) -> str:
        """A session; its id."""
        retention = {"max_bytes": max_bytes, "max_age_seconds": 86_400}
        spec = {"command": command, "io": {"mode": mode}, "event_retention": retention}
        return str(self.call("POST", "", spec)["id"])

    def wait_exited(self, session: str) -> None:
        """Until the session's process has ended."""
        while self.call("GET", f"/{session}")["phase"] not in ("exited", "failed"):
            time.sleep(0.005)

    def pages(self, session: str) -> Output:
        """All events, page by page."""
        output = Output()
        while output.take(self.raw("GET", f"/{session}/events?limit=1000&after={output.last}")):
            pass
        return output

    def stream(self, session: str) -> Output:
        """All events by SSE, until the process has ended."""
        output = Output()
        tail = b""
        for part in self._chunks(f"{ROOT}/{session}/events/stream"):
            whole, end, rest = (tail + part).rpartition(b"\n\n")
            tail = rest
            output.take(whole + end)
            if b'"type":"attempt.exited"' in whole:
                return output
        raise RuntimeError("the stream ended before the process did")

    def _chunks(self, path: str) -> Iterator[bytes]:
        connection = _Connection(self.path)
        try:
            connection.request("GET", path, headers=_HEADERS)
            response = connection.getresponse()
            while part := response.read1(1 << 20):
                yield part
        finally:
            connection.close()


class Output:
    """Checks what comes: sequence numbers without a gap, and the checksum of all bytes."""

    def __init__(self) -> None:
        self.last = 0
        self.size = 0
        self.checksum = 0

    def take(self, encoded: bytes) -> int:
        """Count the events in a text; how many there were."""
        numbers = _SEQ.findall(encoded)
        for number in numbers:
            if int(number) != self.last + 1:
                raise RuntimeError(f"event {int(number)} came after {self.last}")
            self.last += 1
        for text in _DATA.findall(encoded):
            data = pybase64.b64decode(text)
            self.size += len(data)
            self.checksum = zlib.crc32(data, self.checksum)
        return len(numbers)


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
