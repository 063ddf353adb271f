"""Opening a journal: what is there, what is lost, where the numbers go on.

After a clean end the mark says what the next number is. After any other end numbers may have been
shown of which the disk knows nothing; so the next one lies beyond the reserved block, and a
``journal.gap`` record says so.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from s0d.journal import layout
from s0d.journal.contents import (
    ASIDE_SUFFIXES,
    BAD_SUFFIX,
    TORN_SUFFIX,
    Contents,
    kept_name,
    read_contents,
)
from s0d.journal.disk import Disk, opened, read_fully, write_fully
from s0d.journal.load import Damage, Loaded
from s0d.journal.mark import SPACE, Mark
from s0d.journal.rounds import SUSPECT_SUFFIX, leave_word, rewrite, trust
from s0d.journal.segment import Segment

JUMP = 1 << 32
"""How far the numbers jump where no mark can be read: beyond whatever could have been shown."""

ASIDE = 4
"""So many files set aside (``*.torn``, ``*.bad``) are kept; older ones make room."""


@dataclass(slots=True)
class RecoveryReport:
    """What opening found. ``gap``: the range of the gap record that was appended, if one was."""

    unclean: bool = False
    mark_lost: bool = False
    torn_bytes: int = 0
    gap: tuple[int, int] | None = None
    damage: list[Damage] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Recovered:
    """The state to go on with. ``next`` is the next number; ``gap_from`` the first lost one."""

    segments: list[Segment]
    mark: Mark
    next: int
    gap_from: int | None
    gap_reason: str
    reopen: bool
    report: RecoveryReport


def recover(
    disk: Disk, directory: int, session_id: str, clock: Callable[[], float], wall_ns: int
) -> Recovered:
    """Read everything, put the end in order. Writes only where the end was not a clean one."""
    contents = read_contents(disk, directory, session_id)
    for name in contents.copies:
        disk.unlink(directory, name)
    mark, loaded = contents.mark, contents.segments
    report = RecoveryReport(foreign=contents.foreign, mark_lost=not contents.trusted)
    begun = loaded[0].segment.first if loaded else None
    _put_end_in_order(disk, directory, contents, report)
    newest_ns = 0
    for one in loaded:
        report.damage.extend(one.damage)
        one.segment.newest_ns = newest_ns = one.segment.newest_ns or newest_ns
        _estimate_ages(one.segment, clock(), wall_ns)
    recovered = _decide(mark, contents.last, loaded, begun, report)
    if report.unclean:
        _sync_all(disk, directory, recovered)
    return recovered


def _decide(
    mark: Mark | None, last: int, loaded: list[Loaded], begun: int | None, report: RecoveryReport
) -> Recovered:
    """``begun``: the first number of the first file, whatever was in it. Those before it were
    given up by retention, or lost so long ago that it has been told."""
    reason = "unclean_end"
    lost_from: int | None = last + 1
    if mark is None or report.mark_lost:
        report.unclean = True
        floor = mark.reserved if mark else 1
        following = max(floor, last + 1) + JUMP
        counter, boot = (mark.counter, mark.boot) if mark else (0, bytes(16))
        mark = Mark(counter + SPACE, floor, 0, 0, clean=False, boot=boot)
    elif not mark.clean or last >= mark.next:
        report.unclean = True
        following = max(mark.reserved, last + 1)
        if not loaded:
            lost_from = begun or mark.next
    else:
        following = mark.next
        # Retention may have taken everything, since then also; else what is missing was lost.
        known = last if loaded else max(mark.earliest, begun or 0) - 1
        lost_from = known + 1 if 0 <= known < following - 1 else None
        reason = "damage"
    reopen = bool(loaded) and not loaded[-1].damage and loaded[-1].segment.unreadable is None
    segments = [one.segment for one in loaded]
    return Recovered(segments, mark, following, lost_from, reason, reopen, report)


def _put_end_in_order(
    disk: Disk, directory: int, contents: Contents, report: RecoveryReport
) -> None:
    """Cut a torn end off the newest segment; one of which nothing can be read is set aside."""
    loaded = contents.segments
    for one in reversed(contents.leftover):
        with opened(disk, directory, one.segment.name) as fd:
            _keep_torn(disk, directory, one, fd, layout.HEADER_SIZE, report)
        disk.unlink(directory, one.segment.name)
    while loaded and loaded[-1].segment.unreadable is not None:
        newest = loaded.pop()
        if newest.file_size < layout.HEADER_SIZE:  # creating it was cut short
            # The only one's name says how far retention had gone: whoever writes takes it over.
            if loaded:
                disk.unlink(directory, newest.segment.name)
        else:
            _set_aside(disk, directory, newest, report)
    if loaded and loaded[-1].damage and loaded[-1].segment.count == 0:
        _clear_name(disk, directory, loaded.pop(), report)
    if not contents.closed:
        # A name that came back after a power cut, removed here or by an opening that was cut short,
        # would bound what the segment before it stands for.
        disk.fsync(directory)
    if loaded and (torn_at := loaded[-1].torn_at) is not None:
        _cut(disk, directory, loaded[-1], torn_at, report)
        loaded[-1].segment.end = loaded[-1].segment.size = torn_at


def _clear_name(disk: Disk, directory: int, newest: Loaded, report: RecoveryReport) -> None:
    """Without a whole header and record it cannot be gone on with; its successor has its name."""
    with opened(disk, directory, newest.segment.name) as fd:
        empty = not read_fully(disk, fd, newest.file_size, 0).strip(b"\0")
    if empty or newest.file_size <= layout.HEADER_SIZE:
        disk.unlink(directory, newest.segment.name)
    else:
        _set_aside(disk, directory, newest, report)


def _set_aside(disk: Disk, directory: int, newest: Loaded, report: RecoveryReport) -> None:
    name = newest.segment.name
    reason = newest.segment.unreadable or newest.reason
    report.damage.append(Damage(name, 0, 0, -1, reason))
    if reason.startswith(layout.OTHER_VERSION):  # a later program can read it
        disk.rename(directory, name, kept_name(disk, directory, name))
        return
    _make_room_aside(disk, directory)
    disk.rename(directory, name, name + BAD_SUFFIX)


def _cut(disk: Disk, directory: int, one: Loaded, at: int, report: RecoveryReport) -> None:
    with opened(disk, directory, one.segment.name, os.O_RDWR) as fd:
        _keep_torn(disk, directory, one, fd, at, report)
        disk.ftruncate(fd, at)
        _sync(disk, directory, one.segment.name, fd)


def _keep_torn(
    disk: Disk, directory: int, one: Loaded, fd: int, at: int, report: RecoveryReport
) -> None:
    """A copy is worth having, but a full disk must not keep the session from starting."""
    torn = read_fully(disk, fd, max(0, one.file_size - at), at)
    report.torn_bytes += len(torn)
    if torn.strip(b"\0"):
        with suppress(OSError):
            _save_aside(disk, directory, f"{one.segment.name}.{at}{TORN_SUFFIX}", torn)


def _sync(disk: Disk, directory: int, name: str, fd: int) -> None:
    try:
        disk.fdatasync(fd)
    except OSError:
        leave_word(disk, directory, name)
        raise


def _save_aside(disk: Disk, directory: int, name: str, data: bytes) -> None:
    _make_room_aside(disk, directory)
    with opened(disk, directory, name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
        write_fully(disk, fd, data, 0)
        disk.fsync(fd)


def _make_room_aside(disk: Disk, directory: int) -> None:
    names = sorted(n for n in disk.listdir(directory) if n.endswith(ASIDE_SUFFIXES))
    for name in names[: max(0, len(names) - ASIDE + 1)]:
        disk.unlink(directory, name)


def _estimate_ages(segment: Segment, now: float, wall_ns: int) -> None:
    """Put wall-clock stamps on the retention clock; a stamp in the future is no age at all."""
    segment.oldest_at = now - max(0, wall_ns - segment.oldest_ns) / 1e9
    segment.newest_at = now - max(0, wall_ns - segment.newest_ns) / 1e9


def _sync_all(disk: Disk, directory: int, recovered: Recovered) -> None:
    """What was read may be in the page cache only, and owners will take it for durable.

    After a reboot what was read came from the disk: nothing to sync but this program's own cut.
    """
    names = [name for name in disk.listdir(directory) if name.endswith(SUSPECT_SUFFIX)]
    suspects = {name.removesuffix(SUSPECT_SUFFIX) for name in names}
    if recovered.report.mark_lost or recovered.mark.boot == disk.boot_id():
        for segment in recovered.segments:
            if segment.name in suspects:
                rewrite(disk, directory, segment)
                continue
            with opened(disk, directory, segment.name) as fd:
                _sync(disk, directory, segment.name, fd)
    for name in suspects:
        trust(disk, directory, name)
