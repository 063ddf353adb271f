"""Finding out what a segment file holds: by its footer, else by its frames. Read-only."""

from dataclasses import dataclass, field

from s0d.journal import frame, layout
from s0d.journal.disk import Disk, opened, read_fully
from s0d.journal.reader import Item, Lost, SegmentReader
from s0d.journal.record import covered_from
from s0d.journal.segment import Segment


@dataclass(slots=True)
class Damage:
    """One fault: in which file, where, what numbers it cost (0..-1: none)."""

    file: str
    offset: int
    first: int
    last: int
    reason: str


@dataclass(slots=True)
class Loaded:
    """A segment as found. ``sealed``: it has a good footer. ``torn_at``: where whole frames end
    although the file goes on, ``reason`` what stops them. ``unfinished_at``: where the last append
    begins, if the file does not hold its end. ``file_size`` is the file's length."""

    segment: Segment
    file_size: int
    sealed: bool = False
    torn_at: int | None = None
    unfinished_at: int | None = None
    session_id: str | None = None
    reason: str = "numbers are missing"
    damage: list[Damage] = field(default_factory=list)


def load_segment(
    disk: Disk,
    directory: int,
    first: int,
    session_id: str | None,
    *,
    upto: int | None = None,
    end: int | None = None,
    full: bool = False,
    footer: bool = True,
) -> Loaded:
    """What the segment named by ``first`` holds.

    ``upto`` is the last number that can belong to it (the next segment's first less one); None for
    the newest segment. Without a footer it is read up to ``end``, an offset; None: as far as it
    goes. ``full`` reads all frames even where there is a footer; without ``footer`` that is not
    looked at. A segment of which nothing can be served comes back with ``unreadable`` set. Raises
    ``OSError``.
    """
    segment = Segment(first, first - 1)
    with opened(disk, directory, segment.name) as fd:
        loaded = Loaded(segment, disk.size(fd))
        segment.size = loaded.file_size
        _check_header(disk, fd, loaded, session_id)
        if segment.unreadable is None:
            found = _read_footer(disk, fd, loaded) if footer else None
            if found is not None and (session_id is None or found.session_id == session_id):
                _apply(found, loaded)
            if not loaded.sealed:
                _scan(disk, fd, loaded, upto, end)
            elif full:
                _check_frames(disk, fd, loaded)
    if upto is not None and segment.last != upto:
        _clip(loaded, upto)
    return loaded


def read_index(disk: Disk, fd: int, size: int, nonce: bytes) -> list[tuple[int, int]]:
    """The sparse index of a sealed segment; empty where the footer cannot be read (any more)."""
    try:
        offset = _footer_offset(disk, fd, size, nonce)
        return _footer_at(disk, fd, offset, size).index
    except layout.BadLayout:
        return []


def is_whole(disk: Disk, fd: int, segment: Segment) -> bool:
    """Whether every frame can be read. A good footer does not say so: it may have reached the disk
    before them, or they were damaged since."""
    reader = SegmentReader(disk, fd, end=segment.end, expected=segment.first)
    while (item := reader.next()) is not None:
        if isinstance(item, Lost):
            return False
    return reader.expected == segment.last + 1


def _check_header(disk: Disk, fd: int, loaded: Loaded, session_id: str | None) -> None:
    """A header that passes its check decides; a damaged one is told, and the frames are tried."""
    segment = loaded.segment
    if loaded.file_size < layout.HEADER_SIZE:
        segment.unreadable = "the header is cut"
        return
    try:
        header = layout.decode_header(read_fully(disk, fd, layout.HEADER_SIZE, 0))
    except layout.UnknownVersion as error:
        segment.unreadable = str(error)
    except layout.BadLayout as error:
        _tell(loaded, 0, str(error))
    else:
        segment.nonce = header.nonce
        loaded.session_id = header.session_id
        if session_id is not None and header.session_id != session_id:
            segment.unreadable = f"a segment of another session ({header.session_id})"
        elif header.first != segment.first:
            segment.unreadable = f"a segment that starts with {header.first}"


def _footer_offset(disk: Disk, fd: int, size: int, nonce: bytes) -> int:
    length = layout.TRAILER_SIZE
    return layout.decode_trailer(read_fully(disk, fd, length, size - length), size, nonce)


def _footer_at(disk: Disk, fd: int, offset: int, size: int) -> layout.Footer:
    data = read_fully(disk, fd, size - layout.TRAILER_SIZE - offset, offset)
    return layout.decode_footer(data, offset)


def _read_footer(disk: Disk, fd: int, loaded: Loaded) -> layout.Footer | None:
    try:
        offset = _footer_offset(disk, fd, loaded.file_size, loaded.segment.nonce)
        loaded.segment.end = offset
        footer = _footer_at(disk, fd, offset, loaded.file_size)
    except layout.BadLayout:
        loaded.segment.end = loaded.file_size
        return None
    return footer


def _apply(footer: layout.Footer, loaded: Loaded) -> None:
    segment = loaded.segment
    if footer.first != segment.first:
        return
    loaded.sealed = True
    segment.last = footer.last
    segment.count = footer.count
    segment.last_control = footer.last_control
    segment.oldest_ns = footer.oldest_ns
    segment.newest_ns = footer.newest_ns
    segment.index = None


def _scan(disk: Disk, fd: int, loaded: Loaded, upto: int | None, end: int | None) -> None:
    """Rebuild from the frames what a footer would say.

    The numbers of a segment end where its frames do, or where the next segment begins: frames
    beyond that are what is left of an append that failed and was made again.
    """
    segment = loaded.segment
    segment.end = layout.HEADER_SIZE
    stop = loaded.file_size if end is None else end
    reader = SegmentReader(disk, fd, end=stop, expected=segment.first)
    resumed = False
    while (item := reader.next()) is not None:
        if isinstance(item, Lost):
            if item.last is None or (upto is not None and item.last > upto):
                loaded.reason = item.reason
                break
            _tell(loaded, item.offset, item.reason, item.first, item.last)
            resumed = True
        elif upto is not None and item.record.seq > upto:
            break
        else:
            _note(segment, item, resumed)
            resumed = False
            if not item.flags & frame.MORE:
                loaded.unfinished_at = None
            elif loaded.unfinished_at is None:
                loaded.unfinished_at = item.offset
    segment.size = loaded.file_size
    if segment.end < loaded.file_size:
        loaded.torn_at = segment.end


def _check_frames(disk: Disk, fd: int, loaded: Loaded) -> None:
    """Read the frames of a segment whose footer is good, for the damage in them."""
    segment = loaded.segment
    index = read_index(disk, fd, loaded.file_size, segment.nonce)
    reader = SegmentReader(disk, fd, end=segment.end, expected=segment.first, index=index)
    while (item := reader.next()) is not None:
        if isinstance(item, Lost):
            last = segment.last if item.last is None else item.last
            _tell(loaded, item.offset, item.reason, item.first, last)
    if reader.expected <= segment.last and not loaded.damage:
        _tell(loaded, segment.end, "numbers are missing", reader.expected, segment.last)


def _note(segment: Segment, item: Item, resumed: bool) -> None:
    record = item.record
    covered = covered_from(record)
    segment.note(
        record.seq,
        covered,
        record.time_ns,
        item.offset,
        item.end,
        bulk=bool(item.flags & frame.BULK),
    )
    # After a loss readers need a place to go on from.
    if resumed and segment.index is not None and segment.index[-1][1] != item.offset:
        segment.index.append((covered, item.offset))


def _clip(loaded: Loaded, upto: int) -> None:
    """Have a segment stand for all numbers up to the next one, read or not."""
    segment = loaded.segment
    told = loaded.damage[-1].last if loaded.damage else 0
    first = max(segment.last, told) + 1
    if first <= upto:
        reason = segment.unreadable or loaded.reason
        _tell(loaded, segment.end, reason, first, upto)
    segment.last = upto


def _tell(loaded: Loaded, offset: int, reason: str, first: int = 0, last: int = -1) -> None:
    loaded.damage.append(Damage(loaded.segment.name, offset, first, last, reason))
