"""One page of events.

A page is bounded in count and in bytes, whichever comes first, so that what an answer costs in
memory does not grow with `limit`; the client goes on from the last sequence it got.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from s0d.journal.errors import CursorExpired
from s0d.model.errors import EventCursorExpired, InvalidRequest
from s0d.wire.event import EventEncoder, EventView
from s0d.wire.session import Cursor as CursorView

from .call import Call
from .params import AFTER, Number, Text

if TYPE_CHECKING:
    from s0d.supervisor import Session

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000
_READ: Final = 256 << 10

LIMIT: Final = Number("limit", 1, MAX_LIMIT, DEFAULT_LIMIT)
TAIL: Final = Number("tail", 1, MAX_LIMIT)
TYPE: Final = Text("type", many=True)
PARAMS: Final = (LIMIT, TAIL, AFTER, TYPE)


class EventPageView(msgspec.Struct):
    events: list[EventView]
    cursor: CursorView


class EventPage:
    """The answer's data, `{"events": […], "cursor": {…}}`, of events that are already encoded."""

    looks_like: ClassVar[type] = EventPageView

    def __init__(self, events: Collection[bytes], cursor: CursorView) -> None:
        self._events = events
        self._cursor = cursor

    def answer(self) -> bytes:
        """The data in its envelope; megabytes, hence joined once and copied no further."""
        head = b'{"success":true,"data":{"events":['
        cursor = (self._cursor.earliest, self._cursor.latest)
        tail = b'],"cursor":{"earliest":%d,"latest":%d}}}' % cursor
        parts = [head]
        for event in self._events:
            parts += (event, b",")
        parts[-1] = tail if self._events else head + tail
        return b"".join(parts)


async def list_events(call: Call) -> EventPage:
    session = call.session
    limit, tail, after = call.number(LIMIT), call.number(TAIL), call.number(AFTER)
    types = call.texts(TYPE)
    assert limit is not None
    if tail is not None and after is not None:
        raise InvalidRequest("tail: goes back from the latest event and excludes after")
    events: Collection[bytes]
    if tail is not None:
        events = await _newest(session, min(tail, limit), types, call.config.max_page)
    else:
        events = await _next(session, after, limit, types, call.config.max_page)
    journal = session.journal
    return EventPage(events, CursorView(journal.earliest, journal.latest))


async def _next(
    session: Session, after: int | None, limit: int, types: Collection[str], max_bytes: int
) -> list[bytes]:
    """The first `limit` events after a cursor; one event at least, whatever its size."""
    events: list[bytes] = []
    size = 0

    def take(event: bytes) -> bool:
        nonlocal size
        size += len(event) + 1
        if size > max_bytes and events:
            return False
        events.append(event)
        return len(events) < limit

    # While a cursor is open the newest blocks stay in memory: a second try finds them there,
    # however fast retention removes their files.
    with session.cursor(after):
        while True:
            try:
                await _scan(session, after, types, take, limit if not types else None)
            except EventCursorExpired:
                if after is not None:
                    raise
                # Nobody named a place: the earliest is now another one.
            else:
                return events


async def _newest(
    session: Session, count: int, types: Collection[str], max_bytes: int
) -> Collection[bytes]:
    """The last `count` events, as many of them as fit.

    Where sequences were skipped or types left out, the way back is longer than `count`: it is
    tried in growing steps, so that at most a third more is read than was needed.
    """
    step = count
    while True:
        start = max(0, session.journal.earliest - 1)
        after = max(start, session.journal.latest - step)
        newest = _Newest(count, max_bytes)
        try:
            await _scan(session, after, types, newest.take, None)
        except EventCursorExpired:
            continue  # retention went by; look again from what is left
        if after == start or newest.full:
            return newest.events
        step *= 4


class _Newest:
    """Keeps the last of what it is given, within count and bytes."""

    def __init__(self, count: int, max_bytes: int) -> None:
        self.events: deque[bytes] = deque()
        self.full = False
        self._count = count
        self._room = max_bytes

    def take(self, event: bytes) -> bool:
        self.events.append(event)
        self._room -= len(event) + 1
        self.full = self.full or len(self.events) >= self._count
        while len(self.events) > self._count or (self._room < 0 and len(self.events) > 1):
            self._room += len(self.events.popleft()) + 1
            self.full = True
        return True


async def _scan(
    session: Session,
    after: int | None,
    types: Collection[str],
    take: Callable[[bytes], bool],
    max_records: int | None,
) -> None:
    """Hand the encoded events after a cursor to `take`, to the end or until it returns False."""
    encoder = EventEncoder(session.id)
    last = session.journal.latest  # a busy session would otherwise never be read to its end
    with session.cursor(after) as cursor:
        position = cursor.position
        while cursor.position < last:
            try:
                block = await cursor.read_available(_READ, max_records)
            except CursorExpired as error:
                if cursor.position > position:
                    return  # what was read stands; the next page gets the 410
                raise EventCursorExpired(error.earliest, error.latest) from None
            if block is None:
                return
            for record in block.records:
                if (not types or record.type in types) and not take(encoder.json(record)):
                    return
