"""A client of the named sessions' surface, on Trio, that sees every byte."""

from __future__ import annotations

import fcntl
import json
import sys
import termios
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import trio

from tests.support.client import Client, Connection, Refused

PREFIX: Final = "/v1/sandbox/local"
PATIENCE: Final = 30.0
_PHASES: Final = {"IDLE": "running", "EXITED": "exited", "KILLED": "stopped", "FAILED": "failed"}
_UPGRADE: Final = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.status < 300, self
        assert self.headers["content-type"] == "application/json"
        return json.loads(self.body)

    @property
    def session(self) -> Any:
        return self.json["session"]

    @property
    def problem(self) -> Any:
        """The problem details, whose members have to agree with one another."""
        assert self.headers["content-type"] == "application/problem+json", self
        problem = json.loads(self.body)
        assert set(problem) <= {"type", "title", "status", "code", "detail", "details"}
        assert problem["status"] == self.status
        assert problem["type"].endswith(problem["code"].replace("_", "-"))
        assert problem["title"]
        assert problem["detail"]
        return problem

    @property
    def code(self) -> tuple[int, str]:
        return self.status, self.problem["code"]


class Closed(NamedTuple):
    code: int
    reason: str


class Attached:
    """The client's end of an attachment, or of a transient terminal."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.output = b""
        """All binary frames so far."""
        self.controls: list[dict[str, Any]] = []
        """All control frames so far."""

    def waiting(self) -> int:
        """Bytes that have arrived and were not read."""
        descriptor = self._connection.stream.socket.fileno()
        size = fcntl.ioctl(descriptor, termios.FIONREAD, bytes(4))
        return int.from_bytes(size, sys.byteorder)

    async def send(self, message: Mapping[str, Any] | bytes | str) -> None:
        """A control message, or terminal bytes."""
        if isinstance(message, bytes):
            return await self._send(0x82, message)
        text = message if isinstance(message, str) else json.dumps(message)
        return await self._send(0x81, text.encode())

    async def _send(self, first: int, data: bytes) -> None:
        size = len(data)
        if size < 126:
            head = bytes((first, 0x80 | size))
        elif size < 1 << 16:
            head = bytes((first, 0xFE)) + size.to_bytes(2, "big")
        else:
            head = bytes((first, 0xFF)) + size.to_bytes(8, "big")
        await self._connection.send(head + bytes(4) + data)  # a mask of zeros is a mask

    async def receive(self) -> dict[str, Any] | bytes | Closed:
        with trio.fail_after(PATIENCE):
            return await self._receive()

    async def _receive(self) -> dict[str, Any] | bytes | Closed:
        while True:
            opcode, data = await self._frame()
            if opcode == 1:
                self.controls.append(json.loads(data))
                return self.controls[-1]
            if opcode == 2:
                self.output += data
                return data
            if opcode == 8:
                return Closed(int.from_bytes(data[:2], "big"), data[2:].decode())
            assert opcode == 9
            await self._send(0x8A, data)

    async def _frame(self) -> tuple[int, bytes]:
        reader = self._connection.reader
        first, size = await reader.exactly(2)
        assert first & 0xF0 == 0x80, "a whole frame, without extensions"
        if size >= 126:
            size = int.from_bytes(await reader.exactly(2 if size == 126 else 8), "big")
        return first & 0x0F, await reader.exactly(size)

    async def until(self, kind: str) -> dict[str, Any]:
        """The next control frame of this type; others are passed over."""
        while True:
            frame = await self.receive()
            assert not isinstance(frame, Closed), frame
            if isinstance(frame, dict) and frame["type"] == kind:
                return frame

    async def reads(self, text: bytes) -> None:
        """Receive until the output so far holds `text`; control frames are passed over."""
        while text not in self.output:
            frame = await self.receive()
            assert not isinstance(frame, Closed), (frame, self.output[-1000:])

    async def rest(self) -> list[Any]:
        """The control frames until the end, and the close."""
        frames: list[Any] = []
        while not frames or not isinstance(frames[-1], Closed):
            frame = await self.receive()
            if not isinstance(frame, bytes):
                frames.append(frame)
        return frames

    async def hang_up(self) -> None:
        """Close in order, and wait for the answer."""
        await self._send(0x88, (1000).to_bytes(2, "big"))
        while not isinstance(await self.receive(), Closed):
            pass


class Named:
    """Everything that the tests ask of the daemon behind `socket`."""

    def __init__(self, socket: Path, prefix: str = PREFIX) -> None:
        self._prefix = prefix
        self._supervised = Client(socket)

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        prefix: str | None = None,
    ) -> Answer:
        """One request below `prefix`; a body that is not bytes goes as JSON."""
        prefix = self._prefix if prefix is None else prefix
        async with self._supervised.connect() as connection:
            await connection.send(_request(method, prefix + path, body, headers))
            with trio.fail_after(PATIENCE):
                status, fields = await connection.head()
                size = int(fields.get("content-length", "0"))
                return Answer(status, fields, await connection.reader.exactly(size))

    async def create(self, name: str, *cmd: str, **fields: Any) -> Any:
        answer = await self.ask("POST", "/sessions", {"name": name, "cmd": cmd, **fields})
        assert answer.status == 201, answer
        return answer.session

    async def get(self, name: str) -> Any:
        return (await self.ask("GET", f"/sessions/{name}")).session

    async def names(self) -> list[str]:
        answer = await self.ask("GET", "/sessions")
        return [session["name"] for session in answer.json["sessions"]]

    async def kill(self, name: str, **body: Any) -> Any:
        return (await self.ask("POST", f"/sessions/{name}/kill", body or None)).session

    async def reaches(self, name: str, *statuses: str) -> Any:
        """Wait until the session is in one of `statuses`."""
        answer = await self._supervised.ask("GET", f"?name={name}")
        session = answer.data["sessions"][-1]["id"]
        wanted = {"for": {"phase": [_PHASES[status] for status in statuses]}}
        answer = await self._supervised.ask("POST", f"/{session}/wait", wanted)
        assert answer.status == 200, answer
        info = await self.get(name)
        assert info["status"] in statuses, info
        return info

    @asynccontextmanager
    async def socket(self, path: str) -> AsyncIterator[Attached]:
        async with self._supervised.connect() as connection:
            await connection.send(_request("GET", self._prefix + path, None, _UPGRADE))
            status, _ = await connection.head()
            if status != 101:
                raise Refused(status)
            yield Attached(connection)

    @asynccontextmanager
    async def attach(self, name: str, **start: Any) -> AsyncIterator[tuple[Attached, Any]]:
        """An attachment that was admitted, with its first frame."""
        async with self.socket(f"/sessions/{name}/attach") as attached:
            await attached.send({"type": "START", **start})
            accepted = await attached.receive()
            assert isinstance(accepted, dict), accepted
            assert accepted["type"] == "ACCEPTED", accepted
            yield attached, accepted


def _request(
    method: str, target: str, body: Any, headers: Mapping[str, str] | None = None
) -> bytes:
    data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    fields = {"Host": "localhost", "Content-Length": str(len(data)), **(headers or {})}
    if body is not None:
        fields.setdefault("Content-Type", "application/json")
    lines = [f"{method} {target} HTTP/1.1", *(f"{k}: {v}" for k, v in fields.items())]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data
