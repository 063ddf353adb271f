"""What a session needs of the world to run an attempt.

The seam between policy and processes: `Host.launch` gives a `Launch`, a running process tree with
its plumbing.  Policy is tested with a fake host on a mock clock, real children with the real one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

from s0d.journal import Journal
from s0d.model.spec import LimitsSpec, SessionSpec
from s0d.process.pty import TerminalSize
from s0d.process.status import ExitStatus
from s0d.process.tree import EndReport, Usage, nothing

from .bounds import Bounds
from .clock import RuntimeClock
from .counts import Counts
from .sleep import MachineSleep

Emit = Callable[[list[bytes]], Awaitable[None]]


@dataclass(frozen=True)
class LaunchPlan:
    """One process to start: everything that the child will see.

    `session_id` is empty for a command that belongs to no session.
    """

    session_id: str
    attempt_id: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    terminal: TerminalSize | None
    term: str
    stop_signal: int
    limits: LimitsSpec


class Pump(Protocol):
    """Reads one output descriptor until its end."""

    async def run(self, emit: Emit) -> None: ...


class Input(Protocol):
    """The bounded queue in front of the child's standard input; `pending` are its bytes."""

    @property
    def pending(self) -> int: ...
    def check(self, size: int, eof: bool = False) -> None: ...
    def put_nowait(self, data: bytes, eof: bool = False) -> None: ...
    async def run(self) -> None: ...


class Launch(Protocol):
    """A started process with its tree, its output pumps by stream and its input queue."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> int: ...
    @property
    def outputs(self) -> Mapping[str, Pump]: ...
    @property
    def input(self) -> Input: ...

    async def wait(self) -> ExitStatus:
        """Wait for the leader's end."""
        ...

    async def drain(self) -> None:
        """Wait until output is at its end, silent for 1 s, or 5 s have passed."""
        ...

    def finish(self) -> None:
        """The tree is dead: the pumps end when nothing is left to read."""
        ...

    def signal(self, signum: int) -> None: ...
    def resize(self, size: TerminalSize) -> None: ...

    async def freeze(self) -> None:
        """Let no process of the tree run until `thaw`; output already written is still read."""
        ...

    async def thaw(self) -> None: ...

    async def end(
        self, grace: float, signum: int | None = None, told: Callable[[], None] = nothing
    ) -> EndReport:
        """End the whole tree: its stop signal, at most `grace` seconds, SIGKILL, proof.

        With `signum` that signal alone comes first.  `told` is called when all have been sent it.
        """
        ...

    async def usage(self) -> Usage:
        """What the tree uses, or used until it ended."""
        ...

    @property
    def peak_bytes(self) -> int | None:
        """The most that one process had resident, once the leader has ended; None: not known."""
        ...

    async def wait_empty(self) -> None:
        """Wait until no process of the tree lives."""
        ...

    def close(self) -> None: ...


class Host(Protocol):
    """The sandbox as a session sees it."""

    @property
    def id(self) -> str: ...
    @property
    def generation(self) -> int: ...
    @property
    def root(self) -> str: ...
    @property
    def boot_id(self) -> str: ...
    @property
    def clock(self) -> RuntimeClock:
        """Stands still while the sandbox is frozen."""
        ...

    @property
    def sleep(self) -> MachineSleep:
        """Of the machine; a time that goes on meanwhile begins by its clock."""
        ...

    @property
    def bounds(self) -> Bounds: ...

    def storage_grew(self) -> None:
        """A session has begun a segment of its journal."""
        ...

    @property
    def counts(self) -> Counts:
        """Where what happens is counted."""
        ...

    def awake(self) -> AbstractAsyncContextManager[bool]:
        """For as long as something is done that needs the runtime: it is woken first, and not put
        to sleep meanwhile.  Says whether it was running already.  Raises `SandboxConflict`."""
        ...

    def check_not_ending(self) -> None:
        """Raise what is answered where its runtime has ended for good."""
        ...

    def attendance(self) -> None:
        """An attachment has been closed."""
        ...

    def check(self, spec: SessionSpec) -> None:
        """Refuse, with `InvalidRequest`, what this machine cannot honour."""
        ...

    async def launch(self, plan: LaunchPlan) -> Launch:
        """Start the process; raises `SpawnError`."""
        ...

    def touched(self, session_id: str) -> None:
        """The session's record changed: its snapshot is stale."""
        ...

    async def see_through(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` and wait for it; it goes on where the caller is cancelled."""
        ...

    async def remove(self, session_id: str) -> None:
        """The session has ended for good: forget it and remove its files."""
        ...

    def aging(self, journal: Journal, max_age_seconds: int) -> None:
        """Retention by age has begun or was changed: the journal wants to be looked at."""
        ...
