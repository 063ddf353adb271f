"""Long work on the loop, in turns with everybody else."""

from __future__ import annotations

import time
from typing import Final

import trio

TURN: Final = 0.001
"""Seconds of work between two turns of the others: an echo takes several of them."""
BURST: Final = 0.1
"""Seconds after which work that takes long leaves half of the time to the others."""


class Turns:
    """The turns of one piece of work, which begins now."""

    def __init__(self) -> None:
        self._turn = self._began = time.perf_counter()

    async def rest(self) -> None:
        """Let the others run, if it is their turn.  Call it often: it mostly does nothing."""
        now = time.perf_counter()
        if now - self._turn >= TURN:
            # A checkpoint gives each of the others one step, a nap as many as they need.
            await trio.sleep(0 if now - self._began < BURST else TURN)
            self._turn = time.perf_counter()
