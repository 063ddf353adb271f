"""`session_output`: what a session wrote, as pages of bounded text.

A cursor is `SEQ`, or `SEQ+N` where a page ended inside the next event: N bytes of it were read.
Without one the newest page is read, as one looks at the end of a log.
"""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from msgspec import UNSET

from .arguments import DEFAULT_TEXT, SessionOutput
from .calls import Calls, Json, Session, query
from .errors import invalid
from .text import cut_end, cut_start, readable, unfinished

_CURSOR: Final = re.compile(r"([0-9]{1,16})(?:\+([0-9]{1,7}))?\Z")
_FIRST_PAGE, _LARGEST_PAGE = 8, 2048  # events
_MOST_READ: Final = 16 << 20
"""Bytes that one call reads at most, where those of one stream are looked for in a flood."""
_WHOLE_PAGE: Final = 2 << 20
"""A page of so many bytes may have been cut by the bound on its JSON (4 MiB)."""
_HELD_BACK: Final = 256
"""Bytes that may wait for the rest of a character or sequence, while the program lives."""


class Place(NamedTuple):
    """Behind event `seq`, and behind `skip` bytes of the event after it."""

    seq: int
    skip: int = 0

    def __str__(self) -> str:
        return f"{self.seq}+{self.skip}" if self.skip else str(self.seq)


class Part(NamedTuple):
    """What of an output event counts: its bytes behind `skip`."""

    seq: int
    skip: int
    data: bytes


@dataclass
class Found:
    """Output in a row: its parts, and the place behind all that was looked at.

    `more`: there is output beyond it (behind it; before it, where the newest was asked for).
    """

    start: Place
    end: Place
    parts: list[Part] = field(default_factory=list)
    more: bool = False

    @property
    def data(self) -> bytes:
        return b"".join(part.data for part in self.parts)

    def place(self, size: int) -> Place:
        """The place behind the first `size` bytes."""
        place = self.start
        for part in self.parts:
            if size < len(part.data):
                return Place(part.seq - 1, part.skip + size) if size else place
            size -= len(part.data)
            place = Place(part.seq)
        return self.end


def parse_cursor(text: str | int) -> Place:
    match = _CURSOR.match(str(text))
    if match is None:
        raise invalid("after: must be a cursor of an earlier answer")
    return Place(int(match[1]), int(match[2] or 0))


async def session_output(calls: Calls, sent: SessionOutput) -> Json:
    after = None if sent.after is UNSET or sent.after == "" else parse_cursor(sent.after)
    session = await calls.find(sent.sandbox, sent.name)
    reader = _Reader(calls, session, sent.stream or None)
    most = sent.max_bytes or DEFAULT_TEXT
    if after is None:
        found = await reader.newest(most)
        data = found.data
        begin, end, more = cut_start(data, most), len(data), False
    else:
        found = await reader.onward(after, most)
        data = found.data
        begin, end = 0, cut_end(data, most)
        more = found.more or end < len(data)
    if not more and not session.ended:
        rest = unfinished(data[begin:end])
        end -= rest if rest <= _HELD_BACK else 0
    text = readable(data[begin:end], strip_ansi=sent.strip_ansi is not False)
    answer: Json = {"text": text, "cursor": str(found.place(end)), **session.state()}
    if more:
        answer["more"] = True
    if after is None and (begin or found.more):
        answer["earlier_left_out"] = True
    return answer


class _Event(NamedTuple):
    seq: int
    stream: str
    data: bytes


class _Page(NamedTuple):
    """Output events, and the newest event of any kind."""

    events: list[_Event]
    latest: int

    @property
    def first(self) -> int:
        return self.events[0].seq

    @property
    def last(self) -> int:
        return self.events[-1].seq

    @property
    def size(self) -> int:
        return sum(len(event.data) for event in self.events)


@dataclass(frozen=True)
class _Reader:
    """Reads output events, in pages that grow until there is as much as was asked for."""

    calls: Calls
    session: Session
    stream: str | None

    async def onward(self, after: Place, most: int) -> Found:
        """From `after` on: more than `most` bytes, or all there is."""
        found = Found(after, after)
        size = read = 0
        limit = _FIRST_PAGE
        while True:
            page = await self._page(after=found.end.seq, limit=limit)
            if not page.events:
                return found
            found.end = Place(page.last)
            for part in self._parts(page.events, after):
                found.parts.append(part)
                size += len(part.data)
            read += page.size
            if page.last == page.latest:
                return found
            if size > most or read > _MOST_READ:
                found.more = True
                return found
            limit = min(limit * 4, _LARGEST_PAGE)

    async def newest(self, most: int) -> Found:
        """The end of it: more than `most` bytes, or all there is."""
        limit = _FIRST_PAGE
        while True:
            page = await self._page(tail=limit)
            if not page.events:
                return Found(Place(page.latest), Place(page.latest))
            start = Place(page.first - 1)
            found = Found(start, Place(page.last), list(self._parts(page.events, start)))
            found.more = len(page.events) == limit or page.size >= _WHOLE_PAGE  # there may be
            size = sum(len(part.data) for part in found.parts)
            if size > most or not found.more or limit == _LARGEST_PAGE:
                return found
            limit = min(limit * 4, _LARGEST_PAGE)

    async def _page(self, **place: int) -> _Page:
        path = "/events" + query(type="output", **place)
        page: dict[str, Any] = await self.calls.of_session(self.session, "GET", path)
        events = [
            _Event(int(e["seq"]), e["stream"], a2b_base64(e["data_base64"])) for e in page["events"]
        ]
        return _Page(events, int(page["cursor"]["latest"]))

    def _parts(self, events: Iterable[_Event], after: Place) -> Iterable[Part]:
        for seq, stream, data in events:
            skip = after.skip if seq == after.seq + 1 else 0
            if self.stream in (None, stream) and data[skip:]:
                yield Part(seq, skip, data[skip:])
