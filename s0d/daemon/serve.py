"""Supervisor and API in one task: what an embedder starts, and what `s0d serve` wraps."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import trio

from s0d.api.config import Address, TcpAddress
from s0d.api.server import serve_api
from s0d.supervisor import Supervisor, open_supervisor

from .config import Config

_log = logging.getLogger("s0d.daemon")
_BACKLOG = 128


@dataclass(frozen=True)
class Serving:
    """What `serve` hands to its starter: the supervisor, its addresses, and the way to end it."""

    supervisor: Supervisor
    addresses: Sequence[Address]
    shutdown: trio.Event

    def stop(self) -> None:
        """Begin the orderly end: streams end, sessions stop, journals close, `serve` returns."""
        self.shutdown.set()


async def serve(
    config: Config,
    *,
    shutdown: trio.Event | None = None,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until `shutdown` is set, or until cancelled; `started` with a `Serving`.

    An orderly end lets sessions use their grace periods; a cancelled one leaves no process and no
    open file either.  Touches nothing process-wide: no signals, no logging, no umask.
    Raises `InvalidRequest`, `StateDirectoryError`, or `OSError` for an address that is taken.
    """
    config.check()
    shutdown = trio.Event() if shutdown is None else shutdown
    stopped = trio.Event()
    # The API outlives the sessions: while they stop, who comes hears 503 instead of silence.
    async with trio.open_nursery() as nursery:
        async with open_supervisor(
            config.state_dir,
            sandbox_id=config.sandbox_id,
            reset_copied_sessions=config.reset_copied_sessions,
            cgroups=config.cgroups,
            claim_cgroup=config.claim_cgroup,
            registry=config.registry,
            nofile_soft=config.nofile_soft,
            run_as=config.run_as,
            bounds=config.bounds,
        ) as supervisor:
            api = config.api((*config.listen, *_bind_free(config.optional_listen)))
            start = partial(serve_api, supervisor, api, shutdown=shutdown, close=stopped)
            addresses = await nursery.start(start)
            task_status.started(Serving(supervisor, addresses, shutdown))
            await shutdown.wait()
        stopped.set()


def _bind_free(addresses: Sequence[TcpAddress]) -> list[socket.socket]:
    """Listening sockets for those addresses that nobody else holds."""
    bound = []
    for address in addresses:
        try:
            bound.append(socket.create_server(address, backlog=_BACKLOG))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            _log.warning("address is taken, going on without it", extra={"listen": str(address)})
    return bound
