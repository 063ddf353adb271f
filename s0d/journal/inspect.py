"""Looking at a journal's directory without changing it, for operators and tests."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from s0d.journal.catchup import Extent, SegmentCursor, replay
from s0d.journal.disk import Disk, RealDisk, opened_directory
from s0d.journal.load import Damage, Loaded
from s0d.journal.mark import Mark, read_mark
from s0d.journal.record import Record, gap_record
from s0d.journal.recovery import ceiling, load_all


@dataclass(slots=True)
class SegmentReport:
    """One segment file. ``torn_bytes``: after the last whole frame; legal in the newest only."""

    file: str
    first: int
    last: int
    size: int
    records: int
    sealed: bool
    torn_bytes: int
    unreadable: str | None


@dataclass(slots=True)
class Report:
    """What is in a journal. ``session_id`` is by most of its headers; None without any."""

    session_id: str | None
    mark: Mark | None
    mark_trusted: bool
    segments: list[SegmentReport] = field(default_factory=list)
    damage: list[Damage] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """No damage: at most the torn end that a crash leaves."""
        return not self.damage and self.mark_trusted

    @property
    def clean(self) -> bool:
        """Closed in order."""
        return self.ok and self.mark is not None and self.mark.clean

    @property
    def records(self) -> int:
        """Records in all segments."""
        return sum(segment.records for segment in self.segments)


def verify(directory: str, disk: Disk | None = None, session_id: str | None = None) -> Report:
    """Read every frame. Raises ``OSError``. Not for a journal that is open."""
    disk = disk or RealDisk()
    with opened_directory(disk, directory) as opened:
        mark, trusted = read_mark(disk, opened)
        loaded, foreign = _load(disk, opened, session_id, ceiling(mark, trusted), full=True)
    report = Report(session_id or _owner(loaded), mark, trusted, foreign=foreign)
    for one in loaded:
        report.segments.append(_report(one))
        report.damage.extend(one.damage)
    _report_end(report, loaded)
    return report


def dump(
    directory: str, disk: Disk | None = None, session_id: str | None = None
) -> Iterator[Record | Damage]:
    """All records in order, and before those of a segment the damage found in it.

    Raises ``OSError``.
    """
    disk = disk or RealDisk()
    with opened_directory(disk, directory) as opened:
        below = ceiling(*read_mark(disk, opened))
        loaded, _ = _load(disk, opened, session_id, below, full=True)
    for one in loaded:
        yield from one.damage
        if one.segment.unreadable is None:
            yield from _records(disk, directory, one)


def owner(directory: str, disk: Disk | None = None) -> str | None:
    """The session that most segments belong to; None where none says so. Raises ``OSError``."""
    disk = disk or RealDisk()
    with opened_directory(disk, directory) as opened:
        below = ceiling(*read_mark(disk, opened))
        return _owner(load_all(disk, opened, None, full=False, ceiling=below)[0])


def records(
    directory: str, after: int = 0, disk: Disk | None = None, session_id: str | None = None
) -> Iterator[Record]:
    """All records beyond ``after``, as a cursor gives them: what is lost is a ``journal.gap``.

    Streams: a segment is held in pieces of 1 MiB. Raises ``OSError``.
    """
    disk = disk or RealDisk()
    with opened_directory(disk, directory) as opened:
        mark, trusted = read_mark(disk, opened)
        loaded, _ = _load(disk, opened, session_id, ceiling(mark, trusted), full=False)
    segments = [one.segment for one in loaded]
    yield from replay(disk, directory, segments, after, control_only=False)
    missing = _missing_at_end(mark, trusted, loaded)
    if missing is not None and missing[1] > after:
        time_ns = max([segment.newest_ns for segment in segments], default=0)
        yield gap_record(max(missing[0], after + 1), missing[1], "damage", time_ns)


def _records(disk: Disk, directory: str, one: Loaded) -> Iterator[Record]:
    extent = Extent.of(one.segment)
    reader = SegmentCursor(disk, directory, extent, one.segment.first - 1)
    try:
        while records := reader.read(extent, 1024 * 1024, None)[0]:
            yield from records
    finally:
        reader.close()


def _load(
    disk: Disk, opened: int, session_id: str | None, below: int, *, full: bool
) -> tuple[list[Loaded], list[str]]:
    """With the owner's id where it is not given: then a segment of another session stands out."""
    loaded, foreign = load_all(disk, opened, session_id, full=full, ceiling=below)
    if session_id is None and (owner := _owner(loaded)) is not None:
        loaded, foreign = load_all(disk, opened, owner, full=full, ceiling=below)
    return loaded, foreign


def _owner(loaded: list[Loaded]) -> str | None:
    ids = Counter(one.session_id for one in loaded if one.session_id is not None)
    return ids.most_common(1)[0][0] if ids else None


def _report(one: Loaded) -> SegmentReport:
    segment = one.segment
    torn = one.file_size - one.torn_at if one.torn_at is not None else 0
    return SegmentReport(
        segment.name,
        segment.first,
        segment.last,
        one.file_size,
        segment.count,
        one.sealed,
        torn,
        segment.unreadable,
    )


def _report_end(report: Report, loaded: list[Loaded]) -> None:
    """The newest segment has no successor that would show that it is unreadable or cut short."""
    newest = loaded[-1].segment if loaded else None
    if newest is not None and newest.unreadable is not None:
        report.damage.append(Damage(newest.name, 0, newest.first, newest.last, newest.unreadable))
    if not report.mark_trusted:
        report.damage.append(Damage("mark", 0, 0, -1, "the mark cannot be relied on"))
    elif (missing := _missing_at_end(report.mark, True, loaded)) is not None:
        report.damage.append(Damage("mark", 0, *missing, "records at the end are missing"))


def _missing_at_end(
    mark: Mark | None, trusted: bool, loaded: list[Loaded]
) -> tuple[int, int] | None:
    """The numbers that a clean end speaks of and no segment stands for."""
    if mark is None or not trusted or not mark.clean:
        return None
    last = loaded[-1].segment.last if loaded else max(0, mark.earliest - 1)
    return (last + 1, mark.next - 1) if last + 1 < mark.next else None
