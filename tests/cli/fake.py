"""A scripted HTTP server: what the command line asked is recorded, what it hears is set."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


@dataclass
class Answer:
    """`body` is sent as it is; `chunks` are sent one by one, and then the connection breaks off
    (`breaks`) or the body ends."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    chunks: Iterable[bytes] | None = None
    breaks: bool = False


def success(data: Any, status: int = 200) -> Answer:
    return Answer(status, json.dumps({"success": True, "data": data}).encode())


def failure(status: int, code: str, message: str = "no", **details: Any) -> Answer:
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return Answer(status, json.dumps({"success": False, "error": error}).encode())


def frame(seq: int, type: str = "output", **fields: Any) -> bytes:
    """One event as the daemon would stream it."""
    event = {"seq": seq, "session_id": "ses-1", "type": type, "occurred_at": "T", **fields}
    return f"id: {seq}\nevent: {type}\ndata: {json.dumps(event)}\n\n".encode()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline()
        self.close_connection = True
        if not self.raw_requestline or not self.parse_request():
            return
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        request = Request(
            self.command, self.path, dict(self.headers), json.loads(body) if body else None
        )
        self.server.requests.append(request)
        with contextlib.suppress(ConnectionError):  # the client may leave when it likes
            self._send(self.server.answer(request))

    def _send(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if answer.chunks is None:
            self.send_header("Content-Length", str(len(answer.body)))
            self.end_headers()
            self.wfile.write(answer.body)
            return
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in answer.chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
        if not answer.breaks:
            self.wfile.write(b"0\r\n\r\n")

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: Any) -> None:
        pass


class FakeServer(socketserver.ThreadingUnixStreamServer):
    """Listens on a Unix socket; `answer` decides, `requests` remembers."""

    daemon_threads = False

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), _Handler)
        self.url = f"unix:{path}"
        self.requests: list[Request] = []
        self.answer: Callable[[Request], Answer] = lambda request: failure(404, "not_found")
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def script(self, *answers: Answer) -> None:
        """Answer the next requests in this order."""
        queue = iter(answers)
        self.answer = lambda request: next(queue)

    def close(self) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()
