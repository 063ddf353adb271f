"""A reader's place in a journal: catching up from files, then live from memory."""

from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from s0d.journal.catchup import Extent, SegmentCursor
from s0d.journal.errors import CursorExpired
from s0d.journal.record import Block
from s0d.journal.segment import Segment
from s0d.journal.store import refused

if TYPE_CHECKING:
    from s0d.journal.journal import Journal

DEFAULT_BYTES = 256 * 1024


class Cursor:
    """Hands out blocks in order, none twice, none silently left out.

    A context manager: the journal keeps its tail in memory while cursors are open. One task reads
    it. ``position`` is the last number handed out. A cancelled read has handed out nothing.
    """

    def __init__(self, journal: "Journal", position: int) -> None:
        self._journal = journal
        self._segment: Segment | None = None
        self._file: SegmentCursor | None = None
        self._closed = False
        self.position = position
        journal.tail.enter()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the file and of the tail. May be called twice."""
        if not self._closed:
            self._closed = True
            self._leave_file()
            self._journal.tail.leave()

    async def read(self, max_bytes: int = DEFAULT_BYTES) -> Block | None:
        """The next block; waits for one. None when the journal has ended and all was read.

        A block from a file has at most ``max_bytes`` (but one record at least). One from memory is
        an append's own block, the same object for all readers, whatever its size; only a cursor
        that comes in its middle gets a piece.

        Raises :class:`CursorExpired` when retention has overtaken the cursor, and
        :class:`JournalError` when a file cannot be read.
        """
        await trio.lowlevel.checkpoint()
        block = await self._advance(max_bytes, None, whole=True)
        while block is None and not self._journal.ended:
            if self.position == self._journal.latest:
                await self._journal.arrivals.park()
            # No further checkpoint: a live reader keeps up with a writer that yields once a block.
            block = await self._advance(max_bytes, None, whole=True)
        return block

    async def read_available(
        self, max_bytes: int = DEFAULT_BYTES, max_records: int | None = None
    ) -> Block | None:
        """The next block of what is there; None when all was read. Raises like :meth:`read`.

        A block has at most ``max_bytes``, but one record at least.
        """
        await trio.lowlevel.checkpoint()
        return await self._advance(max_bytes, max_records, whole=False)

    async def _advance(
        self, max_bytes: int, max_records: int | None, *, whole: bool
    ) -> Block | None:
        if self._closed:
            raise trio.ClosedResourceError("the cursor is closed")
        block = self._from_tail(max_bytes, max_records, whole=whole)
        while block is None and self.position < self._journal.latest:
            block = await self._from_file(max_bytes, max_records)
        if block is not None:
            self.position = block.last
        return block

    def _from_tail(self, max_bytes: int, max_records: int | None, *, whole: bool) -> Block | None:
        block = self._journal.tail.find(self.position + 1)
        if block is None:
            return None
        self._leave_file()
        if whole and block.first == self.position + 1:
            return block
        return block.part(self.position, max_bytes, max_records)

    async def _from_file(self, max_bytes: int, max_records: int | None) -> Block | None:
        """A block of the segment at hand; None when that is finished and the next one is due."""
        segment = self._enter_segment()
        extent = Extent.of(segment, with_index=self._file is None)
        try:
            records, sizes = await trio.to_thread.run_sync(
                self._read_file, extent, max_bytes, max_records, limiter=self._journal.limiter
            )
        except FileNotFoundError as error:
            if not segment.removed:
                raise refused(error, "cannot read") from error
            self._leave_file()
            return None  # removed before it could be opened: the next look says expired
        except OSError as error:
            raise refused(error, "cannot read") from error
        if not records:
            self._leave_file()
            return None
        return Block(self.position + 1, records, sizes)

    def _read_file(
        self, extent: Extent, max_bytes: int, max_records: int | None
    ) -> tuple[list, list[int]]:  # type: ignore[type-arg]
        if self._file is None:
            journal = self._journal
            self._file = SegmentCursor(journal.disk, journal.path, extent, self.position)
        return self._file.read(extent, max_bytes, max_records)

    def _enter_segment(self) -> Segment:
        """The segment with the next record: the one being read, or the one that follows."""
        segment = self._segment
        if segment is not None and self._file is not None and self.position < segment.last:
            return segment
        self._leave_file()
        journal = self._journal
        if self.position + 1 < journal.earliest:
            raise CursorExpired(journal.earliest, journal.latest)
        segment = journal.store.find(self.position + 1)
        assert segment is not None  # everything from earliest on lies in a segment
        self._segment = segment
        return segment

    def _leave_file(self) -> None:
        self._segment = None
        file, self._file = self._file, None
        if file is not None:
            file.close()
