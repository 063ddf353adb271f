"""Long work on the loop, in turns with everybody else.

Checkpoints alone are not enough to be no trouble to others.  One gives each of them one step, where
the answer to a client takes a dozen.  And a worker thread that wants the interpreter back is woken
whenever the loop lets go of it for an instant, comes too late each time, and so never waits out
the interval after which Python would make room for it.  Only sleep lets all of them go on.
"""

from __future__ import annotations

import time
from typing import Final

import trio

_TURN: Final = 0.0005
"""Seconds of work between two looks at whether others want to run."""
_AWAKE: Final = 0.004
"""Seconds of work, at most, without sleep: what a thread may have to wait that nobody sees."""
_BUSY: Final = 0.01
"""Seconds after others were seen to run in which they come first."""
_BURST: Final = 0.1
"""Seconds after which work that takes long leaves half of the time to the others."""
_NAP: Final = 0.001
"""Seconds of sleep: the least that there is (epoll counts milliseconds)."""


class Turns:
    """The turns of one piece of work, which begins now."""

    def __init__(self) -> None:
        self._turn = self._slept = now = time.perf_counter()
        self._burst = now + _BURST
        self._busy = now

    async def rest(self) -> None:
        """Let the others run, if it is their turn.  Call it often: it mostly does nothing."""
        now = time.perf_counter()
        if now - self._turn < _TURN:
            return
        await trio.lowlevel.checkpoint()
        if trio.lowlevel.current_statistics().tasks_runnable:
            self._busy = now + _BUSY
        if now - self._slept > self._longest(now):
            await trio.sleep(_NAP)
            self._slept = time.perf_counter()
        self._turn = time.perf_counter()

    def _longest(self, now: float) -> float:
        """Seconds that it may go on without sleep."""
        if now < self._busy:
            return 0.0
        return _AWAKE if now < self._burst else _NAP
