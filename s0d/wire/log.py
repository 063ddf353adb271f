"""Output as lines: joined from the pieces that were written, filtered, and as clients see them.

A line belongs to one stream of one attempt.  It has the sequence and the time of the piece that
ended it; one that an attempt left without an end is a line as well.  What is looked for is looked
for in whole pieces first, and lines are made only where something was found.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple, Protocol

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from s0d.model.errors import InvalidRequest

from .times import rfc3339

MAX_LINE: Final = 64 << 10
"""Bytes; longer ones are cut into lines of this length."""

Key = tuple[str, str]
"""Attempt and stream."""


class Line(NamedTuple):
    """`data` has neither its newline nor the carriage return before it."""

    seq: int
    time_ns: int
    attempt: str
    stream: str
    data: bytes


class Expression(Protocol):
    """A compiled regular expression over bytes, in which `^` and `$` are the ends of lines."""

    def search(self, data: bytes, pos: int = ...) -> Any: ...


class Found:
    """The lines of a text that an expression matches, by itself in each."""

    def __init__(self, expression: Expression) -> None:
        self._search = expression.search

    def __call__(self, text: bytes) -> Iterator[bytes]:
        at = 0
        while at < len(text) and (match := self._search(text, at)) is not None:
            place = max(at, match.start())
            if place >= len(text):
                return
            start = text.rfind(b"\n", 0, place) + 1
            end = text.find(b"\n", place)
            end = len(text) if end < 0 else end
            line = text[start:end]
            # It may have matched only together with what stands in the next line.
            if self._search(line) is not None:
                yield line
            at = end + 1


def every(text: bytes) -> Iterable[bytes]:
    """All lines of a text that ends with one."""
    return text[:-1].split(b"\n")


class Assembler:
    """Joins output into lines; `wanted` picks those of a text, `keep_cr` leaves carriage returns.

    `unfinished` is what has been written without an end so far.
    """

    def __init__(
        self,
        wanted: Callable[[bytes], Iterable[bytes]] = every,
        *,
        keep_cr: bool = False,
    ) -> None:
        self.unfinished: dict[Key, bytes] = {}
        self._wanted = wanted
        self._keep_cr = keep_cr

    def feed(self, seq: int, time_ns: int, key: Key, data: bytes) -> list[Line]:
        """The lines that a piece of output ends."""
        cut = data.rfind(b"\n") + 1
        before = self.unfinished.get(key, b"")
        if not cut and len(before) + len(data) <= MAX_LINE:
            self.unfinished[key] = before + data
            return []
        if cut:
            text, rest = before + data[:cut], data[cut:]
        else:
            text, rest = _cut(before + data)
        if rest:
            self.unfinished[key] = rest
        else:
            self.unfinished.pop(key, None)
        return self._lines(seq, time_ns, key, text)

    def end(self, seq: int, time_ns: int, attempt: str) -> list[Line]:
        """An attempt has ended: so have its lines."""
        lines: list[Line] = []
        for key in [key for key in self.unfinished if key[0] == attempt]:
            lines += self._lines(seq, time_ns, key, self.unfinished.pop(key) + b"\n")
        return lines

    def _lines(self, seq: int, time_ns: int, key: Key, text: bytes) -> list[Line]:
        if not self._keep_cr and b"\r" in text:
            text = text.replace(b"\r\n", b"\n")
        return [Line(seq, time_ns, *key, data) for data in self._wanted(text)]


def _cut(text: bytes) -> tuple[bytes, bytes]:
    """A line of the greatest length, and the rest."""
    return text[:MAX_LINE] + b"\n", text[MAX_LINE:]


# -- as clients see it -----------------------------------------------------------------------------


class LineView(msgspec.Struct, kw_only=True):
    """One line; bytes that are not UTF-8 are shown as `\\xff`, and are all in `data_base64`."""

    seq: int
    occurred_at: str
    attempt_id: str
    stream: str
    line: str
    data_base64: str | UnsetType = UNSET


class UnfinishedView(msgspec.Struct, kw_only=True):
    """What a stream has written without an end of line."""

    attempt_id: str
    stream: str
    data_base64: str


class EndView(msgspec.Struct, kw_only=True):
    """The last object: all up to `cursor` has been looked at; go on with the events after it."""

    cursor: int
    unfinished: list[UnfinishedView]
    cut: bool | UnsetType = UNSET
    """True where a tail has fewer lines than asked for, since they take too much room."""


def view_line(line: Line) -> LineView:
    view = LineView(
        seq=line.seq,
        occurred_at=rfc3339(line.time_ns),
        attempt_id=line.attempt,
        stream=line.stream,
        line=shown(line.data),
    )
    if not _is_text(line.data):
        view.data_base64 = pybase64.b64encode(line.data).decode("ascii")
    return view


def view_end(cursor: int, unfinished: dict[Key, bytes], *, cut: bool = False) -> EndView:
    views = [
        UnfinishedView(
            attempt_id=attempt, stream=stream, data_base64=pybase64.b64encode(data).decode("ascii")
        )
        for (attempt, stream), data in unfinished.items()
    ]
    return EndView(cursor=cursor, unfinished=views, cut=cut or UNSET)


def shown(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


# -- moments ---------------------------------------------------------------------------------------

_DURATION: Final = re.compile(r"([0-9]{1,9})(ms|s|m|h|d|w)\Z")
_UNITS: Final = {"ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9}
_UNITS.update(d=24 * _UNITS["h"], w=7 * 24 * _UNITS["h"])


def parse_moment(text: str, field: str, now_ns: int) -> int:
    """A time (RFC 3339), or a duration before now (`90s`, `10m`, `2d`), in Unix nanoseconds."""
    if match := _DURATION.match(text):
        return now_ns - int(match[1]) * _UNITS[match[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidRequest(
            f"{field}: write a time like 2026-01-31T12:00:00Z or a duration like 90s, 10m, 2h, 1d"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since_epoch = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (
        since_epoch.days * 86400 + since_epoch.seconds
    ) * 10**9 + since_epoch.microseconds * 1000
