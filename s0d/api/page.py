"""One page of events.

A page is bounded in count and in bytes, whichever comes first; the client goes on from the last
sequence it got.  One that is read forward is sent piece by piece as it is read: what it costs in
memory is a piece, which besides is still in the processor's cache when the kernel copies it.
(Whole pages of 4 MiB took twice the CPU time, most of it for memory that was new each time.)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import TYPE_CHECKING, ClassVar, Final, Self

import msgspec
from quart.wrappers.response import Response, ResponseBody

from s0d.journal.errors import CursorExpired, JournalError
from s0d.model.errors import EventCursorExpired, InvalidRequest, S0dError, SessionNotFound
from s0d.model.event import Event
from s0d.wire.event import EventEncoder, EventView
from s0d.wire.session import Cursor as CursorView

from .call import Call
from .params import AFTER, Number, Text

if TYPE_CHECKING:
    from s0d.supervisor import Session

DEFAULT_LIMIT: Final = 1000
MAX_LIMIT: Final = 10_000
_READ: Final = 256 << 10
_HEAD: Final = b'{"success":true,"data":{"events":['

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
        """The data in its envelope."""
        return b"".join((_HEAD, b",".join(self._events), _tail(self._cursor)))


def _tail(cursor: CursorView) -> bytes:
    return b'],"cursor":{"earliest":%d,"latest":%d}}}' % (cursor.earliest, cursor.latest)


async def list_events(call: Call) -> EventPage | Response:
    session = call.session
    try:
        return await _page(call, session)
    except JournalError:
        if session.removing:  # its files went meanwhile
            raise SessionNotFound("no such session") from None
        raise


async def _page(call: Call, session: Session) -> EventPage | Response:
    limit, tail, after = call.number(LIMIT), call.number(TAIL), call.number(AFTER)
    types = call.texts(TYPE)
    assert limit is not None
    if tail is not None and after is not None:
        raise InvalidRequest("tail: goes back from the latest event and excludes after")
    if tail is not None:
        newest = await _newest(session, min(tail, limit), types, call.config.max_page)
        return EventPage(newest, _cursor_of(session))
    reading = _Reading(session, after, limit, types, call.config.max_page)
    with ExitStack() as closing:
        closing.callback(reading.close)
        events = await reading.read()
        if reading.over:
            return EventPage(events, _cursor_of(session))
        closing.pop_all()
    return Response(_Pieces(session, reading, events), content_type="application/json")


def _cursor_of(session: Session) -> CursorView:
    return CursorView(session.journal.earliest, session.journal.latest)


class _Reading:
    """The first `limit` events after a cursor, piece by piece; one at least, whatever its size.

    To be closed.
    """

    def __init__(
        self,
        session: Session,
        after: int | None,
        limit: int,
        types: Collection[str],
        max_bytes: int,
    ) -> None:
        self.over = False
        self._session = session
        self._encoder = EventEncoder(session.id)
        self._cursor = session.cursor(after)
        self._named = after is not None
        self._last = session.journal.latest  # else a busy session would never be read to its end
        self._limit = limit
        self._types = types
        self._room = max_bytes
        self._count = 0

    def close(self) -> None:
        """Let go of the journal.  May be called twice."""
        self._cursor.close()

    async def read(self) -> list[bytes]:
        """The next piece.  Raises `EventCursorExpired` where retention has removed what comes."""
        piece: list[bytes] = []
        size = 0
        while size < _READ and not self.over:
            left = None if self._types else self._limit - self._count
            try:
                block = await self._cursor.read_available(_READ, left)
            except CursorExpired as error:
                if piece:
                    break  # it stands; the next one gets the error
                if self._named or self._count:
                    raise EventCursorExpired(error.earliest, error.latest) from None
                self._begin_anew()
                continue
            self.over = block is None or block.last >= self._last
            for record in () if block is None else block.records:
                if not self._types or record.type in self._types:
                    size += self._take(record, piece)
        return piece

    def _begin_anew(self) -> None:
        """Nobody named a place, and the earliest is now another one.

        While a cursor is open the newest blocks stay in memory: the second try finds them there,
        however fast retention removes their files.
        """
        with self._cursor:
            self._cursor = self._session.cursor(None)

    def _take(self, record: Event, piece: list[bytes]) -> int:
        """The event's size; 0 where it does not belong to the page any more."""
        if self._count == self._limit or self._room <= 0:
            self.over = True
            return 0
        event = self._encoder.json(record)
        self._room -= len(event) + 1
        if self._room < 0 and self._count:
            self.over = True
            return 0
        piece.append(event)
        self._count += 1
        self.over = self.over or self._count == self._limit
        return len(event)


class _Pieces(ResponseBody):
    """The body of a page of several pieces.  Whatever ends it early ends it after a whole event:
    the client goes on from there and learns by its next request what the matter is."""

    def __init__(self, session: Session, reading: _Reading, first: list[bytes]) -> None:
        self._session = session
        self._reading = reading
        self._first = first
        self._over = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()

    def close(self) -> None:
        """Also called where the client left before the first byte."""
        self._reading.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._first:
            first, self._first = self._first, []
            return b",".join((_HEAD + first[0], *first[1:]))
        if self._over:
            raise StopAsyncIteration
        piece: list[bytes] = []
        try:
            piece = await self._reading.read()
            self._over = self._reading.over
        except (S0dError, JournalError):
            self._over = True
        text = b",".join([b"", *piece])
        return text + _tail(_cursor_of(self._session)) if self._over else text


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
            await _scan(session, after, types, newest.take)
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

    def take(self, event: bytes) -> None:
        self.events.append(event)
        self._room -= len(event) + 1
        self.full = self.full or len(self.events) >= self._count
        while len(self.events) > self._count or (self._room < 0 and len(self.events) > 1):
            self._room += len(self.events.popleft()) + 1
            self.full = True


async def _scan(
    session: Session, after: int, types: Collection[str], take: Callable[[bytes], None]
) -> None:
    """Hand the encoded events after a cursor to `take`, to the end."""
    encoder = EventEncoder(session.id)
    last = session.journal.latest  # a busy session would otherwise never be read to its end
    with session.cursor(after) as cursor:
        position = cursor.position
        while cursor.position < last:
            try:
                block = await cursor.read_available(_READ)
            except CursorExpired as error:
                if cursor.position > position:
                    return  # what was read stands; the next page gets the 410
                raise EventCursorExpired(error.earliest, error.latest) from None
            if block is None:
                return
            for record in block.records:
                if not types or record.type in types:
                    take(encoder.json(record))
