"""`serve_api`: accepts connections, caps them, and takes them down in order.

Shutdown has two steps, because stopping the sessions lies between them:

1. `shutdown` is set: streams end at once (SSE ends, WebSockets close with 1001), new requests get
   503.  A client that does not read its stream is cut after the grace period.
2. `close` is set: nobody is accepted any more, idle connections close, answers that are under way
   get the grace period, then what is left is cut.

Cancelling the task skips all grace.  Either way no socket stays behind.
"""

from __future__ import annotations

import logging
import socket
import struct
from collections import Counter
from collections.abc import Hashable
from typing import TYPE_CHECKING

import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.trio.worker_context import WorkerContext

from .app import Api, make_app
from .auth import Peer
from .config import Address, ApiConfig
from .connection import Connection, hypercorn_config
from .listeners import address_of, open_listeners
from .loop import observed
from .peers import examined

if TYPE_CHECKING:
    from s0d.supervisor import Supervisor

log = logging.getLogger(__name__)

_CREDENTIALS = struct.Struct("3i")
_QUIET = 10.0  # seconds between two complaints about too many connections
_KEEPALIVE = {  # finds a client that vanished without a word, in two minutes (tcp(7))
    socket.TCP_KEEPIDLE: 60,
    socket.TCP_KEEPINTVL: 15,
    socket.TCP_KEEPCNT: 4,
}


async def serve_api(
    supervisor: Supervisor,
    config: ApiConfig,
    *,
    shutdown: trio.Event | None = None,
    close: trio.Event | None = None,
    task_status: trio.TaskStatus[list[Address]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` and `close` are set (`close` None: right after `shutdown`).

    Reports through `task_status` the addresses listened on, with the ports that the system chose,
    in the order of `config.listen`.  Raises `InvalidRequest` for a configuration that must not be
    served and `OSError` when it cannot listen.
    """
    config.check()
    shutdown = trio.Event() if shutdown is None else shutdown
    close = shutdown if close is None else close
    api = make_app(supervisor, config)
    async with (
        open_listeners(config.listen, config.socket_mode) as listeners,
        observed(api.watch.loop_busy),
    ):
        server = _Server(api, config, supervisor)
        async with trio.open_nursery() as nursery:
            acceptor = await nursery.start(server.accept, listeners)
            nursery.start_soon(api.end_revoked)
            task_status.started([address_of(listener) for listener in listeners])
            try:
                await shutdown.wait()
                api.streams.stop()
                nursery.start_soon(server.cut_stuck)
                await close.wait()
                acceptor.cancel()
                await server.drain()
            finally:
                server.cut()
            nursery.cancel_scope.cancel()


class _Server:
    def __init__(self, api: Api, config: ApiConfig, supervisor: Supervisor) -> None:
        self._app = ASGIWrapper(api)
        self._supervisor = supervisor
        self._config = config
        self._hypercorn = hypercorn_config(config)
        self._context = WorkerContext(None)
        self._connections: set[Connection] = set()
        self._peers: Counter[Hashable] = Counter()
        self._empty = trio.Event()
        self._watch = api.watch
        self._watch.connections = lambda: len(self._connections)
        self._refused = 0
        self._quiet_until = 0.0

    async def accept(
        self,
        listeners: list[trio.SocketListener],
        *,
        task_status: trio.TaskStatus[trio.CancelScope] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Accept until the reported scope is cancelled; connections that are open stay."""
        async with trio.open_nursery() as handlers:
            with trio.CancelScope() as scope:
                task_status.started(scope)
                await trio.serve_listeners(self._serve, listeners, handler_nursery=handlers)

    async def drain(self) -> None:
        """Close every connection once it has nothing to answer, within the grace period."""
        await self._context.terminated.set()
        for connection in list(self._connections):
            connection.drain()
        with trio.move_on_after(self._config.grace):
            while self._connections:
                self._empty = trio.Event()
                await self._empty.wait()

    async def cut_stuck(self) -> None:
        """After the grace period, cut the clients that do not read what they asked for."""
        grace = self._config.grace
        await trio.sleep(grace)
        while sending := [one for one in self._connections if one.stuck_for() > 0]:
            for connection in sending:
                if connection.stuck_for() >= grace:
                    connection.abort()
            await trio.sleep(grace / 2)  # one that had only begun to send when it was looked at

    def cut(self) -> None:
        for connection in list(self._connections):
            connection.abort()

    async def _serve(self, stream: trio.SocketStream) -> None:
        try:
            peer, key = _peer_of(stream.socket)
        except OSError:
            stream.socket.close()  # gone before we could ask who it was
            return
        if not self._admit(key):
            stream.socket.close()
            await trio.lowlevel.checkpoint()
            return
        try:
            peer = peer and examined(peer, stream.socket, self._supervisor)
        except OSError as error:  # no descriptor left to ask by; who is not known is not let in
            log.warning("a peer cannot be looked at: %s", error.strerror)
            stream.socket.close()
            return
        tls = None if peer is not None or self._config.tls is None else self._config.tls.context
        connection = Connection(
            self._app, self._config, self._hypercorn, self._context, stream, peer, tls
        )
        self._connections.add(connection)
        self._peers[key] += 1
        try:
            await connection.run()
        finally:
            self._connections.discard(connection)
            self._peers[key] -= 1
            if not self._peers[key]:
                del self._peers[key]
            if not self._connections:
                self._empty.set()

    def _admit(self, key: Hashable) -> bool:
        """Is there room for one more, in all and of this peer?"""
        everyone = len(self._connections)
        if (
            everyone < self._config.max_connections
            and self._peers[key] < self._config.max_connections_per_peer
        ):
            return True
        self._complain(everyone, self._peers[key])
        return False

    def _complain(self, everyone: int, of_peer: int) -> None:
        """Log a refusal, but not each one of a flood."""
        self._refused += 1
        self._watch.connections_refused += 1
        if trio.current_time() >= self._quiet_until:
            log.warning(
                "%d connections refused: %d open, %d of the peer", self._refused, everyone, of_peer
            )
            self._refused = 0
            self._quiet_until = trio.current_time() + _QUIET


def _peer_of(sock: trio.socket.SocketType) -> tuple[Peer | None, Hashable]:
    """The credentials of a Unix socket's peer, and what connections are counted by."""
    if sock.family == socket.AF_UNIX:
        packed = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        peer = Peer(*_CREDENTIALS.unpack(packed))
        return peer, peer.uid
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE.items():
        sock.setsockopt(socket.IPPROTO_TCP, option, value)
    return None, sock.getpeername()[0]
