"""The segments of a journal in order, the newest of them open for writing."""

import errno
import os
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress

from s0d.journal import layout
from s0d.journal.disk import Disk, opened, opened_directory
from s0d.journal.durability import Durability
from s0d.journal.errors import JournalError
from s0d.journal.framing import Framed, Run
from s0d.journal.load import is_whole, read_index
from s0d.journal.record import Limits
from s0d.journal.rounds import NEW_SUFFIX, SUSPECT_SUFFIX
from s0d.journal.segment import Segment, SegmentWriter, SharedFile, writev_fully

_MIN_SEGMENT = 16 * 1024
_MAX_SEGMENT = 4 * 1024 * 1024
_PARTS = 16
_JOIN = 128 * 1024
_REOPENED = 256 * 1024
"""A sealed segment is read whole before it is gone on with: a larger one is not worth that."""
BEGUN_SUFFIX = ".begun" + layout.SUFFIX + NEW_SUFFIX
"""Of a segment that has not got its name yet; removed when the journal is opened."""


class Store:
    """Writes, rolls and removes segments. All methods are synchronous and quick."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        session_id: str,
        limits: Limits,
        segments: list[Segment],
        clock: Callable[[], float],
    ) -> None:
        self._disk = disk
        self._session_id = session_id
        self._debris: list[str] = []
        self.clock = clock
        self.path = path
        self.limits = limits
        self.segments = segments
        self.writer: SegmentWriter | None = None
        self.durability: Durability

    @property
    def retained_bytes(self) -> int:
        """Bytes of all segment files."""
        return sum([segment.size for segment in self.segments])

    @property
    def bound_bytes(self) -> int:
        """Bytes of all segment files once each has its footer."""
        if self.writer is None:
            return self.retained_bytes
        index = self.writer.segment.index or ()
        return self.retained_bytes + layout.footer_bound(len(index) + 1)

    @property
    def roll_size(self) -> int:
        """At this size a segment is full."""
        return max(_MIN_SEGMENT, min(_MAX_SEGMENT, self.limits.max_bytes // _PARTS))

    @property
    def oldest(self) -> Segment | None:
        """The oldest segment, where it holds anything."""
        first = self.segments[0] if self.segments else None
        return first if first is not None and first.last >= first.first else None

    @property
    def has_sealed(self) -> bool:
        """Whether there is a segment besides the one being written."""
        writer = self.writer
        return bool(self.segments) and (writer is None or self.segments[0] is not writer.segment)

    def find(self, seq: int) -> Segment | None:
        """The segment that stands for ``seq``."""
        place = bisect_right(self.segments, seq, key=lambda segment: segment.first)
        return self.segments[place - 1] if place else None

    def plan(self, frames: Sequence[Framed]) -> list[Run]:
        """Which frames go where."""
        end = self._writable_end()
        new, roll = not end, self.roll_size
        end = begin = end or layout.HEADER_SIZE
        runs: list[Run] = []
        part: list[Framed] = []
        for framed in frames:
            if end > layout.HEADER_SIZE and end + framed.size > roll:
                if part:
                    runs.append(Run(new, part, end - begin))
                new, part = True, []
                end = begin = layout.HEADER_SIZE
            part.append(framed)
            end += framed.size
        runs.append(Run(new, part, end - begin))
        return runs

    def without_rolling(self, frames: list[Framed]) -> list[Run] | None:
        """All into the active segment, whatever its size: it has room kept for control records,
        when there is none for a new file. None where that is no way out."""
        if not self._writable_end() or any(framed.bulk for framed in frames):
            return None
        return [Run(False, frames, sum(framed.size for framed in frames))]

    def fits(self, runs: Sequence[Run]) -> bool:
        """Whether ``max_bytes`` holds with these runs, and with the footers they will need."""
        need = self.bound_bytes
        for run in runs:
            need += run.size + 20 * (run.size // layout.INDEX_SPACING)
            if run.new:
                need += layout.HEADER_SIZE + layout.footer_bound(2)
        return need <= self.limits.max_bytes

    def renew(self) -> bool:
        """Where the active segment is empty and cannot be written: give it a new file, and say so.

        Its successor would bear its name. Not the old file, cut: what was taken back from that, or
        is being written anew by a sync in its thread, could come back. Raises ``OSError``.
        """
        old = self.writer
        if old is None or old.segment.count or self._writable_end():
            return False
        self._clear_debris()
        begun = old.segment.name.removesuffix(layout.SUFFIX) + BEGUN_SUFFIX
        writer = self._create(old.segment.first, begun)
        with old.segment.naming:
            try:
                with opened_directory(self._disk, self.path) as directory:
                    self._disk.rename(directory, begun, old.segment.name)
            except OSError:
                self._discard(writer, begun)
                raise
            old.segment.removed = True
        self.segments.remove(old.segment)
        self.durability.forget(old.segment)
        self.release()
        self._activate(writer)
        return True

    def write(self, runs: Sequence[Run]) -> None:
        """Write all runs, or raise ``OSError`` and have nothing changed."""
        self._clear_debris()
        writers: list[SegmentWriter] = []
        try:
            # Files first: where a full disk has no room for one nothing has to be taken back.
            for run in runs:
                writer = self._start(run.frames[0].covers) if run.new else self.writer
                assert writer is not None  # plan() continues only what is open
                writers.append(writer)
            for writer, run in zip(writers, runs, strict=True):
                _write_run(writer, run)
        except OSError:
            self._roll_back(writers)
            raise
        for writer, run in zip(writers, runs, strict=True):
            self._commit(writer, run)

    def prepare(self, first: int, *, reopen: bool) -> None:
        """Open the newest segment for writing, else start one: then control records have room."""
        newest = self.segments[-1] if self.segments else None
        sealed = newest is not None and newest.index is None
        full = newest is not None and sealed and newest.end >= min(self.roll_size, _REOPENED)
        if newest is None or not reopen or full or not self._reopen(newest):
            self.start_empty(first)

    def start_empty(self, first: int) -> None:
        """A fresh segment with room kept; on a full disk the next append has to make it."""
        with suppress(OSError):
            self._install(self._start(first))
            assert self.writer is not None
            self.writer.keep_room()

    def remove_oldest(self) -> bool:
        """Unlink the oldest segment that holds anything. False: there is none.

        The newest one only once it has a successor, whose name says how far the numbers had gone:
        else what retention took would be told as lost after a crash. Raises ``OSError``.
        """
        segment = self.oldest
        if segment is None:
            return False
        if segment is self.segments[-1]:
            self._begin_successor(segment)
        with segment.naming:
            segment.removed = True  # first: a sync in its thread that misses the file looks at it
            try:
                self._unlink(segment.name)
            except OSError:
                segment.removed = False
                raise
        if segment.suspect:
            with suppress(OSError):  # left behind it costs nothing; the next opening removes it
                self._unlink(segment.name + SUSPECT_SUFFIX)
        del self.segments[0]
        self.durability.forget(segment)
        self.durability.renamed()
        return True

    def tidy(self) -> None:
        """Remove what failed appends have left behind: after a clean end nothing is cut off.

        Raises ``OSError``; the end is not clean then.
        """
        self._clear_debris()
        if self.writer is not None and self.writer.broken:
            self.writer.mend()

    def seal(self) -> None:
        """Write the active segment's footer and let go of it."""
        writer, self.writer = self.writer, None
        if writer is None:
            return
        segment = writer.segment
        if segment.count and not (writer.broken or segment.suspect or segment.unsettled):
            writer.seal(self._session_id)
            self.durability.wrote(writer.segment, writer.file, self.durability.latest)
        writer.file.release()

    def release(self) -> None:
        """Let go of the active segment as it is."""
        writer, self.writer = self.writer, None
        if writer is not None:
            writer.file.release()

    def _writable_end(self) -> int:
        """Where the active segment ends; 0 where there is none to go on with."""
        writer = self.writer
        if writer is None or writer.broken:
            return 0
        if writer.segment.suspect or writer.segment.unsettled:
            return 0
        segment, age = writer.segment, self.limits.max_age_seconds
        if age and segment.count and self.clock() - segment.oldest_at > age / _PARTS:
            return 0
        return segment.end

    def _start(self, first: int) -> SegmentWriter:
        """A new segment file with its header; never under a name that is still to be removed."""
        assert self.writer is None or self.writer.segment.first != first  # see renew()
        self._clear_debris()
        return self._create(first, layout.segment_name(first))

    def _create(self, first: int, name: str) -> SegmentWriter:
        segment = Segment(first, first - 1, nonce=os.urandom(layout.NONCE_SIZE))
        header = layout.Header(self._session_id, first, time.time_ns(), segment.nonce).encode()
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND
        with opened_directory(self._disk, self.path) as directory:
            file = SharedFile(self._disk, self._disk.open(directory, name, flags))
        writer = SegmentWriter(self._disk, file, segment, self._allocation_step)
        try:
            writev_fully(self._disk, file.fd, [header])
        except OSError:
            self._discard(writer, name)
            raise
        return writer

    def _discard(self, writer: SegmentWriter, name: str) -> None:
        writer.file.release()
        self._debris.append(name)
        with suppress(OSError):
            self._clear_debris()

    @property
    def _allocation_step(self) -> int:
        return min(256 * 1024, self.roll_size)

    def _unlink(self, name: str) -> None:
        with opened_directory(self._disk, self.path) as directory, suppress(FileNotFoundError):
            self._disk.unlink(directory, name)

    def _reopen(self, segment: Segment) -> bool:
        """Go on with a segment; not where something in it is damaged: without a footer, nothing
        would lead past that place to what is written from now on."""
        with opened_directory(self._disk, self.path) as directory:
            if segment.index is None:
                with opened(self._disk, directory, segment.name) as fd:
                    if not is_whole(self._disk, fd, segment):
                        return False
                    segment.index = read_index(self._disk, fd, segment.size, segment.nonce)
            fd = self._disk.open(directory, segment.name, os.O_WRONLY | os.O_APPEND)
        file = SharedFile(self._disk, fd)
        writer = SegmentWriter(self._disk, file, segment, self._allocation_step)
        try:
            self._disk.ftruncate(fd, segment.end)
        except OSError:
            file.release()
            raise
        segment.size = segment.end
        self.writer = writer
        writer.keep_room()
        return True

    def _begin_successor(self, segment: Segment) -> None:
        writer = self._start(segment.last + 1)
        if self.writer is not None:
            self._install(writer)
            writer.keep_room()
        else:  # nobody writes; the one who does will start it anew
            writer.file.release()
            self.segments.append(writer.segment)

    def _install(self, writer: SegmentWriter) -> None:
        """Make a new segment the active one."""
        newest = self.segments[-1] if self.segments else None
        if newest is not None and newest.first == writer.segment.first:
            self._drop_empty(newest)
        else:
            self.seal()
        self._activate(writer)

    def _activate(self, writer: SegmentWriter) -> None:
        self.writer = writer
        self.segments.append(writer.segment)
        self.durability.wrote(writer.segment, writer.file, self.durability.latest)
        self.durability.renamed()

    def _drop_empty(self, segment: Segment) -> None:
        """One that holds nothing and cannot be written; its successor has taken its name."""
        self.segments.remove(segment)
        segment.removed = True
        self.durability.forget(segment)
        self.release()

    def _commit(self, writer: SegmentWriter, run: Run) -> None:
        if run.new:
            self._install(writer)
        segment, now = writer.segment, self.clock()
        if segment.count == 0:
            segment.oldest_at = now
        segment.newest_at = now
        end = segment.end
        for framed in run.frames:
            stop = end + framed.size
            record = framed.record
            segment.note(record.seq, framed.covers, record.time_ns, end, stop, framed.bulk)
            end = stop
        self.durability.wrote(segment, writer.file, segment.last)
        if not run.frames[-1].bulk:
            writer.keep_room()

    def _roll_back(self, writers: Sequence[SegmentWriter]) -> None:
        for writer in writers:
            if writer is self.writer:
                if writer.take_back():
                    self.durability.took_back(writer.segment, writer.file)
            else:
                writer.file.release()
                self._debris.append(writer.segment.name)
        with suppress(OSError):
            self._clear_debris()

    def _clear_debris(self) -> None:
        """Remove segments of a failed append: their numbers will be given out again.

        Until that has worked nothing is written: recovery would take them for the journal's.
        """
        while self._debris:
            self._unlink(self._debris[-1])
            self._debris.pop()
            # Back after a power cut they would bound what the segment before them stands for.
            self.durability.renamed()


def _write_run(writer: SegmentWriter, run: Run) -> None:
    buffers = []
    bulk = False
    for framed in run.frames:
        buffers.append(framed.head)
        buffers.append(framed.payload)
        bulk = bulk or framed.bulk
    if run.size <= _JOIN:
        buffers = [b"".join(buffers)]
    writer.write(buffers, run.size, bulk=bulk)


def refused(error: OSError, what: str) -> JournalError:
    """The error that an owner gets."""
    return JournalError(f"{what}: {error.strerror or error}", error.errno or errno.EIO)
