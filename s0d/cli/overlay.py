"""A few words of ours over the last line of a session's screen, until that is painted again."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Final

import trio

from .tty import Tty

_STAYS: Final = 3.0
"""Seconds that a text is left to be read, unless a key is pressed."""
_LOOK: Final = 0.1


class Overlay:
    def __init__(self, tty: Tty | None) -> None:
        self.hinted = False
        self._tty = tty
        self._due: float | None = None
        self._woken = trio.Event()

    def show(self, text: str) -> None:
        """Where there is a terminal with room for it."""
        if self._tty is None:
            return
        rows, cols = self._tty.size()
        if rows < 2 or cols < 10:
            return
        words = f" {text} "[: cols - 1]
        with suppress(OSError):
            os.write(1, f"\x1b7\x1b[{rows};1H\x1b[0;7m{words}\x1b[0m\x1b8".encode())
        self._due = trio.current_time() + _STAYS
        self.wake()

    def touched(self) -> None:
        """It has been seen."""
        if self._due is not None:
            self._due = trio.current_time()
            self.wake()

    def cleared(self) -> None:
        """The screen has been painted."""
        self._due = None

    def is_due(self) -> bool:
        """Is it to go?"""
        return self._due is not None and trio.current_time() >= self._due

    async def wait(self) -> None:
        """Until it is worth looking again."""
        with trio.move_on_after(_LOOK if self._due is not None else float("inf")):
            await self._woken.wait()

    def wake(self) -> None:
        self._woken.set()
        self._woken = trio.Event()
