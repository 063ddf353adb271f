"""Finding a text or a regular expression in output that arrives in pieces, and on a screen.

Regular expressions are RE2's: linear in the text, whatever the expression, since it comes from a
client (Python's own `re` can take years for twenty bytes).  They run in worker threads of their
own, few at a time, on pieces of bounded size: RE2 lets the loop go on meanwhile, and a wait that
is over leaves its thread at most one piece to finish.
"""

from __future__ import annotations

from typing import Any, Final, Protocol

import re2
import trio

from s0d.model.errors import InvalidRequest

MAX_PATTERN: Final = 4096
"""Bytes of a text or an expression."""
MAX_PROGRAM: Final = 2000
"""RE2's own measure of an expression; time a byte grows with it."""
_MAX_MEMORY: Final = 2 << 20
_PIECE: Final = 32 << 10
_CARRY: Final = 4096

_threads = trio.CapacityLimiter(2)


class Pattern(Protocol):
    """What is looked for."""

    async def find(self, data: bytes) -> tuple[int, int] | None:
        """Where the first match begins and ends."""

    def carry(self, data: bytes) -> bytes:
        """The end of `data`, in which nothing was found, that a match may still begin in."""


class Text:
    """The text itself, as UTF-8."""

    def __init__(self, text: str, field: str = "text") -> None:
        self._text = _encoded(text, field)

    async def find(self, data: bytes) -> tuple[int, int] | None:
        start = data.find(self._text)
        return None if start < 0 else (start, start + len(self._text))

    def carry(self, data: bytes) -> bytes:
        return data[max(0, len(data) - len(self._text) + 1) :]


class Regex:
    """An expression in RE2's syntax; `^` and `$` are the ends of lines."""

    def __init__(self, expression: str, field: str = "regex") -> None:
        self._regex = compiled(expression, field)

    async def find(self, data: bytes) -> tuple[int, int] | None:
        span: tuple[int, int] | None = await trio.to_thread.run_sync(
            self._search, data, abandon_on_cancel=True, limiter=_threads
        )
        return span

    def _search(self, data: bytes) -> tuple[int, int] | None:
        match = self._regex.search(data)
        return None if match is None else match.span()

    def carry(self, data: bytes) -> bytes:
        """From a line's beginning on, so that `^` stays right."""
        if len(data) <= _CARRY:
            return data
        return data[data.find(b"\n", len(data) - _CARRY) + 1 or len(data) - _CARRY :]


class Hit:
    """A match in a stream: the bytes, and how many bytes of the newest piece it takes."""

    def __init__(self, matched: bytes, end: int) -> None:
        self.matched = matched
        self.end = end


class Search:
    """Looks for a pattern in one stream, across the borders of its pieces.

    What an expression matches is seen whole up to 4 KiB over such a border.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern
        self._carry = b""

    async def feed(self, data: bytes) -> Hit | None:
        """Look at the next piece."""
        for start in range(0, len(data), _PIECE):
            before = len(self._carry)
            text = self._carry + data[start : start + _PIECE]
            found = await self._pattern.find(text)
            if found is not None:
                return Hit(text[found[0] : found[1]], max(start + found[1] - before, 0))
            self._carry = self._pattern.carry(text)
        return None


def compiled(expression: str, field: str, *, ignore_case: bool = False) -> Any:
    """An expression of RE2's over bytes; `InvalidRequest` where it is none, or too large."""
    options = re2.Options()
    options.max_mem = _MAX_MEMORY
    options.log_errors = False
    options.case_sensitive = not ignore_case
    try:
        regex = re2.compile(b"(?m)" + _encoded(expression, field), options)
    except re2.error as error:
        reason = error.args[0] if error.args else error
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise InvalidRequest(f"{field}: not a regular expression (RE2): {text}") from None
    if regex.programsize > MAX_PROGRAM:
        raise InvalidRequest(f"{field}: the expression is too large")
    return regex


def _encoded(text: str, field: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{field}: must be valid Unicode") from None
    if not data:
        raise InvalidRequest(f"{field}: must not be empty")
    if len(data) > MAX_PATTERN:
        raise InvalidRequest(f"{field}: at most {MAX_PATTERN} bytes")
    return data
