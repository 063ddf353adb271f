"""What the journals of a sandbox retain together, held to a limit."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from s0d.journal import JournalError

log = logging.getLogger("s0d.storage")


class Retaining(Protocol):
    """What is needed of a journal."""

    @property
    def retained_bytes(self) -> int: ...
    def give_up_oldest(self) -> bool: ...


class Storage:
    """`journals` gives all of them as they are now."""

    def __init__(self, journals: Callable[[], Iterable[Retaining]], most: int) -> None:
        self._journals = journals
        self._most = most

    def grew(self) -> None:
        """A segment has begun somewhere: give up the oldest of the largest until all fit."""
        journals = list(self._journals())
        total = sum(journal.retained_bytes for journal in journals)
        while total > self._most and journals:
            largest = max(journals, key=lambda journal: journal.retained_bytes)
            before = largest.retained_bytes
            if not _give_up(largest):
                journals.remove(largest)  # what it has is still being written
            total -= before - largest.retained_bytes


def _give_up(journal: Retaining) -> bool:
    try:
        return journal.give_up_oldest()
    except JournalError as error:
        log.warning("an old segment cannot be removed: %s", error)
        return False
