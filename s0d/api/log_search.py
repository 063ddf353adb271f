"""Looking for lines in what is retained of a session: forwards, or back from the newest.

Backwards a segment at a time, each read forwards, with the end of what comes before it: there its
first lines begin.  So a tail costs what it reaches, however much is retained, and memory a few
segments.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from s0d.journal.errors import CursorExpired
from s0d.journal.record import Record
from s0d.model import event as ev
from s0d.model.errors import EventCursorExpired
from s0d.wire.log import MAX_LINE, Assembler, Key, Line, every

if TYPE_CHECKING:
    from s0d.supervisor import Session

_READ: Final = 1 << 20
_SEGMENT: Final = 4 << 20
MOST: Final = 32 << 20
"""Bytes of lines that are held for a tail."""
_LOOK_BACK: Final = 2 * MAX_LINE
"""Bytes of output in which the beginning of an unfinished line is looked for."""

_threads = trio.CapacityLimiter(2)


@dataclass(frozen=True)
class Filter:
    """What is wanted; times in Unix nanoseconds, from `since` on and before `until`."""

    wanted: Callable[[bytes], Iterable[bytes]] = every
    streams: Collection[str] = ()
    attempt: str | None = None
    since: int | None = None
    until: int | None = None
    keep_cr: bool = False

    def has(self, record: Record) -> bool:
        """Is a piece of output of the right attempt and stream?"""
        if self.attempt is not None and record.attempt != self.attempt:
            return False
        return not self.streams or record.fields["stream"] in self.streams

    def in_time(self, time_ns: int) -> bool:
        if self.since is not None and time_ns < self.since:
            return False
        return self.until is None or time_ns < self.until

    def assembler(self) -> Assembler:
        return Assembler(self.wanted, keep_cr=self.keep_cr)


async def run(work: Callable[[], list[Line]], size: int) -> list[Line]:
    """Look through so many bytes: elsewhere, where that takes longer than going there."""
    if size < MAX_LINE:
        return work()
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=_threads)


def look(records: Iterable[Record], assembler: Assembler, filter: Filter) -> list[Line]:
    """The lines that these records end."""
    lines: list[Line] = []
    for record in records:
        attempt = record.attempt or ""
        if record.type == ev.OUTPUT:
            if filter.has(record):
                key = (attempt, record.fields["stream"])
                found = assembler.feed(record.seq, record.time_ns, key, record.fields["data"])
                if found and filter.in_time(record.time_ns):
                    lines += found
        elif record.type == ev.ATTEMPT_EXITED:
            found = assembler.end(record.seq, record.time_ns, attempt)
            if filter.in_time(record.time_ns):
                lines += found
    return lines


class Backwards:
    """The newest lines, found from the end on.

    `unfinished` is what had been written without an end at the time, up to event `upto`.
    `cut` says that fewer were found than there are, since they take too much room.
    """

    def __init__(self, session: Session, filter: Filter) -> None:
        self.cut = False
        self.upto = session.journal.latest
        self.unfinished: dict[Key, bytes] = {}
        self._session = session
        self._filter = filter
        self._segments = [
            first for first in session.journal.segments_beyond(0) if first <= self.upto
        ]
        self._read: dict[int, list[Record]] = {}

    async def find(self, count: int, most: int = MOST) -> list[Line]:
        """At most `count` lines, in order; not many more bytes than `most`."""
        lines: list[Line] = []
        size = 0
        try:
            for place in range(len(self._segments) - 1, -1, -1):
                if not self._is_too_old(place):
                    found = await self._lines(place)
                    lines = found + lines
                    size += sum(len(line.data) for line in found)
                if len(lines) >= count:
                    break
                if size > most:
                    self.cut = True
                    break
        except CursorExpired:
            pass  # retention has overtaken the search: what it has taken is no longer there
        return lines[max(0, len(lines) - count) :]

    async def _lines(self, place: int) -> list[Line]:
        """The lines that end in a segment."""
        records = await self._records(place)
        before: list[Record] = []
        size, at = 0, place
        while at > 0 and size < _LOOK_BACK:
            at -= 1
            end = _end_of(await self._records(at), _LOOK_BACK - size)
            before, size = end + before, size + sum(map(_size, end))
        newest = place == len(self._segments) - 1
        self._read = {at: kept for at, kept in self._read.items() if at < place}
        return await run(partial(self._look, before, records, newest), size + _SEGMENT)

    def _look(self, before: list[Record], records: list[Record], newest: bool) -> list[Line]:
        joined = Assembler(lambda text: (), keep_cr=True)
        look(before, joined, self._filter)
        assembler = self._filter.assembler()
        assembler.unfinished = joined.unfinished
        lines = look(records, assembler, self._filter)
        if newest:
            self.unfinished = assembler.unfinished
        return lines

    def _is_too_old(self, place: int) -> bool:
        segment = self._session.journal.store.find(self._segments[place])
        since = self._filter.since
        newest = place == len(self._segments) - 1  # what is unfinished there is looked for
        return (
            not newest and since is not None and segment is not None and segment.newest_ns < since
        )

    async def _records(self, place: int) -> list[Record]:
        if place not in self._read:
            last = place == len(self._segments) - 1
            upto = self.upto if last else self._segments[place + 1] - 1
            self._read[place] = await self._read_segment(self._segments[place] - 1, upto)
        return self._read[place]

    async def _read_segment(self, after: int, upto: int) -> list[Record]:
        records: list[Record] = []
        with self._session.journal.cursor(max(after, self._session.journal.earliest - 1)) as cursor:
            while cursor.position < upto:
                block = await cursor.read_available(_READ)
                if block is None:
                    break
                records += block.records
        while records and records[-1].seq > upto:
            records.pop()
        return records


def _end_of(records: list[Record], size: int) -> list[Record]:
    """The last of them, with so many bytes of output."""
    place = len(records)
    while place > 0 and size > 0:
        place -= 1
        size -= _size(records[place])
    return records[place:]


def _size(record: Record) -> int:
    return len(record.fields["data"]) if record.type == ev.OUTPUT else 0


async def attempt_of(session: Session, called: str) -> str:
    """The id of an attempt that is called by its number, or its id; no attempt has an empty one."""
    current = session.record.attempt
    if current is None or not called.isdigit():
        return called
    back = current.number - int(called)
    if back <= 0:
        return current.id if back == 0 else ""
    seen: dict[str, None] = {}
    last = session.journal.latest
    with session.cursor(None) as cursor:
        while cursor.position < last:
            try:
                block = await cursor.read_available(_READ)
            except CursorExpired as error:
                raise EventCursorExpired(error.earliest, error.latest) from None
            if block is None:
                break
            seen.update((record.attempt, None) for record in block.records if record.attempt)
    every = [*seen]
    return every[-1 - back] if back < len(every) else ""
