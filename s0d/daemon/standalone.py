"""The process around `serve`: signals, readiness, exit code.  Only `s0d serve` comes here."""

from __future__ import annotations

import logging
import os
import resource
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import replace
from functools import partial

import trio

from s0d import __version__
from s0d.api.config import UnixAddress
from s0d.api.tls import Tls
from s0d.model.errors import InvalidRequest, S0dError
from s0d.process.reaper import Reaper
from s0d.supervisor import Supervisor

from . import logs, memory
from .activation import inherited
from .config import Config
from .confinement import confine
from .declared import Declarations
from .force import kill_sessions
from .notify import Notifier
from .serve import Serving, serve
from .token import VARIABLE

_log = logging.getLogger("s0d.daemon")

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def standalone(config: Config, *, ready_fd: int | None) -> int:
    """Run until a signal ends it; the exit code: 0 after an orderly end, 1 after an error."""
    memory.tune_allocator()
    finish_log = logs.configure(config.log_format, config.log_level)
    os.environ.pop(VARIABLE, None)
    config = replace(config, nofile_soft=confine())
    notifier = Notifier(os.environ, ready_fd)
    failed = False
    try:
        config = _with_inherited(config)
        _make_socket_directories(config)
        trio.run(_main, config, notifier)
    except* (S0dError, OSError) as group:
        for error in leaves(group):
            print(f"s0d: {logs.escape(str(error))}", file=sys.stderr)
        failed = True
    except* Exception as group:
        _log.critical("the daemon failed", exc_info=group)
        failed = True
    finally:
        finish_log()
    return 1 if failed else 0


def _with_inherited(config: Config) -> Config:
    """Sockets that systemd has opened take the place of the default addresses."""
    sockets = inherited(os.environ, os.getpid())
    if not sockets:
        return config
    chosen = () if config.listens_by_default else config.listen
    return replace(config, listen=(*sockets, *chosen), optional_listen=())


def _check_descriptors(config: Config) -> None:
    """Say at the start what would otherwise be found out when a sandbox is full."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    extra = {"limit": limit, "needed": config.descriptors}
    if limit < config.descriptors:
        _log.warning("fewer descriptors than the limits may need (LimitNOFILE=)", extra=extra)
    else:
        _log.debug("descriptors", extra=extra)


def _make_socket_directories(config: Config) -> None:
    """A runtime directory does not survive a boot: nobody else makes it for a daemon by hand."""
    for address in config.listen:
        if isinstance(address, UnixAddress):
            mode = 0o711 if config.uids else 0o700
            os.makedirs(os.path.dirname(address.path), mode=mode, exist_ok=True)


async def _main(config: Config, notifier: Notifier) -> None:
    declared = Declarations(config.file)
    end = _End(notifier, config.tls, declared)
    with trio.open_signal_receiver(*_SIGNALS) as signals:
        async with trio.open_nursery() as watching:
            watching.start_soon(end.obey, signals)
            watching.start_soon(end.extend)
            await watching.start(Reaper(config.registry).run)
            async with trio.open_nursery() as nursery:
                start = partial(serve, config, shutdown=end.shutdown)
                end.serving = await nursery.start(start)
                memory.tune_collector()
                _check_descriptors(config)
                _announce(end.serving)
                status = partial(_status, end.serving.supervisor)
                notifier.ready(status())
                watching.start_soon(notifier.keep, end.status(status))
                watching.start_soon(_until, end.shutdown, declared.run, end.serving.supervisor)
            watching.cancel_scope.cancel()


async def _until(
    end: trio.Event, run: Callable[[Supervisor], Awaitable[None]], supervisor: Supervisor
) -> None:
    """Run it until the end has begun."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run, supervisor)
        await end.wait()
        nursery.cancel_scope.cancel()


def _status(supervisor: Supervisor) -> str:
    """One line for `systemctl status`."""
    sessions = [s for sandbox in supervisor.sandboxes.values() for s in sandbox.sessions()]
    running = sum(session.record.unfinished is not None for session in sessions)
    attached = supervisor.host.counts.attached
    return (
        f"{len(supervisor.sandboxes)} sandboxes, {len(sessions)} sessions, {running} running, "
        f"{attached} attached"
    )


class _End:
    """The first signal begins the orderly end; each further one does not wait for sessions."""

    def __init__(self, notifier: Notifier, tls: Tls | None, declared: Declarations) -> None:
        self._tls = tls
        self._declared = declared
        self.shutdown = trio.Event()
        self.serving: Serving | None = None
        self._notifier = notifier

    def status(self, running: Callable[[], str]) -> Callable[[], str]:
        """What to say of us, now or while sessions stop."""
        return lambda: "stopping sessions" if self.shutdown.is_set() else running()

    async def extend(self) -> None:
        """Once the end has begun: sessions may take their grace periods."""
        await self.shutdown.wait()
        await self._notifier.extend()

    @property
    def _reloads(self) -> bool:
        """A terminal that hangs up ends a daemon in its foreground; to a service, or where there
        is something to reload, the signal says just that."""
        asked = self._notifier.asked or self._tls is not None or self._declared.any
        return asked and not self.shutdown.is_set()

    def _reload(self) -> None:
        self._notifier.reloading()
        try:
            if self._tls is not None:
                self._tls.reload()
            self._declared.reload()
        except InvalidRequest as error:
            reason = error.message
            _log.error("cannot reload, going on as before", extra={"reason": reason})
        else:
            _log.info("reloaded")
        self._notifier.ready()

    async def obey(self, signals: AsyncIterator[int]) -> None:
        async for number in signals:
            name = signal.Signals(number).name
            if number == signal.SIGHUP and self._reloads:
                self._reload()
            elif not self.shutdown.is_set():
                _log.info("stopping; a second signal kills sessions", extra={"signal": name})
                self._notifier.stopping()
                self.shutdown.set()
            elif self.serving is not None:
                killed = kill_sessions(self.serving.supervisor)
                _log.warning("killing sessions", extra={"signal": name, "attempts": killed})


def _announce(serving: Serving) -> None:
    addresses = " ".join(str(address) for address in serving.addresses)
    extra = {"version": __version__, "pid": os.getpid(), "listen": addresses}
    _log.info("serving", extra=extra)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors inside nested exception groups."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error
