"""The supervisor: the state directory's lock, the sandboxes, start and orderly stop."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict, Unpack

import msgspec
import trio

from s0d.journal import Disk, RealDisk, Syncer
from s0d.model.sandbox import SandboxRecord
from s0d.process.children import ChildRegistry
from s0d.process.detect import SWITCHED_OFF, CgroupHome, Ownership
from s0d.process.environment import base_environment
from s0d.process.spawner import Spawner

from .bounds import Bounds
from .host import ProcessHost, log_ownership, open_cgroups
from .lock import locked
from .place import Place, take_ownership
from .registry import Registry
from .sandbox import Sandbox
from .target import find_target


@dataclass(frozen=True)
class Options:
    """How to open a supervisor; see `open_supervisor`."""

    sandbox_id: str = "local"
    root: str | None = None
    environment: Mapping[str, str] | None = None
    env_vars: Mapping[str, str] = field(default_factory=dict)
    reset_copied_sessions: bool = False
    cgroups: bool = True
    claim_cgroup: bool = False
    nofile_soft: int | None = None
    run_as: str | None = None
    bounds: Bounds = field(default_factory=Bounds)
    registry: ChildRegistry = field(default_factory=ChildRegistry)
    disk: Disk = field(default_factory=RealDisk)


class OptionArguments(TypedDict, total=False):
    """The keywords of `open_supervisor`."""

    sandbox_id: str
    root: str | None
    environment: Mapping[str, str] | None
    env_vars: Mapping[str, str]
    reset_copied_sessions: bool
    cgroups: bool
    claim_cgroup: bool
    nofile_soft: int | None
    run_as: str | None
    bounds: Bounds
    registry: ChildRegistry
    disk: Disk


class Supervisor:
    """Owns the sandboxes of one state directory; made by `open_supervisor`."""

    registry: Registry
    host: ProcessHost
    syncer: Syncer

    def __init__(self) -> None:
        self.ownership = Ownership("proc", None, (), (SWITCHED_OFF,))
        self.run_as: str | None = None
        self.stopping = trio.Event()

    @property
    def default(self) -> Sandbox:
        """The sandbox that is meant where none is named."""
        return self.registry.default

    @property
    def sandboxes(self) -> Mapping[str, Sandbox]:
        """All sandboxes by id."""
        return self.registry.table

    def sandbox(self, sandbox_id: str) -> Sandbox:
        """Look up a sandbox; `SandboxNotFound`."""
        return self.registry.get(sandbox_id)

    def stop(self) -> None:
        """Begin the orderly stop: sessions end within their grace, then journals close."""
        self.stopping.set()


@asynccontextmanager
async def open_supervisor(
    state_dir: str | os.PathLike[str], **options: Unpack[OptionArguments]
) -> AsyncIterator[Supervisor]:
    """Run a supervisor on `state_dir` for the length of the block.

    Leaving the block, also by an exception or by cancellation, ends every session's processes
    within their grace period, closes the journals and gives the directory back.  Raises
    `StateDirectoryError` where the directory cannot be used.

    Options, by keyword: `sandbox_id`; `root`, the working directory of sessions that name none
    (default: the user's home); `environment`, what processes start from (default: the base list
    of `s0d.process.environment`); `env_vars`, the sandbox's own over it; `reset_copied_sessions`,
    clear the sessions of a directory that belonged to another sandbox or to none; `cgroups`,
    False to do without them; `claim_cgroup`, move this process into a cgroup of its own, so that
    controllers can be passed on (only a daemon may do that to itself); `nofile_soft`, the soft
    limit of descriptors that processes start with, for a program that raised its own (default:
    the program's own); `run_as`, `USER` or `USER:GROUP` that processes run as (only where this
    program is root; `root` and `environment` then default to that user's); `bounds`, how much of
    everything it bears; `registry`, shared with a reaper of the same program; `disk`, for tests.
    """
    supervisor = Supervisor()
    with _single_error():
        async with trio.open_nursery() as nursery:
            await nursery.start(_run, supervisor, os.fspath(state_dir), Options(**options))
            try:
                yield supervisor
            finally:
                supervisor.stop()


@contextmanager
def _single_error() -> Iterator[None]:
    """Give a lone error as itself: that there is a nursery is nothing the caller should see."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from error.__cause__


async def _run(
    supervisor: Supervisor,
    state_dir: str,
    options: Options,
    *,
    task_status: trio.TaskStatus[None],
) -> None:
    """Everything of a supervisor, shielded: a cancelled caller still gets the orderly stop."""
    async with trio.open_nursery() as watcher:
        watcher.start_soon(_stop_when_cancelled, supervisor)
        with trio.CancelScope(shield=True):
            async with (
                locked(state_dir),
                Spawner(options.registry) as spawner,
                trio.open_nursery() as nursery,
            ):
                syncer = Syncer()
                await nursery.start(partial(syncer.run))
                await _start(supervisor, state_dir, options, spawner, syncer, nursery)
                task_status.started()
                await supervisor.stopping.wait()
                await supervisor.registry.stop()
                supervisor.host.close()
                nursery.cancel_scope.cancel()
        watcher.cancel_scope.cancel()


async def _stop_when_cancelled(supervisor: Supervisor) -> None:
    try:
        await trio.sleep_forever()
    finally:
        supervisor.stop()


async def _start(
    supervisor: Supervisor,
    state_dir: str,
    options: Options,
    spawner: Spawner,
    syncer: Syncer,
    nursery: trio.Nursery,
) -> None:
    target = await trio.to_thread.run_sync(find_target, options.run_as)
    supervisor.run_as = None if target.identity is None else target.user.name
    environment = options.environment
    if environment is None:
        service = target.identity is not None
        environment = base_environment(os.environ, target.user, service=service)
    home: CgroupHome | None = None
    if options.cgroups:
        open_home = partial(open_cgroups, state_dir, claim=options.claim_cgroup)
        home, supervisor.ownership = await trio.to_thread.run_sync(open_home)
    log_ownership(supervisor.ownership)
    host = ProcessHost(
        spawner,
        environment,
        home,
        run_as=target.identity,
        nofile_soft=options.nofile_soft,
        bounds=options.bounds,
    )
    supervisor.host, supervisor.syncer = host, syncer
    place = Place(
        state_dir, options.disk, host, syncer, options.root or target.root, target.identity
    )
    record = await trio.to_thread.run_sync(partial(_take_default, place, options))
    supervisor.registry = Registry(place, nursery, record.id)
    nursery.start_soon(host.sleep.watch, supervisor.registry.slept)
    await supervisor.registry.open(record)


def _take_default(place: Place, options: Options) -> SandboxRecord:
    record = take_ownership(
        place, options.sandbox_id, root=options.root, reset=options.reset_copied_sessions
    )
    if options.env_vars:
        record.config = msgspec.structs.replace(record.config, env_vars=dict(options.env_vars))
    return record
