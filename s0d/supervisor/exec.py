"""Commands that are no sessions: run for one caller, and gone with that caller.

The tree is owned like an attempt's and proved ended, but nothing is journaled.  So that a daemon
that was killed leaves nothing behind either, a small file names the tree while it may live.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import trio

from s0d.model.errors import InvalidRequest, LimitExceeded, StopIncomplete, Unavailable
from s0d.model.ids import new_attempt_id
from s0d.model.spec import LimitsSpec, SessionSpec
from s0d.process.attribution import TreeRecord
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.pty import TerminalSize
from s0d.process.status import ExitStatus

from .launch import Launch, LaunchPlan

if TYPE_CHECKING:
    from .sandbox import Sandbox

log = logging.getLogger("s0d.exec")

MAX_OUTPUT: Final = 1 << 20
"""Bytes kept of each stream of a buffered command; the rest is read and dropped."""
GRACE: Final = 1.0
"""Seconds that a command's leftovers have, once it has ended by itself, to end too."""

UNREAD_WITHIN: Final = 2.0
"""Seconds that a client has to take the rest of the output, once the runtime goes away."""

# What the caller can do nothing about.
_OURS: Final = frozenset(
    {
        SpawnErrorKind.LIMIT,
        SpawnErrorKind.IDENTITY,
        SpawnErrorKind.CGROUP,
        SpawnErrorKind.RESOURCES,
        SpawnErrorKind.SYSTEM,
    }
)

_OF_PATH: Final = frozenset(
    {SpawnErrorKind.CWD_NOT_FOUND, SpawnErrorKind.CWD_NOT_DIRECTORY, SpawnErrorKind.CWD_DENIED}
)
_GONE: Final = "the sandbox's runtime has ended"

T = TypeVar("T")
Use = Callable[[Launch, trio.Event], Awaitable[T]]


class Execs:
    """The commands that run in a sandbox at the moment."""

    def __init__(self, sandbox: Sandbox, start: Callable[..., None]) -> None:
        self._sandbox = sandbox
        self._start = start
        self._running: set[_Run[object]] = set()

    def __len__(self) -> int:
        return len(self._running)

    async def run(self, spec: SessionSpec, use: Use[T]) -> T:
        """Start the command of `spec` and return what `use` makes of it.

        `use` gets the event that the runtime goes away, too: the tree is then ended for it.
        Its tree has ended then.  Where the caller is cancelled it is ended too, by a task of the
        sandbox: neither a connection nor a shutdown waits for it.  `InvalidRequest` for a command
        that cannot be started, `StopIncomplete` where a process survives SIGKILL.
        """
        self._sandbox.check_not_ending()
        most = self._sandbox.bounds.execs
        if len(self) >= most:
            raise LimitExceeded(f"at most {most} commands at once in a sandbox")
        run: _Run[T] = _Run(use)
        self._running.add(run)  # type: ignore[arg-type]
        self._start(self._see_through, run, self._plan(spec))
        try:
            await run.over.wait()
        finally:
            run.scope.cancel()
        if run.error is not None:
            raise run.error
        [value] = run.value
        return value

    def pids(self) -> list[int]:
        """The leaders of those that have been started."""
        return [run.launch.pid for run in self._running if run.launch is not None]

    async def end(self, *, for_good: bool = True) -> None:
        """End them all, at once: the runtime goes away.

        Where it may come back, those that wait for a runtime go on to wait.
        """
        runs = [run for run in self._running if for_good or run.launch is not None]
        for run in runs:
            run.unwanted.set()
            if run.launch is None:
                run.scope.cancel()
        for run in runs:
            await run.over.wait()

    async def freeze(self) -> None:
        for run in list(self._running):
            if run.launch is not None:
                await run.launch.freeze()

    async def thaw(self) -> None:
        for run in list(self._running):
            if run.launch is not None:
                await run.launch.thaw()

    def _plan(self, spec: SessionSpec) -> LaunchPlan:
        terminal = spec.io.terminal or None
        return LaunchPlan(
            session_id="",
            attempt_id=new_attempt_id(),
            argv=spec.command,
            env=spec.env,
            cwd=spec.cwd or self._sandbox.root,
            terminal=TerminalSize(terminal.rows, terminal.cols) if terminal else None,
            term=terminal.term if terminal else "",
            stop_signal=15,
            limits=LimitsSpec(),
        )

    async def _see_through(self, run: _Run[T], plan: LaunchPlan) -> None:
        run.error = Unavailable(_GONE)
        try:
            with run.scope:
                run.value.append(await self._run(run, plan))
                run.error = None
        except Exception as error:
            run.error = _alone(error)
        else:
            if run.error is not None and self._sandbox.stopping:
                run.error = self._sandbox.gone()
        finally:
            self._running.discard(run)
            run.over.set()
            self._sandbox.attendance()

    async def _run(self, run: _Run[T], plan: LaunchPlan) -> T:
        note = self._sandbox.store.note_exec(plan.attempt_id)
        try:
            async with self._sandbox.awake():
                await trio.to_thread.run_sync(note.write, self._record(plan, None))
                run.launch = launch = await self._launch(plan)
            try:
                await trio.to_thread.run_sync(note.write, self._record(plan, launch))
                return await _until_unwanted(run, launch)
            finally:
                await _end(launch, 0.0)
                run.launch = None
                launch.close()
        finally:
            with trio.CancelScope(shield=True):
                await trio.to_thread.run_sync(note.remove)

    def _record(self, plan: LaunchPlan, launch: Launch | None) -> TreeRecord:
        """What proves a process to be of the tree: its marker, and its leader once there is one."""
        pid, start_time = (0, 0) if launch is None else (launch.pid, launch.start_time)
        return TreeRecord(plan.attempt_id, pid, start_time, self._sandbox.boot_id)

    async def _launch(self, plan: LaunchPlan) -> Launch:
        try:
            return await self._sandbox.launch(plan)
        except SpawnError as error:
            if error.kind in _OURS:
                raise Unavailable(f"the command cannot be started now: {error}") from None
            field = "path" if error.kind in _OF_PATH else "cmd"
            raise InvalidRequest(f"{field}: {error}") from None


@dataclass(eq=False)
class _Run(Generic[T]):
    """One command on its way.  `value` holds what `use` returned, once it has."""

    use: Use[T]
    launch: Launch | None = None
    value: list[T] = field(default_factory=list)
    error: Exception | None = None
    scope: trio.CancelScope = field(default_factory=trio.CancelScope)
    unwanted: trio.Event = field(default_factory=trio.Event)
    over: trio.Event = field(default_factory=trio.Event)


async def _until_unwanted(run: _Run[T], launch: Launch) -> T:
    """Use it, to its own end or to that of the runtime, which looks like any other end."""
    async with trio.open_nursery() as nursery:

        async def end() -> None:
            await run.unwanted.wait()
            report = await launch.end(0)
            if report.survivors:  # its end will not be seen
                nursery.cancel_scope.cancel()

        nursery.start_soon(end)
        value = await run.use(launch, run.unwanted)
        nursery.cancel_scope.cancel()
        return value
    raise Unavailable(_GONE)


def _alone(error: Exception) -> Exception:
    """A lone error as itself: that there are nurseries is nothing the caller should see."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error


# -- buffered ------------------------------------------------------------------------------------


@dataclass
class Capture:
    """The first `MAX_OUTPUT` bytes of a stream, and whether there were more."""

    data: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    async def take(self, chunks: list[bytes]) -> None:
        for chunk in chunks:
            room = MAX_OUTPUT - len(self.data)
            self.data += chunk[:room]
            self.truncated |= len(chunk) > room


@dataclass
class Result:
    """What came of a buffered command."""

    status: ExitStatus
    timed_out: bool
    stdout: Capture
    stderr: Capture


async def buffered(launch: Launch, stdin: bytes, seconds: float) -> Result:
    """Give it `stdin`, wait at most `seconds` for its end, keep its output."""
    captures = {"stdout": Capture(), "stderr": Capture()}
    launch.input.put_nowait(stdin, eof=True)
    status: ExitStatus | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(launch.input.run)
        async with trio.open_nursery() as pumps:
            for stream, pump in launch.outputs.items():
                pumps.start_soon(pump.run, captures[stream].take)
            grace = 0.0
            try:
                with trio.move_on_after(seconds):
                    status = await launch.wait()
                    await launch.drain()
                    grace = GRACE
            finally:
                await _end(launch, grace)
        nursery.cancel_scope.cancel()
    return Result(await launch.wait(), status is None, captures["stdout"], captures["stderr"])


async def _end(launch: Launch, grace: float) -> None:
    """Prove the tree ended; the pumps then come to their end."""
    with trio.CancelScope(shield=True):
        report = await launch.end(grace)
    if report.survivors:
        raise StopIncomplete(f"processes survived SIGKILL: {', '.join(map(str, report.survivors))}")
    launch.finish()


# -- before a client -----------------------------------------------------------------------------


async def attended(
    launch: Launch,
    emit: Callable[[list[bytes]], Awaitable[None]],
    attend: Callable[[], Awaitable[None]],
    unwanted: trio.Event,
) -> ExitStatus | None:
    """Run it with its output going to `emit`; None where `attend` returned before its end.

    The program waits for its client, as one on a terminal does.  The end of the runtime
    (`unwanted`) does not: what has not been taken soon is dropped.
    """
    status: ExitStatus | None = None
    async with trio.open_nursery() as nursery:
        nursery.start_soon(launch.input.run)
        async with trio.open_nursery() as pumps:

            async def give_up() -> None:
                await unwanted.wait()
                await trio.sleep(UNREAD_WITHIN)
                pumps.cancel_scope.cancel()

            nursery.start_soon(give_up)
            for pump in launch.outputs.values():
                pumps.start_soon(pump.run, emit)
            try:
                status = await _first_end(launch, attend)
            finally:
                await _end(launch, GRACE if status is not None else 0.0)
            if status is None:
                pumps.cancel_scope.cancel()  # nobody is there to take the rest
        nursery.cancel_scope.cancel()
    return status


async def _first_end(launch: Launch, attend: Callable[[], Awaitable[None]]) -> ExitStatus | None:
    status: ExitStatus | None = None
    async with trio.open_nursery() as nursery:

        async def leave() -> None:
            await attend()
            nursery.cancel_scope.cancel()

        nursery.start_soon(leave)
        ended = await launch.wait()
        await launch.drain()
        status = ended
        nursery.cancel_scope.cancel()
    return status
