"""The clock of a sandbox's runtime: Trio's, but it stands still while the sandbox is frozen.

Idle time, readiness, delays, backoff and restart windows count on it.  Lifetimes and the sandbox's
own expiry count on Trio's clock: they run on (wire contract, section 2, "While frozen"), also while
the machine sleeps (`sleep`).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio

from .change import Change


class RuntimeClock:
    """Seconds of running; `stop` and `start` are for the sandbox's runtime alone.

    Whoever waits by it has to be told (`Change.notify`) when it is stopped or started.
    """

    def __init__(self) -> None:
        self._behind = 0.0
        self._stopped_at: float | None = None
        self._turns = 0

    @property
    def stopped(self) -> bool:
        """Does it stand still?"""
        return self._stopped_at is not None

    def time(self) -> float:
        """Now."""
        now = trio.current_time() if self._stopped_at is None else self._stopped_at
        return now - self._behind

    def deadline(self, at: float) -> float:
        """When `at` comes on Trio's clock, as things stand: never while this one stands still."""
        return math.inf if self.stopped else at + self._behind

    def reached(self, at: float) -> bool:
        """Has `at` come?"""
        return trio.current_time() >= self.deadline(at)

    def stop(self) -> None:
        self._stopped_at = trio.current_time()
        self._turns += 1

    def start(self) -> None:
        if self._stopped_at is not None:
            self._behind += trio.current_time() - self._stopped_at
            self._stopped_at = None
            self._turns += 1

    async def wait(
        self,
        change: Change,
        condition: Callable[[], bool],
        at: float = math.inf,
        *,
        until: float = math.inf,
    ) -> None:
        """Until `condition()` holds, this clock comes to `at`, or Trio's to `until`."""
        while not (condition() or self.reached(at) or trio.current_time() >= until):
            turns = self._turns

            def called(turns: int = turns) -> bool:
                return condition() or self._turns != turns

            await change.wait_for(called, deadline=min(self.deadline(at), until))
