"""The journal of one session."""

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Self

import trio

from s0d.journal.catchup import replay
from s0d.journal.cursor import Cursor
from s0d.journal.disk import Disk, make_directory, opened_directory
from s0d.journal.durability import Durability
from s0d.journal.errors import CursorAhead, CursorExpired, JournalError
from s0d.journal.framing import frame_entries, frame_record
from s0d.journal.loop import on_loop
from s0d.journal.mark import BLOCK, Mark, Marks, create_mark, renew_mark, write_mark
from s0d.journal.record import Block, Entry, Limits, Record, gap_record
from s0d.journal.recovery import Recovered, RecoveryReport, recover
from s0d.journal.retention import Retention
from s0d.journal.store import Store, refused
from s0d.journal.syncer import Syncer
from s0d.journal.tail import Tail

TAIL_BYTES = 1024 * 1024


def boot_clock() -> float:
    """Seconds that no change of the wall clock moves, and that go on during suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Journal:
    """Numbered records on disk, in memory for its readers. See the package for its promises.

    ``create``, ``open``, ``reserve`` and ``close`` may block: call them in a worker thread (not
    while another method runs). Everything else belongs to the Trio thread and takes microseconds;
    ``append`` and ``retire`` block only for ``checkpoint``.
    """

    def __init__(
        self,
        disk: Disk,
        directory: str,
        session_id: str,
        limits: Limits,
        recovered: Recovered,
        *,
        syncer: Syncer | None,
        clock: Callable[[], float],
        tail_bytes: int,
        limiter: trio.CapacityLimiter | None,
    ) -> None:
        self.disk = disk
        self.limiter = limiter
        self.recovery: RecoveryReport = recovered.report
        self.ended = False
        self.arrivals = trio.lowlevel.ParkingLot()
        self.tail = Tail(tail_bytes)
        self._closed = False
        self._clock = clock
        self._reopen = recovered.reopen
        self._mark_lost = recovered.report.mark_lost
        self._next = recovered.next
        self._covers = recovered.gap_from or recovered.next
        self._lock = trio.Lock()
        self._marks = Marks(recovered.mark, lambda: (self._next, self.earliest), disk.boot_id())
        self.store = Store(disk, directory, session_id, limits, recovered.segments, clock)
        self._retention = Retention(self.store)
        self._durability = Durability(
            disk, lambda: self.path, self.latest, self._marks, syncer, limiter
        )
        self.store.durability = self._durability
        newest = recovered.segments[-1:]
        self.last_time_ns: int = newest[0].newest_ns if newest else 0
        """Wall-clock time of the newest record; 0 before the first."""

    @classmethod
    def create(
        cls,
        disk: Disk,
        directory: str,
        session_id: str,
        limits: Limits,
        syncer: Syncer | None = None,
        *,
        first: Sequence[Entry] = (),
        above: Sequence[str] = (),
        clock: Callable[[], float] = boot_clock,
        tail_bytes: int = TAIL_BYTES,
        limiter: trio.CapacityLimiter | None = None,
    ) -> Self:
        """A new journal in ``directory``, which is made where needed. It is durable on return.

        So are its records ``first``, and the names in the directories ``above``, beside the
        parent's: whoever made those needs no sync of their own.

        Blocks. Raises :class:`JournalError`; also when a journal is there already (``EEXIST``).
        """
        mark = Mark(0, 1, 1, 0, clean=True, boot=bytes(16))
        recovered = Recovered([], mark, 1, None, "", False, RecoveryReport())
        journal = cls(
            disk, directory, session_id, limits, recovered,
            syncer=syncer, clock=clock, tail_bytes=tail_bytes, limiter=limiter,
        )  # fmt: skip
        try:
            make_directory(disk, directory, sync=False)
            journal._start_new(first, above)
        except OSError as error:
            journal._release()
            raise refused(error, "cannot create the journal") from error
        except BaseException:
            journal._release()
            raise
        return journal

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        session_id: str,
        limits: Limits,
        syncer: Syncer | None = None,
        *,
        reserve: bool = True,
        clock: Callable[[], float] = boot_clock,
        tail_bytes: int = TAIL_BYTES,
        limiter: trio.CapacityLimiter | None = None,
        wall_ns: Callable[[], int] = time.time_ns,
        generation: int = 0,
    ) -> Self:
        """Recover what is in ``directory``; ``recovery`` tells what was found.

        ``generation`` is put on the gap record that an unclean end may make necessary.

        Without ``reserve`` a cleanly closed journal is only read: no sync, no descriptor; appends
        are refused (``EAGAIN``) until :meth:`reserve`. After an unclean end it is always reserved.
        Blocks. Raises :class:`JournalError` where the disk cannot be read or written; damage is
        never an error.
        """
        try:
            with opened_directory(disk, directory) as opened:
                recovered = recover(disk, opened, session_id, clock, wall_ns())
        except OSError as error:
            raise refused(error, "cannot read the journal") from error
        journal = cls(
            disk, directory, session_id, limits, recovered,
            syncer=syncer, clock=clock, tail_bytes=tail_bytes, limiter=limiter,
        )  # fmt: skip
        try:
            journal._settle(recovered, generation, reserve=reserve)
        except BaseException:
            journal._release()
            raise
        return journal

    @property
    def path(self) -> str:
        """The directory."""
        return self.store.path

    @property
    def latest(self) -> int:
        """The newest number; 0 before the first."""
        return self._next - 1

    @property
    def earliest(self) -> int:
        """The first number retained; ``latest + 1`` with nothing retained, 0 before the first."""
        segments = self.store.segments
        if self.latest == 0:
            return 0
        return segments[0].first if segments else self.latest + 1

    @property
    def newest_segment(self) -> int:
        """The first number of the newest segment; 0 where there is none."""
        segments = self.store.segments
        return segments[-1].first if segments else 0

    def segments_beyond(self, seq: int) -> list[int]:
        """The first numbers of the segments that begin beyond ``seq``, in order."""
        return [segment.first for segment in self.store.segments if segment.first > seq]

    @property
    def retained_bytes(self) -> int:
        """Bytes of the segment files."""
        return self.store.retained_bytes

    @property
    def limits(self) -> Limits:
        """The retention in force."""
        return self.store.limits

    @property
    def checkpointed(self) -> int:
        """The owner's durable snapshot covers control records up to here."""
        return self._retention.checkpointed

    @checkpointed.setter
    def checkpointed(self, seq: int) -> None:
        self._retention.checkpointed = seq

    @property
    def checkpoint(self) -> Callable[[], int] | None:
        """Makes the owner's snapshot durable and returns the number it covers.

        Called by ``append``, ``retire`` and ``set_limits`` before a segment with control records
        beyond ``checkpointed`` is removed. It may raise ``OSError`` or :class:`JournalError`: the
        segment then stays, and the call is refused.
        """
        return self._retention.checkpoint

    @checkpoint.setter
    def checkpoint(self, function: Callable[[], int] | None) -> None:
        self._retention.checkpoint = function

    @property
    def durable(self) -> int:
        """All records up to here are on the disk."""
        return self._durability.synced

    @property
    def sync_error(self) -> OSError | None:
        """Why the last sync failed; None after one that did not."""
        return self._durability.error

    def append(self, entries: Sequence[Entry]) -> Block:
        """Number, write and publish. All or nothing.

        Old segments go where ``max_bytes`` or a full disk demands it. Raises
        :class:`JournalError` with nothing changed but retention; ``ValueError``, ``TypeError`` or
        ``OverflowError`` for what cannot be stored (a record over 16 MiB or ``max_bytes``).
        """
        first = self._next
        self._check_writable(first + len(entries) - 1)
        frames = frame_entries(first, entries)
        self._retention.write(frames)
        block = Block(first, [one.record for one in frames], [one.size for one in frames])
        self._next = block.last + 1
        self.last_time_ns = block.records[-1].time_ns
        self.tail.add(block)
        # What is published is published: retention that fails here is due again next time.
        with suppress(JournalError):
            self._retention.trim(first)
        if self.arrivals:
            self.arrivals.unpark_all()
        return block

    def replay(self, after: int, *, control_only: bool = True) -> Iterator[Record]:
        """Records beyond ``after`` from the files, with gaps. Blocks; for recovery folds.

        With ``control_only`` output is left out, and segments without control records unread.
        Raises :class:`JournalError`.
        """
        try:
            yield from replay(
                self.disk, self.path, self.store.segments, after, control_only=control_only
            )
        except OSError as error:
            raise refused(error, "cannot read") from error

    def cursor(self, after: int | None) -> Cursor:
        """A reader's place behind ``after``; None: before the earliest record.

        Raises :class:`CursorExpired` and :class:`CursorAhead`.
        """
        before = max(0, self.earliest - 1)
        position = before if after is None else after
        if position > self.latest:
            raise CursorAhead(self.latest)
        if position < before:
            raise CursorExpired(self.earliest, self.latest)
        return Cursor(self, position)

    async def wait_durable(self, seq: int | None = None) -> None:
        """Until records up to ``seq`` (default: all there are) are on the disk.

        Raises :class:`JournalError` when the sync for it failed: nothing is durable then that was
        not before; a later wait tries again, by writing the segments anew.
        """
        seq = self.latest if seq is None else seq
        if seq > self.latest:
            raise ValueError(f"{seq} is beyond the latest record")
        await self._durability.wait(seq)

    @property
    def dormant(self) -> bool:
        """Whether it was opened without ``reserve``, and not reserved since."""
        return self.store.writer is None and not self._closed

    async def wait_writable(self) -> None:
        """Until there are numbers to give out. Raises :class:`JournalError`."""
        async with self._lock:
            if not self._marks.reserved:
                await trio.to_thread.run_sync(self.reserve, limiter=self.limiter)
                self._durability.request()
            while self._next >= self._marks.reserved:
                error = await self._durability.round()
                if error is not None and self._next >= self._marks.reserved:
                    raise refused(error, "cannot reserve numbers")

    def set_limits(self, limits: Limits) -> None:
        """Change retention; it applies at once. Raises :class:`JournalError`."""
        self.store.limits = limits
        self.retire(self._clock())

    def retire(self, now: float) -> float | None:
        """Remove what is older than the limit, also the newest segment, and what is too much
        because it could not be removed before.

        ``now`` is on the journal's clock; returns when to look again, None for never. Raises
        :class:`JournalError`.
        """
        due = self._retention.retire(now)
        self._retention.trim(self._next)
        return due

    def give_up_oldest(self) -> bool:
        """Remove the oldest segment, other journals need its room; False where there is none but
        the one being written. Raises :class:`JournalError`."""
        return self._retention.give_up()

    def end(self) -> None:
        """No more records will come: cursors get None after the last one."""
        self.ended = True
        self.arrivals.unpark_all()

    def relocate(self, directory: str) -> None:
        """The directory has been renamed to ``directory``."""
        self.store.path = directory

    def reserve(self) -> None:
        """Make numbers available and open the newest segment. Blocks. Raises
        :class:`JournalError`."""
        if self._next < self._marks.reserved:
            return
        mark = self._marks.reserving(self._next)
        try:
            if self._mark_lost:
                mark = renew_mark(self.disk, self.path, mark)
                self._mark_lost = False
                self._durability.renamed()
            else:
                write_mark(self.disk, self.path, mark)
            self._marks.book(mark)
            if self.store.writer is None:
                self.store.prepare(self._covers, reopen=self._reopen)
        except OSError as error:
            raise refused(error, "cannot reserve numbers") from error

    def close(self, *, clean: bool = True) -> None:
        """Sync, note the clean end, let go of all files. Blocks; may be called twice.

        Raises :class:`JournalError` when it could not be made clean (it is closed all the same).
        Open cursors may go on reading what is there.
        """
        if self._closed:
            return
        self._closed = True
        try:
            on_loop(self._stop)
            if clean and self._marks.reserved:
                self.store.tidy()
                self.store.seal()
                self._durability.sync_now()
                write_mark(self.disk, self.path, self._marks.clean())
        except OSError as error:
            raise refused(error, "not closed cleanly") from error
        finally:
            on_loop(self._release)

    # Inside.

    def _stop(self) -> None:
        self.end()
        self._durability.closed = True

    def _start_new(self, first: Sequence[Entry], above: Sequence[str]) -> None:
        with opened_directory(self.disk, self.path) as directory:
            if self.disk.listdir(directory):
                raise OSError(errno.EEXIST, "a journal is there already")
        mark = self._marks.reserving(1)
        # Numbers may be given out before the mark is durable: nobody sees them before that.
        create_mark(self.disk, self.path, mark)
        self._marks.book(mark)
        self.store.prepare(1, reopen=False)
        if first:
            self.append(first)
        self._durability.renamed()
        self._durability.sync_now([os.path.dirname(os.path.abspath(self.path)), *above])

    def _settle(self, recovered: Recovered, generation: int, *, reserve: bool) -> None:
        """After recovery: reserve, and put the gap record that is due."""
        if reserve or recovered.report.unclean or recovered.gap_from is not None:
            self.reserve()
        if recovered.gap_from is not None:
            self._append_gap(recovered.gap_from, recovered.gap_reason, generation)

    def _append_gap(self, first: int, reason: str, generation: int) -> None:
        now = max(time.time_ns(), self.last_time_ns)
        record = gap_record(first, self._next, reason, now, generation)
        self._retention.write([frame_record(record, first, bulk=False)])
        self._next = record.seq + 1
        self.last_time_ns = record.time_ns
        self.recovery.gap = (first, record.seq)
        try:
            self._durability.sync_now()
        except OSError as error:
            raise refused(error, "cannot recover the journal") from error

    def _check_writable(self, last: int) -> None:
        if self._closed:
            raise JournalError("the journal is closed", errno.EBADF)
        if last < self._next:
            raise ValueError("nothing to append")
        if last >= self._next + BLOCK // 2:
            raise ValueError(f"at most {BLOCK // 2} records at once")
        if last >= self._marks.reserved:
            self._durability.request()
            raise JournalError("no reserved numbers are left", errno.EAGAIN)

    def _release(self) -> None:
        self.store.release()
        self._durability.close()
