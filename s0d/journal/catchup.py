"""Reading records from segment files, for cursors (in a worker thread) and folds."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from s0d.journal import frame, layout
from s0d.journal.disk import Disk, opened_directory
from s0d.journal.load import read_index
from s0d.journal.reader import Item, Lost, SegmentReader
from s0d.journal.record import Record, gap_record, within
from s0d.journal.segment import Segment, locate

_REPLAY = 1024 * 1024


@dataclass(slots=True)
class Extent:
    """A segment's state as the loop sees it, to be carried into a thread."""

    first: int
    last: int
    end: int
    size: int
    newest_ns: int
    index: list[tuple[int, int]] | None
    nonce: bytes
    unreadable: str | None

    @classmethod
    def of(cls, segment: Segment, *, with_index: bool = True) -> "Extent":
        """Taken on the loop; the segment may grow afterwards."""
        index = segment.index if segment.index is None or not with_index else list(segment.index)
        return cls(
            segment.first,
            segment.last,
            segment.end,
            segment.size,
            segment.newest_ns,
            index,
            segment.nonce,
            segment.unreadable,
        )


class SegmentCursor:
    """Reads one segment forward from its own descriptor, so that removal does not disturb it.

    What cannot be read comes as a ``journal.gap`` record with reason ``damage``.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        extent: Extent,
        position: int,
        *,
        control_only: bool = False,
    ) -> None:
        self._skipped_flags = frame.BULK if control_only else 0
        self._disk = disk
        self._fd: int | None = None
        self._held: tuple[Record, int] | None = None
        self.position = position
        if extent.unreadable is not None:
            return
        with opened_directory(disk, path) as directory:
            self._fd = disk.open(directory, layout.segment_name(extent.first), 0)
        try:
            self._reader = self._start(self._fd, extent)
        except BaseException:
            self.close()
            raise

    def _start(self, fd: int, extent: Extent) -> SegmentReader:
        index = extent.index
        if index is None:
            index = read_index(self._disk, fd, extent.size, extent.nonce)
        expected, offset = locate(index, self.position + 1) or (
            extent.first,
            layout.HEADER_SIZE,
        )
        return SegmentReader(
            self._disk, fd, end=extent.end, expected=expected, offset=offset, index=index
        )

    def close(self) -> None:
        """Let go of the file."""
        fd, self._fd = self._fd, None
        if fd is not None:
            self._disk.close(fd)

    def read(
        self, extent: Extent, max_bytes: int, max_records: int | None
    ) -> tuple[list[Record], list[int]]:
        """The next records and their sizes; none at the extent's end. Raises ``OSError``."""
        records: list[Record] = []
        sizes: list[int] = []
        left = max_bytes
        for record, size in self._steps(extent):
            if records and (size > left or not within(len(records) + 1, max_records)):
                self._held = (record, size)
                break
            records.append(record)
            sizes.append(size)
            left -= size
        if self._fd is not None:
            self._reader.forget_buffer()
        return records, sizes

    def _steps(self, extent: Extent) -> Iterator[tuple[Record, int]]:
        """Records beyond the position, with gaps for what is lost."""
        if self._held is not None:
            held, self._held = self._held, None
            yield held
        if self._fd is None:
            if self.position < extent.last:
                yield self._gap(extent.last, extent)
            return
        reader = self._reader
        reader.end = extent.end
        while self.position < extent.last and (item := reader.next()) is not None:
            if isinstance(item, Item):
                if item.record.seq > extent.last:
                    break
                if item.record.seq > self.position:
                    self.position = item.record.seq
                    if item.flags & self._skipped_flags:
                        continue
                    yield item.record, item.end - item.offset
            elif (last := _last_lost(item, extent)) > self.position:
                yield self._gap(last, extent)
        if self.position < extent.last:
            yield self._gap(extent.last, extent)
        # The end is reached: whatever was lost on the way, the next append starts here.
        reader.offset = extent.end
        reader.expected = extent.last + 1

    def _gap(self, last: int, extent: Extent) -> tuple[Record, int]:
        record = gap_record(self.position + 1, last, "damage", extent.newest_ns)
        self.position = last
        return record, 64


def _last_lost(lost: Lost, extent: Extent) -> int:
    return extent.last if lost.last is None else min(lost.last, extent.last)


def replay(
    disk: Disk, path: str, segments: Iterable[Segment], after: int, *, control_only: bool
) -> Iterator[Record]:
    """All records beyond ``after``. Segments without a control record are not even opened.

    Raises ``OSError``.
    """
    for segment in [one for one in segments if one.last > after]:
        if control_only and segment.last_control <= after and segment.unreadable is None:
            continue
        extent = Extent.of(segment)
        position = max(after, segment.first - 1)
        reader = SegmentCursor(disk, path, extent, position, control_only=control_only)
        try:
            while records := reader.read(extent, _REPLAY, None)[0]:
                yield from records
        finally:
            reader.close()
