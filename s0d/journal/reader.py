"""Reading the frames of one segment, past damage where that is possible.

Every reader of a segment (cursor, recovery, fold, verify) goes through :class:`SegmentReader`, so
that all of them see the same records and the same losses.
"""

from collections.abc import Sequence
from typing import NamedTuple

from s0d.journal import frame, layout
from s0d.journal.disk import Disk, read_fully
from s0d.journal.record import Record, covered_from, decode_record

_CHUNK = 320 * 1024


class Item(NamedTuple):
    """One record and where its frame lies."""

    record: Record
    flags: int
    offset: int
    end: int


class Lost(NamedTuple):
    """Numbers that cannot be read: ``first``..``last``; ``last`` None: all that follow here."""

    first: int
    last: int | None
    offset: int
    reason: str


class SegmentReader:
    """Steps through the frames between ``offset`` and ``end`` of an open segment.

    ``expected`` is the number that must come next. After a damaged frame reading goes on at the
    first of: the next frame, where the damaged one's length leads to a whole frame with the next
    number; a later entry of the sparse ``index`` that holds. Nothing is searched for inside
    payloads: a child could print what looks like a frame.
    """

    def __init__(
        self,
        disk: Disk,
        fd: int,
        *,
        end: int,
        expected: int,
        offset: int = layout.HEADER_SIZE,
        index: Sequence[tuple[int, int]] = (),
    ) -> None:
        self._disk = disk
        self._fd = fd
        self._index = index
        self._buffer = b""
        self._base = offset
        self.offset = offset
        self.expected = expected
        self.end = end

    def next(self) -> Item | Lost | None:
        """The next record or loss; None at the end (or at a footer)."""
        at = self.offset
        if at >= self.end:
            return None
        try:
            parsed, stop = self._frame(at)
            if parsed.flags & frame.FOOTER:
                self.end = at
                return None
            record = decode_record(parsed.payload)
        except ValueError as error:
            return self._lose(str(error))
        covered = covered_from(record)
        if covered > self.expected:
            lost = Lost(self.expected, covered - 1, at, "numbers are missing")
            self.expected = covered
            return lost
        if record.seq < self.expected:
            return self._lose("a number out of order")
        self.offset = stop
        self.expected = record.seq + 1
        return Item(record, parsed.flags, at, stop)

    def forget_buffer(self) -> None:
        """Keep no file content in memory between two reads."""
        self._buffer = b""
        self._base = self.offset

    def _frame(self, at: int) -> tuple[frame.Frame, int]:
        """The frame at a file offset and the offset after it. Raises ``ValueError``."""
        place = at - self._base
        try:
            parsed = frame.parse(self._buffer, place)
        except frame.Incomplete as error:
            self._fill(at, error.needed)
            place = 0
            try:
                parsed = frame.parse(self._buffer, 0)
            except frame.Incomplete as again:
                # The first answer may have been about the head only.
                self._fill(at, again.needed)
                parsed = frame.parse(self._buffer, 0)
        return parsed, at + parsed.end - place

    def _fill(self, at: int, needed: int) -> None:
        """Have the buffer begin at ``at``, with ``needed`` bytes if there are so many."""
        if needed > self.end - at:
            raise frame.BadFrame("the frame is cut")
        length = min(max(needed, _CHUNK), self.end - at)
        self._buffer = read_fully(self._disk, self._fd, length, at)
        self._base = at
        if len(self._buffer) < needed:
            raise frame.BadFrame("the file is cut")

    def _lose(self, reason: str) -> Lost:
        at, first = self.offset, self.expected
        for place, seq in self._places_after(at, first):
            if self._starts(place, seq):
                self.offset = place
                self.expected = seq
                return Lost(first, seq - 1, at, reason)
        self.offset = self.end
        return Lost(first, None, at, reason)

    def _places_after(self, at: int, seq: int) -> list[tuple[int, int]]:
        places = [(place, number) for number, place in self._index if place > at and number > seq]
        head = read_fully(self._disk, self._fd, frame.HEAD_SIZE, at)
        size = frame.claimed_size(head, 0)
        if size is not None:
            places.insert(0, (at + size, seq + 1))
        return places

    def _starts(self, place: int, seq: int) -> bool:
        """Whether a whole frame with number ``seq`` lies at ``place``."""
        if place >= self.end:
            return False
        self._buffer, self._base = b"", place
        try:
            parsed, _ = self._frame(place)
            record = decode_record(parsed.payload)
        except ValueError:
            return False
        return not parsed.flags & frame.FOOTER and covered_from(record) == seq
