"""The runtime of a sandbox: whether its processes run, and the ways from one state to another.

=========  =====================================================================
state      the sandbox's processes
=========  =====================================================================
`running`  run
`frozen`   are there and stand still (pause with memory, idle suspension)
`absent`   have ended; sessions wait for the next runtime (pause)
`ending`   are being ended for good: the sandbox is deleted, or the daemon stops
=========  =====================================================================

One transition at a time.  Whoever needs the runtime holds it `awake`: it is woken first, once
however many ask at the same time, and no transition begins while it is held.
"""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from .change import Change


class State(enum.Enum):
    RUNNING = enum.auto()
    FROZEN = enum.auto()
    ABSENT = enum.auto()
    ENDING = enum.auto()


class Steps(Protocol):
    """What a transition does: the sandbox's side of it."""

    def check_not_ending(self) -> None:
        """Raise what is answered where the runtime has ended for good."""
        ...

    def check_wakeable(self) -> None:
        """Raise `SandboxConflict` where an access must not wake it."""
        ...

    async def begin_generation(self) -> None:
        """Durably, before anything runs in the new runtime.  Raises `Unavailable`."""
        ...

    async def freeze_sessions(self) -> None: ...
    async def thaw_sessions(self) -> None: ...
    async def end_sessions(self) -> None: ...
    async def recover_sessions(self) -> None: ...


async def nop() -> None:
    """Nothing follows."""


class Runtime:
    """The state and its transitions; `change` tells of every one, and of every user that leaves."""

    def __init__(self, steps: Steps, state: State = State.RUNNING) -> None:
        self.state = state
        self.change = Change()
        self._users = 0
        self._closing = False
        self._steps = steps
        self._lock = trio.Lock()

    @property
    def quiet(self) -> bool:
        """Running, with nobody who needs it?"""
        return self.state is State.RUNNING and not self._users

    @asynccontextmanager
    async def awake(self) -> AsyncIterator[bool]:
        """See `launch.Host.awake`.  Not to be nested: a transition waits for the outer one, and the
        inner one for the transition."""
        was_running = self.state is State.RUNNING and not self._lock.locked()
        if was_running:
            self._users += 1
        else:
            was_running = await self._wake()
        try:
            yield was_running
        finally:
            self._users -= 1
            if not self._users:
                self.change.notify()

    async def _wake(self) -> bool:
        async with self._lock:
            was_running = self.state is State.RUNNING
            if not was_running:
                self._steps.check_not_ending()
                self._steps.check_wakeable()
                await self._resume()
            self._users += 1
            return was_running

    async def resume(self) -> bool:
        """Run again; False where it ran already."""
        async with self._lock:
            self._steps.check_not_ending()
            if self.state is State.RUNNING:
                return False
            await self._resume()
            return True

    async def _resume(self) -> None:
        with trio.CancelScope(shield=True):  # never left half awake
            await self._steps.begin_generation()
            if self.state is State.FROZEN:
                await self._steps.thaw_sessions()
            else:
                await self._steps.recover_sessions()
            self._enter(State.RUNNING)

    async def freeze(
        self,
        *,
        unless: Callable[[], bool] = lambda: False,
        then: Callable[[], Awaitable[None]] = nop,
    ) -> bool:
        """Let nothing run, unless something has come up when it is time; False then, and where
        nothing ran.  `then` is called before anybody can wake it, also where nothing ran."""
        step = self._steps.freeze_sessions
        return await self._leave((State.RUNNING,), State.FROZEN, step, unless, then)

    async def end(self, *, then: Callable[[], Awaitable[None]] = nop) -> bool:
        """End every attempt, also of a frozen one; False where there was none.  `then` as above."""
        states = (State.RUNNING, State.FROZEN)
        step = self._steps.end_sessions
        return await self._leave(states, State.ABSENT, step, lambda: False, then)

    async def close(self) -> None:
        """Nothing is woken any more.  A transition under way is waited for, users are not: one that
        still waits for them does not begin."""
        self._closing = True
        self.change.notify()
        async with self._lock:
            self._enter(State.ENDING)

    async def _leave(
        self,
        states: tuple[State, ...],
        to: State,
        step: Callable[[], Awaitable[None]],
        unless: Callable[[], bool],
        then: Callable[[], Awaitable[None]],
    ) -> bool:
        async with self._lock:
            await self.change.wait_for(lambda: self._closing or not self._users)
            if self._closing:
                self._enter(State.ENDING)
            if unless():
                return False
            self._steps.check_not_ending()
            leaves = self.state in states
            with trio.CancelScope(shield=True):
                if leaves:
                    await step()
                    self._enter(to)
                await then()
            return leaves

    def _enter(self, state: State) -> None:
        self.state = state
        self.change.notify()
