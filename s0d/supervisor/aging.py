"""Retention by age, also while a journal is idle.

One task for all journals of a sandbox, asleep until the oldest segment of any of them comes of
age; the journals keep their own clock, here only differences count.
"""

from __future__ import annotations

import logging
import math
from typing import Final

import trio

from s0d.journal import Journal, JournalError
from s0d.journal.journal import boot_clock

from .change import Change

log = logging.getLogger("s0d.aging")

# Looked at together and not more often than this; age retention may be late by 30 s.
SPACING: Final = 10.0


class Aging:
    """The journals that have a limit by age, and when to look at them next."""

    def __init__(self) -> None:
        self._ages: dict[Journal, int] = {}
        self._next = math.inf
        self._change = Change()

    def add(self, journal: Journal, max_age_seconds: int) -> None:
        """Look after `journal`; what is new in it is kept for `max_age_seconds`."""
        self._ages[journal] = max_age_seconds
        self._next = min(self._next, trio.current_time() + min(max_age_seconds, SPACING))
        self._change.notify()

    def discard(self, journal: Journal) -> None:
        """The journal is going away."""
        self._ages.pop(journal, None)

    def look(self) -> None:
        """Time has passed that Trio's clock does not know of."""
        self._next = trio.current_time()
        self._change.notify()

    async def run(self) -> None:
        """Remove what is too old, whenever there is something."""
        while True:
            await self._change.wait_for(
                lambda: trio.current_time() >= self._next, deadline=self._next
            )
            if trio.current_time() < self._next:
                continue
            waits = [self._retire(*item) for item in self._ages.items()]
            self._next = trio.current_time() + max(SPACING, min(waits, default=math.inf))

    def _retire(self, journal: Journal, max_age_seconds: int) -> float:
        """Seconds until the journal wants to be looked at again."""
        try:
            now = boot_clock()
            due = journal.retire(now)
        except JournalError as error:
            log.warning("old segments cannot be removed: %s", error)
            return SPACING
        # An empty journal has nothing that could come of age before its whole limit has passed.
        return float(max_age_seconds) if due is None else due - now
