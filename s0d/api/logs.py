"""A session's output as lines, found and filtered here so that only what is wanted travels."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import AsyncGenerator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Self

from quart.wrappers.response import Response, ResponseBody

from s0d.journal.errors import CursorExpired
from s0d.journal.record import Record
from s0d.model import event as ev
from s0d.model.errors import InvalidRequest
from s0d.supervisor.patterns import compiled
from s0d.wire.envelope import to_json
from s0d.wire.event import EventEncoder
from s0d.wire.log import Found, Key, Line, every, parse_moment, shown, view_end, view_line

from .call import Call
from .log_search import Backwards, Filter, attempt_of, look, run
from .params import FLAG, Number, Text

if TYPE_CHECKING:
    from s0d.supervisor import Session

MAX_TAIL: Final = 100_000
STREAMS: Final = ("stdout", "stderr", "pty")
TEXT: Final = "text/plain; charset=utf-8"
NDJSON: Final = "application/x-ndjson"

FORMAT: Final = Text("format", ("text", "ndjson"))
TAIL: Final = Number("tail", 0, MAX_TAIL)
SINCE: Final = Text("since")
UNTIL: Final = Text("until")
GREP: Final = Text("grep")
IGNORE_CASE: Final = Text("ignore_case", FLAG)
STREAM: Final = Text("stream", many=True)
ATTEMPT: Final = Text("attempt")
EVENTS: Final = Text("events", FLAG)
RAW: Final = Text("raw", FLAG)
PARAMS: Final = (
    *(FORMAT, TAIL, SINCE, UNTIL, GREP, IGNORE_CASE),
    *(STREAM, ATTEMPT, EVENTS, RAW),
)
MEDIA: Final = ("text/plain", NDJSON)

_READ: Final = 256 << 10
_AT_ONCE: Final = 2000
"""Lines encoded between two looks at the rest of the world."""
_TOLD: Final = ("session.", "attempt.", "journal.")


async def get_logs(call: Call) -> Response:
    """Lines of what is retained up to now: all of them, or the last `tail` that the filter passes.

    As text, or one JSON object a line: lines, with `events` also what happened to the session, and
    at the end the place to go on from.
    """
    session = call.session
    filter = await _filter(call)
    text = call.text(FORMAT) != "ndjson"
    events = call.text(EVENTS) in ("true", "1")
    if text and events:
        raise InvalidRequest("events: needs format=ndjson")
    writer = _Text() if text else _Objects(session.id, events=events)
    tail = call.number(TAIL)
    if tail is None:
        body: _Log = _Whole(session, filter, writer)
    else:
        body = _Tail(session, filter, writer, tail)
    response = Response(body, headers={"content-type": TEXT if text else NDJSON})
    response.timeout = None  # RESPONSE_TIMEOUT would cut it
    return response


async def _filter(call: Call) -> Filter:
    now_ns = time.time_ns()
    streams = call.texts(STREAM)
    for stream in streams:
        if stream not in STREAMS:
            raise InvalidRequest(f"stream: must be one of {', '.join(STREAMS)}")
    since, until = (call.text(param) for param in (SINCE, UNTIL))
    grep, attempt = call.text(GREP), call.text(ATTEMPT)
    ignore = call.text(IGNORE_CASE) in ("true", "1")  # looked at also where there is no `grep`
    wanted: Any = every
    if grep is not None:
        wanted = Found(compiled(grep, "grep", ignore_case=ignore))
    return Filter(
        wanted=wanted,
        streams=streams,
        attempt=None if attempt is None else await attempt_of(call.session, attempt),
        since=None if since is None else parse_moment(since, "since", now_ns),
        until=None if until is None else parse_moment(until, "until", now_ns),
        keep_cr=call.text(RAW) in ("true", "1"),
    )


class _Text:
    """Lines as text; bytes that are not UTF-8 are shown as `\\xff`."""

    events = False

    def lines(self, lines: list[Line]) -> bytes:
        return "".join([f"{shown(line.data)}\n" for line in lines]).encode()

    def event(self, record: Record) -> bytes:
        return b""

    def end(self, cursor: int, unfinished: dict[Key, bytes], *, cut: bool = False) -> bytes:
        return "".join([f"{shown(data)}\n" for data in unfinished.values()]).encode()


class _Objects:
    """A JSON object a line."""

    def __init__(self, session_id: str, *, events: bool) -> None:
        self.events = events
        self._encoder = EventEncoder(session_id)

    def lines(self, lines: list[Line]) -> bytes:
        return b"".join([to_json(view_line(line)) + b"\n" for line in lines])

    def event(self, record: Record) -> bytes:
        return b'{"event":%b}\n' % self._encoder.json(record)

    def end(self, cursor: int, unfinished: dict[Key, bytes], *, cut: bool = False) -> bytes:
        return to_json(view_end(cursor, unfinished, cut=cut)) + b"\n"


_Writer = _Text | _Objects


class _Log(ResponseBody):
    """A body that is written as it is found."""

    def __init__(self, session: Session, filter: Filter, writer: _Writer) -> None:
        self.session = session
        self.filter = filter
        self.writer = writer
        self.stack = ExitStack()
        self._pieces = self.pieces()

    @abstractmethod
    def pieces(self) -> AsyncGenerator[bytes, None]:
        """The body, in pieces."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._pieces.aclose()
        self.stack.close()

    def __aiter__(self) -> AsyncGenerator[bytes, None]:
        return self._pieces

    def wanted_unfinished(self, unfinished: dict[Key, bytes]) -> dict[Key, bytes]:
        """As text what has no end yet is a line; as objects the client goes on with it."""
        if isinstance(self.writer, _Objects):
            return unfinished
        wanted = self.filter.wanted
        return {key: data for key, data in unfinished.items() if [*wanted(data + b"\n")]}


class _Whole(_Log):
    """All, from the earliest retained on."""

    def __init__(self, session: Session, filter: Filter, writer: _Writer) -> None:
        self.last = session.journal.latest
        super().__init__(session, filter, writer)
        self.cursor = self.stack.enter_context(session.attach(None))

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        assembler = self.filter.assembler()
        # Retention that overtakes a slow client raises, and so cuts the answer short for it to
        # see: a log with a hole would look whole.
        while self.cursor.position < self.last:
            block = await self.cursor.read_available(_READ)
            if block is None:
                break
            for records in self._parts(block.records):
                lines = await run(partial(look, records, assembler, self.filter), block.nbytes)
                for at in range(0, len(lines), _AT_ONCE):
                    yield self.writer.lines(lines[at : at + _AT_ONCE])
                if records and self._is_told(records[-1]):
                    yield self.writer.event(records[-1])
        yield self.writer.end(self.cursor.position, self.wanted_unfinished(assembler.unfinished))

    def _parts(self, records: list[Record]) -> list[list[Record]]:
        """Each up to an event that is to be told, so that the order is kept."""
        records = [record for record in records if record.seq <= self.last]
        parts: list[list[Record]] = [[]]
        for record in records:
            parts[-1].append(record)
            if self._is_told(record):
                parts.append([])
        return parts

    def _is_told(self, record: Record) -> bool:
        return self.writer.events and _is_told(record, self.filter)


class _Tail(_Log):
    """The newest lines, and what happened to the session since the first of them."""

    def __init__(self, session: Session, filter: Filter, writer: _Writer, count: int) -> None:
        self.count = count
        super().__init__(session, filter, writer)
        session.cursor(None).close()  # raises where the session is gone

    async def pieces(self) -> AsyncGenerator[bytes, None]:
        search = Backwards(self.session, self.filter)
        lines = await search.find(self.count)
        unfinished = self.wanted_unfinished(search.unfinished)
        if isinstance(self.writer, _Text) and unfinished:
            lines = lines[len(unfinished) :] if len(lines) == self.count else lines
        if self.writer.events and lines:
            async for piece in self._with_events(lines, search.upto):
                yield piece
        else:
            for at in range(0, len(lines), _AT_ONCE):
                yield self.writer.lines(lines[at : at + _AT_ONCE])
        yield self.writer.end(search.upto, unfinished, cut=search.cut)

    async def _with_events(self, lines: list[Line], upto: int) -> AsyncGenerator[bytes, None]:
        at = 0
        try:
            with self.session.cursor(lines[0].seq - 1) as cursor:
                while cursor.position < upto:
                    block = await cursor.read_available(_READ)
                    if block is None:
                        break
                    for record in block.records:
                        if record.seq <= upto and _is_told(record, self.filter):
                            before = at
                            while at < len(lines) and lines[at].seq <= record.seq:
                                at += 1
                            yield self.writer.lines(lines[before:at]) + self.writer.event(record)
        except CursorExpired:
            pass  # the events are gone, the lines were found before
        yield self.writer.lines(lines[at:])


def _is_told(record: Record, filter: Filter) -> bool:
    """Is it about the session's life, and within what is asked for?"""
    return (
        record.type.startswith(_TOLD)
        and record.type != ev.SESSION_UPDATED
        and (filter.attempt is None or record.attempt in (None, filter.attempt))
        and filter.in_time(record.time_ns)
    )
