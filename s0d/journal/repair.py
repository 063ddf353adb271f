"""Mending a journal that is not open, for operators: what recovery does, and nothing is removed.

Recovery bounds what it sets aside, since nobody looks at a daemon's files; an operator does, so
here everything that leaves the journal stays beside it under a name that ends in ``.kept``.
"""

import os

from s0d.journal import layout
from s0d.journal.contents import kept_name, read_contents
from s0d.journal.disk import Disk, RealDisk, opened, opened_directory, read_fully, write_fully
from s0d.journal.inspect import records, verify
from s0d.journal.journal import Journal
from s0d.journal.load import Loaded
from s0d.journal.mark import Mark
from s0d.journal.record import GAP, Limits

_NO_LIMITS = Limits(1 << 62)


class CannotRepair(Exception):
    """Repairing would make it worse; the message says why. Nothing was changed."""


def repair(
    directory: str, session_id: str | None = None, disk: Disk | None = None
) -> list[tuple[str, str]]:
    """Mend what can be mended; what was done, as pairs of file and deed.

    Foreign files, unfinished copies and newest segments of which nothing can be read are renamed;
    a torn end is copied and cut off; footers that are missing are written where every number is
    there; a mark that cannot be relied on is made anew and a missing end told, by opening and
    closing the journal. Lost records stay lost: readers have their gap. A mere unclean end is left
    to the daemon. Blocks. Raises :class:`CannotRepair`, ``OSError`` and :class:`JournalError`.
    """
    disk = disk or RealDisk()
    report = verify(directory, disk, session_id)
    session_id = session_id or report.session_id
    if session_id is None:
        raise CannotRepair("no segment says which session it belongs to")
    if any((s.unreadable or "").startswith(layout.OTHER_VERSION) for s in report.segments):
        raise CannotRepair("a segment is of a format version that this program does not know")
    if not any(record.type != GAP for record in records(directory, 0, disk, session_id)):
        # Emptied, it would look like a session that was never acknowledged, and be discarded.
        raise CannotRepair("it holds no record that can be read")
    with opened_directory(disk, directory) as descriptor:
        one = _Repair(disk, descriptor, session_id)
        one.run()
    if one.reopen:
        Journal.open(disk, directory, session_id, _NO_LIMITS, reserve=False).close()
        one.done.append(("mark", "written anew; a journal.gap tells of the numbers that are lost"))
    return one.done


class _Repair:
    """The steps in one directory. ``reopen``: the mark does not fit what is there."""

    def __init__(self, disk: Disk, directory: int, session_id: str) -> None:
        self._disk = disk
        self._directory = directory
        self._session_id = session_id
        self.done: list[tuple[str, str]] = []
        self.reopen = False

    def run(self) -> None:
        contents = read_contents(self._disk, self._directory, self._session_id)
        for name in [*contents.foreign, *contents.copies]:
            self._rename(name, "not a part of the journal")
        for one in reversed(contents.leftover):
            self._rename(one.segment.name, "an append that did not come to its end")
        mark, loaded = contents.mark, contents.segments
        while loaded and _nothing_in(loaded[-1]):
            newest = loaded.pop()
            self._rename(newest.segment.name, newest.segment.unreadable or newest.reason)
        for one in loaded:
            newest_mark = mark if contents.trusted else None
            self._mend_end(one, newest=one is loaded[-1], mark=newest_mark)
        self.reopen = not contents.trusted or (
            mark is not None and mark.clean and contents.last != mark.next - 1
        )
        if self.done:
            self._disk.fsync(self._directory)

    def _mend_end(self, one: Loaded, *, newest: bool, mark: Mark | None) -> None:
        """Cut off what is no record; write the footer where the segment is whole and finished."""
        segment = one.segment
        if one.sealed or segment.unreadable is not None or segment.count == 0:
            return
        finished = not newest or (mark is not None and mark.clean and segment.last == mark.next - 1)
        whole = not any(damage.last >= segment.last for damage in one.damage)
        seal = finished and whole and len(segment.nonce) == layout.NONCE_SIZE
        # A middle segment that is not whole may hold more than this program can read: left alone.
        if not seal and (not newest or one.torn_at is None):
            return
        if one.torn_at is not None:
            self._cut(one, one.torn_at)
        if seal:
            self._seal(one)

    def _cut(self, one: Loaded, at: int) -> None:
        name = one.segment.name
        with opened(self._disk, self._directory, name, os.O_RDWR) as fd:
            torn = read_fully(self._disk, fd, one.file_size - at, at)
            if torn.strip(b"\0"):
                kept = self._kept_name(f"{name}.{at}")
                self._write(kept, torn)
                self.done.append((name, f"{len(torn)} bytes cut off, kept in {kept}"))
            else:
                self.done.append((name, f"{len(torn)} zero bytes cut off"))
            self._disk.ftruncate(fd, at)
            self._disk.fsync(fd)

    def _seal(self, one: Loaded) -> None:
        segment = one.segment
        footer = layout.encode_footer(segment.footer(self._session_id), segment.end, segment.nonce)
        with opened(self._disk, self._directory, segment.name, os.O_RDWR) as fd:
            write_fully(self._disk, fd, footer, segment.end)
            self._disk.fsync(fd)
        self.done.append((segment.name, "footer rebuilt"))

    def _rename(self, name: str, why: str) -> None:
        kept = self._kept_name(name)
        self._disk.rename(self._directory, name, kept)
        self.done.append((name, f"{why}; set aside as {kept}"))

    def _kept_name(self, name: str) -> str:
        return kept_name(self._disk, self._directory, name)

    def _write(self, name: str, data: bytes) -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with opened(self._disk, self._directory, name, flags) as fd:
            write_fully(self._disk, fd, data, 0)
            self._disk.fsync(fd)
        self._disk.fsync(self._directory)


def _nothing_in(newest: Loaded) -> bool:
    """As recovery sees it: no whole header, another session's, or neither header nor record."""
    segment = newest.segment
    return segment.unreadable is not None or (bool(newest.damage) and segment.count == 0)
