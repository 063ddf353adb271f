"""What a journal gives up, and when: by size, by age, and for space on a full disk."""

import errno
from collections.abc import Callable

from s0d.journal.framing import Framed, Run
from s0d.journal.store import Store, refused

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Retention:
    """Writes to the store and removes from its old end; whole segments only.

    Before a segment goes that holds control records beyond ``checkpointed``, the owner's
    ``checkpoint`` makes its snapshot durable.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self.checkpointed = 0
        self.checkpoint: Callable[[], int] | None = None

    def write(self, frames: list[Framed]) -> None:
        """Make room and write all, or raise :class:`JournalError` with nothing written.

        On a full disk old segments are given up one by one.
        """
        store = self._store
        largest = max([one.size for one in frames])
        if largest > store.limits.max_bytes // 2:
            raise ValueError("a record is larger than half of what is retained")
        while not store.fits(runs := store.plan(frames)) and self._remove_oldest():
            pass
        while True:
            try:
                if store.renew():
                    runs = store.plan(frames)
                store.write(runs)
            except OSError as error:
                runs = self._way_out(runs, frames, error)
            else:
                return

    def trim(self, unapplied: int) -> None:
        """Remove what exceeds ``max_bytes`` after all; not the numbers from ``unapplied`` on,
        which no snapshot can cover yet."""
        store = self._store
        while store.bound_bytes > store.limits.max_bytes:
            control = store.segments[0].last_control
            if self.checkpoint is not None and unapplied <= control > self.checkpointed:
                return
            if not self._remove_oldest():
                return

    def retire(self, now: float) -> float | None:
        """Remove what is older than the limit; when to look again."""
        age = self._store.limits.max_age_seconds
        while age and (oldest := self._store.oldest) is not None:
            due = oldest.newest_at + age
            if due > now:
                return due
            self._remove_oldest()
        return None

    def give_up(self) -> bool:
        """Remove the oldest segment that is not being written; False where there is none."""
        return self._store.has_sealed and self._remove_oldest()

    def _way_out(self, runs: list[Run], frames: list[Framed], error: OSError) -> list[Run]:
        """What to try after a failed write: the room kept, then the room of old segments."""
        store = self._store
        if any(run.new for run in runs) and (kept := store.without_rolling(frames)):
            return kept
        if error.errno not in _NO_SPACE or not store.has_sealed:
            raise refused(error, "cannot append") from error
        self._remove_oldest()
        return store.plan(frames)

    def _remove_oldest(self) -> bool:
        oldest = self._store.oldest
        try:
            if oldest and oldest.last_control > self.checkpointed and self.checkpoint:
                self.checkpointed = self.checkpoint()
            return self._store.remove_oldest()
        except OSError as error:
            raise refused(error, "cannot remove old records") from error
