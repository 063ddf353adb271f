"""What of one journal is on the disk, and bringing the rest there.

A sync is a round: it is planned on the loop (which files, up to which number), carried out in a
worker thread, and booked on the loop. All who waited when it was planned are served by it.

A failed ``fdatasync`` is never simply repeated: the kernel may have dropped the pages and would
then report success. The file is retired from writing, and the next round writes it anew from what
can still be read (new file, fsync, rename, fsync of the directory); only then its numbers count as
durable. Until that works, waiters get the error.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass, field

import trio

from s0d.journal.disk import Disk, opened, opened_directory, read_fully, write_fully
from s0d.journal.errors import JournalError
from s0d.journal.mark import Mark, Marks, write_mark
from s0d.journal.segment import Segment, SharedFile

_COPY = 1024 * 1024

Request = Callable[[bool], None]


@dataclass(slots=True, eq=False)
class DirtyFile:
    """A segment file with data that is not durable. ``suspect``: a sync of it has failed."""

    segment: Segment
    file: SharedFile
    suspect: bool = False


@dataclass(slots=True, eq=False)
class Round:
    """One sync: what it covers, and how it ended."""

    done: trio.Event = field(default_factory=trio.Event)
    target: int = 0
    error: OSError | None = None


@dataclass(slots=True)
class Plan:
    """What a worker thread is to do; it touches nothing else."""

    path: str
    files: list[DirtyFile]
    names: bool
    mark: Mark | None
    failed: list[DirtyFile] = field(default_factory=list)
    mark_failed: bool = False
    names_done: bool = False
    error: OSError | None = None

    def carry_out(self, disk: Disk) -> None:
        """Blocking. Errors are put down in the plan."""
        for dirty in self.files:
            self._try(disk, dirty)
        if self.names and self.error is None:
            try:
                _sync_names(disk, self.path)
                self.names_done = True
            except OSError as error:
                self.error = error
        if self.mark is not None:
            try:
                write_mark(disk, self.path, self.mark)
            except OSError as error:
                self.mark_failed = True
                self.error = self.error or error

    def _try(self, disk: Disk, dirty: DirtyFile) -> None:
        try:
            if dirty.segment.removed:
                return  # by retention: nobody can ask for it any more
            if dirty.suspect:
                rewrite(disk, self.path, dirty)
            else:
                disk.fdatasync(dirty.file.fd)
        except OSError as error:
            if not dirty.segment.removed:
                self.failed.append(dirty)
                self.error = self.error or error


def rewrite(disk: Disk, path: str, dirty: DirtyFile) -> None:
    """Give a segment whose sync failed a new, durable file with the same content."""
    name = dirty.segment.name
    size = dirty.segment.size
    with opened_directory(disk, path) as directory:
        with (
            opened(disk, directory, name) as old,
            opened(disk, directory, name + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as new,
        ):
            # The size as it was counted: what a failed append left behind it is not copied.
            for offset in range(0, size, _COPY):
                part = read_fully(disk, old, min(_COPY, size - offset), offset)
                write_fully(disk, new, part, offset)
            disk.fsync(new)
        disk.rename(directory, name + ".new", name)
        if dirty.segment.removed:  # on the loop, meanwhile: the rename has brought it back
            disk.unlink(directory, name)
        disk.fsync(directory)


def _sync_names(disk: Disk, path: str) -> None:
    with opened_directory(disk, path) as directory:
        disk.fsync(directory)


class Durability:
    """The books: dirty files, the durable number, the rounds and their waiters.

    ``request`` is called when a round is wanted: with True at once, with False in a while.
    """

    def __init__(self, disk: Disk, synced: int, marks: Marks, request: Request) -> None:
        self._disk = disk
        self._marks = marks
        self._request = request
        self._files: list[DirtyFile] = []
        self._names = False
        self._running: Round | None = None
        self._next: Round | None = None
        self.synced = synced
        self.latest = synced
        self.error: OSError | None = None
        """Why the last round failed; None after one that did not."""

    @property
    def dirty(self) -> bool:
        """Whether a round would have something to do."""
        return bool(self._files) or self._names or self._marks.wanted

    @property
    def busy(self) -> bool:
        """Whether a round is running."""
        return self._running is not None

    def wrote(self, segment: Segment, file: SharedFile, latest: int) -> None:
        """``file`` has new data, the newest number is ``latest``."""
        self.latest = latest
        if not any(dirty.file is file for dirty in self._files):
            file.hold()
            self._files.append(DirtyFile(segment, file))
        self._request(False)

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
        current = self._running
        if current is None or current.target < seq:
            current = self.next_round()
        await current.done.wait()
        if current.error is not None and self.synced < seq:
            raise not_durable(current.error) from current.error

    def next_round(self) -> Round:
        """The round that has not begun; asks for it."""
        if self._next is None:
            self._next = Round()
            self._request(True)
        return self._next

    async def sync(self, path: str, limiter: trio.CapacityLimiter | None) -> None:
        """Run one round. The caller sees to it that none is running."""
        plan, current = self._begin(path)
        try:
            await trio.to_thread.run_sync(plan.carry_out, self._disk, limiter=limiter)
        except BaseException:
            # Cancelled before the thread began: everything is as dirty as before.
            plan.error = OSError(errno.ECANCELED, "the sync was cancelled")
            plan.failed, plan.mark_failed = plan.files, True
            self._finish(plan, current, suspect=False)
            raise
        self._finish(plan, current)

    def sync_now(self, path: str) -> None:
        """Run one round in the calling thread, for closing. Raises ``OSError``."""
        plan, current = self._begin(path)
        plan.carry_out(self._disk)
        self._finish(plan, current)
        if plan.error is not None:
            raise plan.error

    def _begin(self, path: str) -> tuple[Plan, Round]:
        """Plan a round for everything there is."""
        current = self._next or Round()
        self._next = None
        self._running = current
        current.target = self.latest
        plan = Plan(path, self._files, self._names, self._marks.take())
        self._files = []
        self._names = False
        return plan, current

    def _finish(self, plan: Plan, current: Round, *, suspect: bool = True) -> None:
        """Book a round that was carried out, and wake its waiters."""
        for dirty in plan.files:
            if dirty not in plan.failed:
                dirty.file.release()
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
        again = {dirty.file for dirty in failed}
        for dirty in self._files:
            if dirty.file in again:
                dirty.file.release()
        self._files = [*failed, *(dirty for dirty in self._files if dirty.file not in again)]

    def abandon(self, error: OSError) -> None:
        """No round will come: fail the waiters of the next one."""
        if self._next is not None:
            self._next.error = error
            self._next.done.set()
            self._next = None

    def drop_files(self) -> None:
        """Let go of all descriptors."""
        for dirty in self._files:
            dirty.file.release()
        self._files = []


def not_durable(error: OSError) -> JournalError:
    """The error that a waiter gets."""
    return JournalError(f"not durable: {error}", error.errno or errno.EIO)
