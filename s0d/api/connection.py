"""One accepted connection.

Hypercorn's protocols do the talking; this is what its `TCPServer` would be (which is not
subclassed: of its nine methods none could stay as it is).  A connection is in one of these states,
and the one thing it waits for itself, the client's next bytes, has a deadline that follows from it:

========  =====================================================  ===================
state     the connection ...                                     deadline to read
========  =====================================================  ===================
`HEAD`    is new, or the first bytes of a request have arrived   `header_timeout`
`BUSY`    has a request; its body has its own time limit         none
`IDLE`    was kept alive after an answer                         `keep_alive`
`LINGER`  was half-closed by us: what still comes is discarded,  `linger`
          so that no RST overtakes our last answer (RFC 9112,
          section 9.6)
========  =====================================================  ===================

Moving a deadline is one assignment.  (Hypercorn starts and cancels a timer task for each request.)
"""

from __future__ import annotations

import enum
import logging
import ssl
from typing import Any

import trio
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import ConnectionState as HypercornState
from hypercorn.utils import parse_socket_addr

from .auth import Peer
from .config import ApiConfig
from .http2 import H2Protocol
from .workarounds import CUT, H11Protocol, TaskGroup

log = logging.getLogger(__name__)

_RECEIVE = 64 << 10


class _State(enum.Enum):
    HEAD = enum.auto()
    BUSY = enum.auto()
    IDLE = enum.auto()
    LINGER = enum.auto()


def hypercorn_config(config: ApiConfig) -> Config:
    """Hypercorn's own settings; it neither listens nor logs access here."""
    made = Config()
    made.errorlog = logging.getLogger("s0d.api.hypercorn")
    made.include_server_header = False
    made.h11_max_incomplete_size = config.max_header
    made.keep_alive_max_requests = 1 << 62  # 1,000 by default, which a busy client reaches
    made.websocket_max_message_size = config.max_message
    made.websocket_ping_interval = config.ping_interval
    return made


class Connection:
    """Runs the requests of one connection, one after the other, until it is closed."""

    def __init__(
        self,
        app: Any,
        config: ApiConfig,
        hypercorn: Config,
        context: WorkerContext,
        stream: trio.SocketStream,
        peer: Peer | None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._app = app
        self._config = config
        self._hypercorn = hypercorn
        self._context = context
        self._socket = stream
        self._stream: trio.SocketStream | trio.SSLStream[trio.SocketStream] = stream
        if tls is not None:
            self._stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        self._peer = peer
        self._reading = trio.CancelScope()
        self._sending = trio.Lock()
        self._sending_since = float("inf")
        self._enter(_State.HEAD)

    async def run(self) -> None:
        """Serve until closed; no exception of a protocol or an application gets out."""
        try:
            await self._run()
        except* OSError:
            pass  # the client is gone; there is nobody to tell
        except* Exception:
            log.exception("connection failed")
        finally:
            self.abort()

    def drain(self) -> None:
        """Close now if nothing is being answered, else after the answer (`terminated` is set)."""
        if self._state in (_State.IDLE, _State.HEAD):
            self._reading.cancel()

    def stuck_for(self) -> float:
        """How long (seconds) the present write has been waiting for the client to read."""
        return max(0.0, trio.current_time() - self._sending_since)

    def abort(self) -> None:
        """Close the socket under whatever uses it: also ends a write that is shielded.

        The application has it, too (`CUT`).
        """
        self._socket.socket.close()
        self._reading.cancel()

    async def _shake_hands(self) -> bool:
        """Of TLS, within the time for a head; False where that does not come about."""
        if not isinstance(self._stream, trio.SSLStream):
            return True
        with self._reading:
            try:
                await self._stream.do_handshake()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return False
        done = not self._reading.cancelled_caught
        self._reading = trio.CancelScope()
        self._enter(_State.HEAD)
        return done

    def _protocol_class(self) -> type[H11Protocol] | type[H2Protocol]:
        stream = self._stream
        if isinstance(stream, trio.SSLStream) and stream.selected_alpn_protocol() == "h2":
            return H2Protocol
        return H11Protocol

    async def _run(self) -> None:
        socket = self._socket.socket
        client = parse_socket_addr(socket.family, socket.getpeername())
        server = parse_socket_addr(socket.family, socket.getsockname())
        if not await self._shake_hands():
            return
        protocol = self._protocol_class()
        async with TaskGroup() as group:
            self._protocol = protocol(
                self._app,
                self._hypercorn,
                self._context,
                group,
                HypercornState({"peer": self._peer, CUT: self.abort}),
                isinstance(self._stream, trio.SSLStream),
                client,
                server,
                self._send,
            )
            with self._reading:
                await self._protocol.initiate()
                await self._read()
            await self._protocol.handle(Closed())
            self._socket.socket.close()  # a task of the group may be stuck in a shielded write

    async def _read(self) -> None:
        while True:
            try:
                data = await self._stream.receive_some(_RECEIVE)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return
            if not data:
                return
            if self._state is _State.IDLE and isinstance(self._protocol, H11Protocol):
                self._enter(_State.HEAD)  # of HTTP/2 it may be a frame that begins nothing
            if self._state is not _State.LINGER:
                await self._protocol.handle(RawData(bytes(data)))

    async def _send(self, event: Event) -> None:
        if isinstance(event, RawData):
            await self._write(event.data)
        elif isinstance(event, Updated):
            self._enter(_State.IDLE if event.idle else _State.BUSY)
            if event.idle and self._context.terminated.is_set():
                self._reading.cancel()  # HTTP/2: this was the last answer
        elif isinstance(event, Closed) and self._state is not _State.LINGER:
            self._enter(_State.LINGER)
            try:
                async with self._sending:
                    await self._socket.send_eof()
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._reading.cancel()

    async def _write(self, data: bytes) -> None:
        """All or nothing, hence shielded: half a frame would spoil what comes after it.

        A failure ends the connection and is not raised: the application learns by a disconnect.
        """
        async with self._sending:  # a checkpoint, also when the client has left (fault 3)
            self._sending_since = trio.current_time()
            try:
                with trio.CancelScope(shield=True):
                    await self._stream.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                self._reading.cancel()
            finally:
                self._sending_since = float("inf")

    def _enter(self, state: _State) -> None:
        limits = {
            _State.HEAD: self._config.header_timeout,
            _State.IDLE: self._config.keep_alive,
            _State.LINGER: self._config.linger,
        }
        self._state = state
        self._reading.deadline = trio.current_time() + limits.get(state, float("inf"))
