"""`s0d mcp`: the tools for a language model on standard input and output."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from typing import TYPE_CHECKING, Any

import click

from . import http
from .background import ensure_daemon
from .errors import CliError, Unreachable
from .options import Common, connection_options
from .render import notice
from .target import Target

if TYPE_CHECKING:
    from s0d.mcp.calls import Calls

_MOST_AT_ONCE = 100
_ABSENT = "MCP needs the package mcp: pip install 's0d[mcp]'"


@click.command()
@connection_options
def mcp(common: Common) -> None:
    """Serve sessions as tools to a language model (MCP, on standard input and output).

    An agent program starts this itself: give it the command "s0d" with the argument "mcp". Starts
    a daemon where none answers; sessions outlive this process. --sandbox names the sandbox to use.

    claude mcp add s0d -- s0d mcp
    """
    serve = _load()
    target = common.target
    ensure_daemon(target)
    if os.isatty(0):
        notice("waiting for an agent program on standard input; Ctrl-C ends this")
    # What waits for input in a thread cannot be interrupted: the system's own way ends it at once.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    serve(target, common.sandbox)


def _load() -> Any:
    try:
        from s0d.mcp import transports
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "s0d":
            raise
        raise CliError(_ABSENT) from None
    import trio

    def serve(target: Target, sandbox: str | None) -> None:
        trio.run(transports.serve_stdio, _calls(target, sandbox))

    return serve


def _calls(target: Target, sandbox: str | None) -> Calls:
    """On the same machine, commands run where the agent program runs us."""
    from s0d.mcp.calls import Calls

    path = os.getcwd() if target.socket and not sandbox else None
    return Calls(_OverHttp(target), sandbox, path)


class _OverHttp:
    """`s0d.mcp.calls.Daemon`: each request in a thread, on a connection of its own."""

    def __init__(self, target: Target) -> None:
        import trio

        self._target = target
        # Of our own: the default ones read and write the standard streams.
        self._threads = trio.CapacityLimiter(_MOST_AT_ONCE)

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        import trio

        exchange = _Exchange(self._target, method, path, body)
        try:
            return await trio.to_thread.run_sync(
                exchange.run, abandon_on_cancel=True, limiter=self._threads
            )
        finally:
            exchange.abort()


class _Exchange:
    """One request; `abort` ends it from another thread, and with it what the daemon does for it."""

    def __init__(self, target: Target, method: str, path: str, body: bytes) -> None:
        self._target = target
        self._request = (method, path)
        self._body = body
        self._sock: socket.socket | None = None
        self._aborted = False

    def run(self) -> tuple[int, bytes]:
        from s0d.wire.envelope import failure

        try:
            self._sock = http.connect(self._target)
            if self._aborted:
                self._sock.close()
                return 503, b""  # nobody waits for it
            with http.send(
                self._target, *self._request, body=self._body, sock=self._sock
            ) as response:
                return response.status, response.read()
        except CliError as error:
            code = "unreachable" if isinstance(error, Unreachable) else "unavailable"
            return 503, failure(code, str(error))

    def abort(self) -> None:
        self._aborted = True
        if self._sock is not None:
            with contextlib.suppress(OSError):  # it was over
                self._sock.shutdown(socket.SHUT_RDWR)
