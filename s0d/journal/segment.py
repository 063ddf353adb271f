"""One segment: what is known about it, and writing it."""

import errno
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Lock

from s0d.journal import layout
from s0d.journal.disk import Disk

RESERVE = 16 * 1024
"""Bytes set aside behind the end for control records. Output never takes them."""
_IOV_MAX = 1024
_UNLIMITED = 1 << 62
_UNSUPPORTED = frozenset({errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL})


@dataclass(slots=True)
class Segment:
    """What is kept in memory about a segment file.

    ``first``..``last`` are the numbers it stands for (``last`` is ``first - 1`` while it is empty).
    ``end`` is where its frames end, ``size`` counts for retention. ``index`` is the sparse index
    of a segment without a readable footer; None: it is in the footer. ``oldest_at`` and
    ``newest_at`` are on the retention clock. ``nonce`` is the header's, empty where that is
    damaged. ``unreadable`` says why nothing of it can be served. ``suspect``: a sync of it has
    failed, it must not be written to. ``unsettled``: something was taken back from its end, and a
    power cut could bring it back; nothing may take its place until that has been synced.
    ``removed``: by retention, or replaced; readers may still be in it. ``naming`` is held by who
    gives the file its name or takes it away: a sync in its thread does so, too.
    """

    first: int
    last: int
    end: int = layout.HEADER_SIZE
    size: int = layout.HEADER_SIZE
    count: int = 0
    last_control: int = 0
    oldest_ns: int = 0
    newest_ns: int = 0
    oldest_at: float = 0.0
    newest_at: float = 0.0
    index: list[tuple[int, int]] | None = field(default_factory=list)
    nonce: bytes = b""
    unreadable: str | None = None
    suspect: bool = False
    unsettled: bool = False
    removed: bool = False
    naming: Lock = field(default_factory=Lock, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The file's name."""
        return layout.segment_name(self.first)

    def footer(self, session_id: str) -> layout.Footer:
        """The footer that describes it."""
        return layout.Footer(
            session_id,
            self.first,
            self.last,
            self.count,
            self.last_control,
            self.oldest_ns,
            self.newest_ns,
            self.index or [],
        )

    def note(
        self, seq: int, covers_from: int, time_ns: int, offset: int, end: int, bulk: bool
    ) -> None:
        """Count one frame that lies between ``offset`` and ``end``."""
        if self.count == 0:
            self.oldest_ns = time_ns
        if self.index is not None and (
            not self.index or offset - self.index[-1][1] >= layout.INDEX_SPACING
        ):
            self.index.append((covers_from, offset))
        self.count += 1
        self.last = seq
        self.newest_ns = max(self.newest_ns, time_ns)
        if not bulk:
            self.last_control = seq
        self.end = self.size = end


def locate(index: Sequence[tuple[int, int]], seq: int) -> tuple[int, int] | None:
    """The last index entry at or before ``seq``."""
    place = bisect_right(index, seq, key=lambda entry: entry[0])
    return index[place - 1] if place else None


class SharedFile:
    """A descriptor that a writer and a sync in a worker thread hold at once.

    The last one to let go closes it: a descriptor is never closed, and its number never reused,
    under a running ``fdatasync``.
    """

    __slots__ = ("_disk", "_holders", "_lock", "fd")

    def __init__(self, disk: Disk, fd: int) -> None:
        self._disk = disk
        self._holders = 1
        self._lock = Lock()
        self.fd = fd

    def hold(self) -> None:
        """One more holder."""
        with self._lock:
            self._holders += 1

    def release(self) -> None:
        """One holder less."""
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self._disk.close(self.fd)


class SegmentWriter:
    """The end of a segment file that is being written."""

    __slots__ = ("_allocated", "_disk", "_step", "broken", "file", "segment")

    def __init__(self, disk: Disk, file: SharedFile, segment: Segment, step: int) -> None:
        self._disk = disk
        self._allocated = segment.end
        self._step = step
        self.file = file
        self.segment = segment
        self.broken = False

    def write(self, buffers: Sequence[bytes], length: int, *, bulk: bool) -> None:
        """Write behind the last whole frame. After an ``OSError`` the caller takes it back.

        It counts the frames (``Segment.note``) once the whole batch is written.
        """
        end = self.segment.end + length
        if bulk and end + RESERVE > self._allocated:
            self._allocate_for(end)
        writev_fully(self._disk, self.file.fd, buffers)

    def take_back(self) -> bool:
        """Go back to the last whole frame; returns whether there was anything to take back.

        Where even that fails ``broken`` is set: the segment must not be written again.
        """
        end = self.segment.end
        if self._disk.size(self.file.fd) == end:
            return False  # and the room that is kept stays
        self._allocated = min(self._allocated, end)
        try:
            self._disk.ftruncate(self.file.fd, end)
        except OSError:
            self.broken = True
        return True

    def mend(self) -> None:
        """Go back to the last whole frame after all; raises ``OSError`` and stays ``broken``."""
        self._disk.ftruncate(self.file.fd, self.segment.end)
        self.broken = False

    def keep_room(self) -> None:
        """Set space aside for control records; a full disk is no error here."""
        end = self.segment.end
        if end + RESERVE > self._allocated:
            with suppress(OSError):  # then control records compete for space like everybody
                self._allocate(end + 2 * RESERVE)

    def _allocate_for(self, end: int) -> None:
        """Room for output up to ``end`` and the reserve behind it."""
        try:
            # In steps, so that a flood does not ask for each append.
            self._allocate(end + RESERVE + self._step)
        except OSError:
            self._allocate(end + RESERVE)

    def _allocate(self, end: int) -> None:
        start = max(self._allocated, self.segment.end)
        try:
            self._disk.fallocate(self.file.fd, start, end - start)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
            end = _UNLIMITED  # the file system cannot: nothing is kept
        self._allocated = end

    def seal(self, session_id: str) -> None:
        """Write footer and trailer, give back the room kept. A failure leaves it without a footer,
        which costs the next open a scan and nothing else."""
        segment = self.segment
        data = layout.encode_footer(segment.footer(session_id), segment.end, segment.nonce)
        try:
            writev_fully(self._disk, self.file.fd, [data])
            self._disk.ftruncate(self.file.fd, segment.end + len(data))
        except OSError:
            self.take_back()
            return
        segment.size = segment.end + len(data)
        segment.index = None


def writev_fully(disk: Disk, fd: int, buffers: Sequence[bytes]) -> None:
    """``writev`` until all is written; one call in the usual case."""
    if len(buffers) > _IOV_MAX:
        for start in range(0, len(buffers), _IOV_MAX):
            writev_fully(disk, fd, buffers[start : start + _IOV_MAX])
        return
    written = disk.writev(fd, buffers)
    left = sum(map(len, buffers)) - written
    rest = b"".join(buffers) if left else b""
    while left:
        written = disk.writev(fd, [rest[-left:]])
        if written == 0:
            raise OSError(errno.EIO, "nothing was written")
        left -= written
