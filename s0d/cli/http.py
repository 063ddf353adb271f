"""One HTTP/1.1 request and its answer, over a TCP or Unix socket.

h11 (sans-I/O, and in the house already with Hypercorn) over a blocking socket: httpx and
http.client take 60 to 150 ms to import, more than a whole `s0d session list` should.
A connection serves one request; there is nothing to keep alive in a command.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from types import TracebackType

import h11

from .errors import ConnectionLost, Unreachable
from .target import Target, check_default_socket

CONNECT_TIMEOUT = 10.0
_RECEIVE = 256 * 1024

Headers = list[tuple[str, str]]


class Response:
    """An answer whose head is here; the body is read by `read` or `chunks`.  Close it."""

    def __init__(self, sock: socket.socket, connection: h11.Connection) -> None:
        self._sock = sock
        self._connection = connection
        head = self._next()
        while isinstance(head, h11.InformationalResponse):
            head = self._next()
        if not isinstance(head, h11.Response):
            raise ConnectionLost("the daemon closed the connection without an answer")
        self.status: int = head.status_code
        self.headers = {k.decode("latin-1"): v.decode("latin-1") for k, v in head.headers}

    def chunks(self) -> Iterator[bytes]:
        """The body as it arrives; `ConnectionLost` when it breaks off."""
        while True:
            event = self._next()
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise ConnectionLost("the connection to the daemon broke")

    def read(self) -> bytes:
        return b"".join(self.chunks())

    def close(self) -> None:
        self._sock.close()

    def __enter__(self) -> Response:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _next(self) -> object:
        try:
            while (event := self._connection.next_event()) is h11.NEED_DATA:
                self._connection.receive_data(self._sock.recv(_RECEIVE))
        except (OSError, h11.RemoteProtocolError) as error:
            raise ConnectionLost(f"the connection to the daemon broke: {error}") from None
        return event


def send(
    target: Target,
    method: str,
    path: str,
    *,
    headers: Headers | None = None,
    body: bytes = b"",
    read_timeout: float | None = None,
    sock: socket.socket | None = None,
) -> Response:
    """Send one request and wait for the head of its answer.

    `read_timeout` (seconds) bounds every single wait for bytes; None waits for ever, since a stop
    may take as long as the session's grace period.  `sock` is a connection that the caller made.
    Raises `Unreachable` or `ConnectionLost`.
    """
    sock = connect(target) if sock is None else sock
    try:
        sock.settimeout(read_timeout)
        connection = h11.Connection(our_role=h11.CLIENT)
        head = h11.Request(
            method=method, target=target.prefix + path, headers=_headers(target, headers, body)
        )
        data = connection.send(head) or b""
        if body:
            data += connection.send(h11.Data(data=body)) or b""
        _send_all(sock, data + (connection.send(h11.EndOfMessage()) or b""))
        return Response(sock, connection)
    except BaseException:
        sock.close()
        raise


def connect(target: Target) -> socket.socket:
    """A connected socket; `Unreachable` says why there is none."""
    try:
        if target.socket:
            if target.is_default:
                check_default_socket(target.socket)
            return _connect_unix(target.socket)
        sock = socket.create_connection((target.host, target.port), CONNECT_TIMEOUT)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _encrypt(sock, target.host) if target.tls else sock
    except OSError as error:
        reason = error.strerror or str(error)
        raise Unreachable(f"no daemon answers on {target.url}: {reason}", target) from error


def _connect_unix(path: str) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(CONNECT_TIMEOUT)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return sock


def _encrypt(sock: socket.socket, host: str) -> socket.socket:
    import ssl

    try:
        return ssl.create_default_context().wrap_socket(sock, server_hostname=host)
    except BaseException:
        sock.close()
        raise


def _send_all(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except (BrokenPipeError, ConnectionResetError):
        # The daemon may have answered (413, 401) without reading the body: the answer counts.
        return
    except OSError as error:
        raise ConnectionLost(f"the connection to the daemon broke: {error}") from None


def identification(target: Target) -> Headers:
    """The headers that say who asks."""
    from s0d import __version__

    headers = [("User-Agent", f"s0d/{__version__}")]
    if target.token:
        headers.append(("Authorization", f"Bearer {target.token}"))
    return headers


def _headers(target: Target, extra: Headers | None, body: bytes) -> Headers:
    headers = [
        ("Host", target.host_header),
        ("Connection", "close"),
        *identification(target),
    ]
    if body:
        headers.append(("Content-Type", "application/json"))
    headers.append(("Content-Length", str(len(body))))
    return headers + (extra or [])
