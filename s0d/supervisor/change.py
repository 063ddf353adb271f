"""Waiting for a condition over state that changes in one stretch of code.

Trio switches tasks only at an await, so state needs no lock: a waiter looks, parks, and looks again
when the one who changed something says so.  One `Change` serves any number of different conditions.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import trio


class Change:
    """A place to wait at until something has changed."""

    def __init__(self) -> None:
        self._lot = trio.lowlevel.ParkingLot()

    def notify(self) -> None:
        """Something changed: every waiter looks at its condition again."""
        self._lot.unpark_all()

    async def wait_for(self, condition: Callable[[], bool], *, deadline: float = math.inf) -> bool:
        """Wait until `condition()` holds; False where the deadline (Trio's clock) came first."""
        if condition():
            await trio.lowlevel.checkpoint()
            return True
        with trio.move_on_at(deadline):
            while not condition():
                await self._lot.park()
        return condition()
