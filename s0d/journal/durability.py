"""What of one journal is on the disk, and who waits for the rest.

A sync is a round: it is planned on the loop (which files, up to which number), carried out in a
worker thread, and booked on the loop. All who waited when it was planned are served by it.
"""

import errno
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

import trio

from s0d.journal.disk import Disk
from s0d.journal.errors import JournalError
from s0d.journal.loop import call, on_loop, wait_on_loop
from s0d.journal.mark import Marks
from s0d.journal.rounds import DirtyFile, Plan
from s0d.journal.segment import Segment, SharedFile
from s0d.journal.syncer import RETRY, Syncer


@dataclass(slots=True, eq=False)
class Round:
    """One sync: what it covers, and how it ended."""

    done: trio.Event = field(default_factory=trio.Event)
    target: int = 0
    error: OSError | None = None


class Durability:
    """The books: dirty files, the durable number, the rounds and their waiters."""

    def __init__(
        self,
        disk: Disk,
        path: Callable[[], str],
        synced: int,
        marks: Marks,
        syncer: Syncer | None,
        limiter: trio.CapacityLimiter | None,
    ) -> None:
        self._disk = disk
        self._path = path
        self._marks = marks
        self._syncer = syncer
        self._limiter = limiter
        self._lock = trio.Lock()
        self._files: list[DirtyFile] = []
        self._names = False
        self._running: Round | None = None
        self._next: Round | None = None
        self.closed = False
        self._released = False
        self.synced = synced
        self.latest = synced
        self.error: OSError | None = None
        """Why the last round failed; None after one that did not."""

    @property
    def dirty(self) -> bool:
        """Whether a round would have something to do."""
        return bool(self._files) or self._names or self._marks.wanted

    @property
    def syncing(self) -> bool:
        """Whether a round is running; when it ends it asks for another if need be."""
        return self._running is not None

    def wrote(self, segment: Segment, file: SharedFile, latest: int) -> None:
        """``file`` has new data, the newest number is ``latest``."""
        self.latest = latest
        if not any(dirty.file is file for dirty in self._files):
            file.hold()
            self._files.append(DirtyFile(segment, file))
        self._request(False)

    def took_back(self, segment: Segment, file: SharedFile) -> None:
        """What a failed append had written was cut off: that is to be durable, too."""
        segment.unsettled = True
        self.wrote(segment, file, self.latest)
        for dirty in self._files:
            dirty.settles = dirty.settles or dirty.file is file

    def renamed(self) -> None:
        """A name in the directory has come or gone."""
        self._names = True
        self._request(False)

    def forget(self, segment: Segment) -> None:
        """The segment was removed: its space is free once nobody holds the file."""
        for dirty in [dirty for dirty in self._files if dirty.segment is segment]:
            self._files.remove(dirty)
            dirty.file.release()

    async def wait(self, seq: int) -> None:
        """Until ``seq`` is durable. Raises :class:`JournalError`."""
        if seq <= self.synced:
            await trio.lowlevel.checkpoint()
            return
        if self._syncer is None:
            error = await self._sync_alone(seq)
        else:
            error = await self._join(seq)
        if error is not None and self.synced < seq:
            raise JournalError(f"not durable: {error}", error.errno or errno.EIO) from error

    async def round(self) -> OSError | None:
        """One whole round from now on; its error."""
        return await (self._join(None) if self._syncer is not None else self._sync_alone(None))

    async def _join(self, seq: int | None) -> OSError | None:
        """Wait for the running round where it covers ``seq``, else for the next one."""
        current = self._running
        if current is None or seq is None or current.target < seq:
            if self._released:
                return _no_more()
            current = self._next
            if current is None:
                current = self._next = Round()
                self._request(True)
        await current.done.wait()
        return current.error

    async def _sync_alone(self, seq: int | None) -> OSError | None:
        """Without a syncer one of those who wait does it for all."""
        async with self._lock:
            if self._released:
                return _no_more()
            if seq is None or seq > self.synced:
                await self._sync(self._limiter)
            return self.error

    async def sync_round(self, limiter: trio.CapacityLimiter | None) -> None:
        """Run one round for the syncer, unless one is running (it asks again when it ends)."""
        if not self.closed and not self.syncing:
            await self._sync(limiter)

    async def _sync(self, limiter: trio.CapacityLimiter | None) -> None:
        plan, current = self._begin()
        try:
            await trio.to_thread.run_sync(plan.carry_out, self._disk, limiter=limiter)
        except BaseException:
            # Cancelled before the thread began: everything is as dirty as before.
            plan.error = OSError(errno.ECANCELED, "the sync was cancelled")
            plan.failed, plan.mark_failed = plan.files, True
            self._finish(plan, current, suspect=False)
            raise
        self._finish(plan, current)

    def sync_now(self, above: Sequence[str] | None = None) -> None:
        """Run one round in the calling thread, for opening and closing. Raises ``OSError``.

        ``above``: for a new journal, see :class:`Plan`.
        A round that the syncer runs is waited for: it may be about data that this one must not
        take for durable.
        """
        while (running := self._running) is not None:
            wait_on_loop(running.done.wait)
        # Nobody else has a new journal yet: the way to the loop and back, twice, is saved.
        reach = on_loop if above is None else call
        plan, current = reach(self._begin)
        plan.above = above
        plan.carry_out(self._disk)
        reach(partial(self._finish, plan, current))
        if plan.error is not None:
            raise plan.error

    def request(self) -> None:
        """Have the syncer look within its interval."""
        self._request(False)

    def _request(self, urgent: bool) -> None:
        # In a worker thread (opening, reserving) nothing is asked for: the next append does it.
        if self._syncer is not None and not self.closed and trio.lowlevel.in_trio_run():
            delay = RETRY if self.error is not None else None
            self._syncer.request(self, urgent=urgent, delay=delay)

    def _begin(self) -> tuple[Plan, Round]:
        """Plan a round for everything there is."""
        current = self._next or Round()
        self._next = None
        self._running = current
        current.target = self.latest
        plan = Plan(self._path(), self._files, self._names, self._marks.take())
        self._files = []
        self._names = False
        return plan, current

    def _finish(self, plan: Plan, current: Round, *, suspect: bool = True) -> None:
        """Book a round that was carried out, and wake its waiters."""
        for dirty in plan.files:
            if dirty not in plan.failed:
                dirty.file.release()
                if dirty.settles:
                    dirty.segment.unsettled = False
            elif suspect:
                dirty.suspect = dirty.segment.suspect = True
        self._take_back(plan.failed)
        self._names = self._names or (plan.names and not plan.names_done)
        if plan.mark is not None and not plan.mark_failed:
            self._marks.book(plan.mark)
        if not plan.failed and (plan.names_done or not plan.names):
            self.synced = max(self.synced, current.target)
        self.error = current.error = plan.error
        self._running = None
        current.done.set()
        if self._next is not None or self.dirty:
            self._request(self._next is not None)

    def _take_back(self, failed: list[DirtyFile]) -> None:
        """Failed files stay dirty, once each: one may have been written to during the round."""
        again = {dirty.file: dirty for dirty in failed}
        for dirty in self._files:
            if (before := again.get(dirty.file)) is not None:
                before.settles = before.settles or dirty.settles
                dirty.file.release()
        self._files = [*failed, *(dirty for dirty in self._files if dirty.file not in again)]

    def abandon_sync(self, error: JournalError) -> None:
        """No round will come: fail who waits for one."""
        current, self._next = self._next, None
        if current is not None:
            current.error = OSError(error.errno, str(error))
            current.done.set()

    def close(self) -> None:
        """Ask for no more rounds and let go of all descriptors; who waits from now on is told."""
        self.closed = self._released = True
        if self._syncer is not None:
            self._syncer.discard(self)
        self.abandon_sync(JournalError("the journal is closed", errno.EBADF))
        for dirty in self._files:
            dirty.file.release()
        self._files = []


def _no_more() -> OSError:
    """Why somebody who came after the end cannot be served: no round will come."""
    return OSError(errno.EBADF, "the journal is closed")
