"""One WebSocket to a session's terminal (wire contract, section 4, "Attach"), on Trio."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import trio
from trio_websocket import (
    ConnectionClosed,
    ConnectionRejected,
    HandshakeError,
    WebSocketConnection,
    wrap_client_stream,
)

from .client import failure_of
from .errors import CliError, ConnectionLost, Unreachable
from .http import CONNECT_TIMEOUT, identification
from .target import Target, check_default_socket

Json = dict[str, Any]

_MOST: Final = 4 << 20  # bytes of one message
_PIECE: Final = 64 << 10
_CLOSE_WITHIN: Final = 1.0
_NO_ANSWER: Final = "the daemon closed the connection without an answer"


class Link:
    """Messages of an open connection; `ConnectionLost` where it breaks or has been closed."""

    def __init__(self, websocket: WebSocketConnection) -> None:
        self._websocket = websocket

    async def tell(self, message: Json) -> None:
        await self._send(msgspec.json.encode(message).decode())

    async def send(self, data: bytes) -> None:
        await self._send(data)

    async def _send(self, message: str | bytes) -> None:
        try:
            await self._websocket.send_message(message)
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionLost("the connection to the daemon broke") from None

    async def receive(self) -> Json | bytes:
        """A control frame, or terminal bytes."""
        try:
            message = await self._websocket.get_message()
        except (ConnectionClosed, trio.BrokenResourceError, trio.ClosedResourceError):
            raise ConnectionLost("the connection to the daemon broke") from None
        if isinstance(message, bytes):
            return message
        frame: Json = msgspec.json.decode(message)
        return frame


@asynccontextmanager
async def open_link(target: Target, path: str) -> AsyncIterator[Link]:
    """A connection, closed at the end of the block.

    Raises `Unreachable`, `ConnectionLost`, or the daemon's `ApiError` where it refuses.
    """
    stream = await _connect(target)
    # What the block raises is carried past the nursery, which would wrap it.
    failed: Exception | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                websocket = await _shake_hands(nursery, stream, target, path)
                yield Link(websocket)
                with trio.move_on_after(_CLOSE_WITHIN):
                    await websocket.aclose()
            except Exception as error:
                failed = error
            finally:
                nursery.cancel_scope.cancel()
                await trio.aclose_forcefully(stream)
    except* HandshakeError as group:
        # The connection's reader raises it too, and that cancels whoever waits for the handshake.
        failed = failed or _refusal(group.exceptions[0])
    if failed is not None:
        raise failed


async def _connect(target: Target) -> Any:
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            if target.socket:
                if target.is_default:
                    check_default_socket(target.socket)
                return await trio.open_unix_socket(target.socket)
            stream = await trio.open_tcp_stream(target.host, target.port)
            if target.tls:
                context = ssl.create_default_context()
                encrypted = trio.SSLStream(stream, context, server_hostname=target.host)
                await encrypted.do_handshake()
                return encrypted
            return stream
    except (OSError, trio.BrokenResourceError, trio.TooSlowError) as error:
        reason = getattr(error, "strerror", None) or str(error) or "no answer"
        raise Unreachable(f"no daemon answers on {target.url}: {reason}", target) from error


async def _shake_hands(
    nursery: trio.Nursery, stream: Any, target: Target, path: str
) -> WebSocketConnection:
    headers = [(name.encode(), value.encode()) for name, value in identification(target)]
    try:
        with trio.fail_after(CONNECT_TIMEOUT):
            return await wrap_client_stream(
                nursery,
                stream,
                target.host_header,
                target.prefix + path,
                extra_headers=headers,
                max_message_size=_MOST,
                receive_buffer_size=_PIECE,
            )
    except HandshakeError as error:
        raise _refusal(error) from None
    except (ConnectionClosed, trio.BrokenResourceError, trio.TooSlowError):
        raise ConnectionLost(_NO_ANSWER) from None


def _refusal(error: BaseException) -> CliError:
    if not isinstance(error, ConnectionRejected):
        return ConnectionLost(_NO_ANSWER)
    fields = {name.decode("latin-1"): v.decode("latin-1") for name, v in error.headers or ()}
    return failure_of(error.status_code, fields, error.body or b"")
