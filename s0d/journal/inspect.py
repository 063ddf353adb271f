"""Looking at a journal's directory without changing it, for operators and tests."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from s0d.journal.catchup import Extent, SegmentCursor, replay
from s0d.journal.contents import Contents, read_contents
from s0d.journal.disk import Disk, RealDisk, opened_directory
from s0d.journal.load import Damage, Loaded
from s0d.journal.mark import Mark
from s0d.journal.record import Record, gap_record


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
    contents = _read(disk, directory, session_id, full=True)
    report = Report(
        session_id or _owner(contents), contents.mark, contents.trusted, foreign=contents.foreign
    )
    for one in contents.segments:
        report.segments.append(_report(one))
        report.damage.extend(one.damage)
    for one in contents.leftover:
        report.segments.append(_report_leftover(one))
    _report_end(report, contents)
    return report


def dump(
    directory: str, disk: Disk | None = None, session_id: str | None = None
) -> Iterator[Record | Damage]:
    """All records in order, and before those of a segment the damage found in it.

    Raises ``OSError``.
    """
    disk = disk or RealDisk()
    for one in _read(disk, directory, session_id, full=True).segments:
        yield from one.damage
        if one.segment.unreadable is None:
            yield from _records(disk, directory, one)


def owner(directory: str, disk: Disk | None = None) -> str | None:
    """The session that most segments belong to; None where none says so. Raises ``OSError``."""
    disk = disk or RealDisk()
    with opened_directory(disk, directory) as opened:
        return _owner(read_contents(disk, opened, None))


def records(
    directory: str, after: int = 0, disk: Disk | None = None, session_id: str | None = None
) -> Iterator[Record]:
    """All records beyond ``after``, as a cursor gives them: what is lost is a ``journal.gap``.

    Streams: a segment is held in pieces of 1 MiB. Raises ``OSError``.
    """
    disk = disk or RealDisk()
    contents = _read(disk, directory, session_id)
    segments = [one.segment for one in contents.segments]
    yield from replay(disk, directory, segments, after, control_only=False)
    missing = _missing_at_end(contents)
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


def _read(disk: Disk, directory: str, session_id: str | None, *, full: bool = False) -> Contents:
    """With the owner's id where it is not given: then a segment of another session stands out."""
    with opened_directory(disk, directory) as opened:
        contents = read_contents(disk, opened, session_id, full=full)
        if session_id is None and (owner := _owner(contents)) is not None:
            contents = read_contents(disk, opened, owner, full=full)
    return contents


def _owner(contents: Contents) -> str | None:
    ids = Counter(one.session_id for one in contents.segments if one.session_id is not None)
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


def _report_leftover(one: Loaded) -> SegmentReport:
    """Nothing in it counts."""
    first = one.segment.first
    return SegmentReport(
        one.segment.name, first, first - 1, one.file_size, 0, False, one.file_size, None
    )


def _report_end(report: Report, contents: Contents) -> None:
    """The newest segment has no successor that would show that it is unreadable or cut short."""
    newest = contents.segments[-1].segment if contents.segments else None
    if newest is not None and newest.unreadable is not None:
        report.damage.append(Damage(newest.name, 0, newest.first, newest.last, newest.unreadable))
    if not report.mark_trusted:
        report.damage.append(Damage("mark", 0, 0, -1, "the mark cannot be relied on"))
    elif (missing := _missing_at_end(contents)) is not None:
        report.damage.append(Damage("mark", 0, *missing, "records at the end are missing"))


def _missing_at_end(contents: Contents) -> tuple[int, int] | None:
    """The numbers that a clean end speaks of and no segment stands for."""
    mark = contents.mark
    if mark is None or not contents.closed:
        return None
    last = contents.last if contents.segments else max(0, mark.earliest - 1)
    return (last + 1, mark.next - 1) if last + 1 < mark.next else None
