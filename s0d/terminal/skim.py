r"""What of a flood need not be drawn, found in the bytes alone.

Lines of text move the cursor down and never up. So when enough of them come one after the other,
everything before them has left the screen and its scrollback, whatever it was, provided that

- nothing in between can stop or undo that: no cursor movement, no margins, no other screen; only
  text, C0 controls other than SO and SI, SGR and EL are let pass;
- the cut is behind CR LF, so that the column is known;
- the attributes at the cut are brought along: the SGR sequences since the last reset.

"Enough" is two screens and the scrollback: one for the cursor's way to the bottom, one for what
stood below it. Everything here works on bytes with ``rfind`` and regular expressions, at hundreds
of megabytes a second, and errs on the side of skipping less.
"""

from __future__ import annotations

import re
from typing import Final

from s0d.terminal.settings import Settings, colours_of

_RISKY_ESC: Final = re.compile(rb"\x1b(?!\[[0-9;:]{0,200}[mK])")
_LONGEST: Final = 256
"""More than any sequence that ``_RISKY_ESC`` looks ahead for."""
_BLOCK: Final = 1 << 10

_C1: Final = re.compile(rb"\xc2[\x80-\x9f]")
_WHOLE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,200}[ -/]{0,4}[@-~]|[ -/]{1,4}[0-~]|[0-OQ-WYZ\\`-jl-~])"
)
_STRING: Final = re.compile(rb"\x1b[]PX^_k][^\x07\x18\x1a\x1b]*[\x07\x18\x1a]")
_HAZARD: Final = re.compile(
    rb"\x1b(?:\[\?[0-9;]*4[579][0-9;]*[hl]"  # other screens (47, 1047, 1049), reverse wrap (45)
    rb"|\[[0-9;]*r)"  # margins
)

_MAX_TRIES: Final = 8
_FRESH: Final = re.compile(rb"\x1b(?:c|\[[23]J|\[\?1049[hl])")


def first_line_end(data: bytes) -> int:
    """How many bytes the first line has with its newline; all of them if there is none."""
    return data.find(b"\n") + 1 or len(data)


def skip_lines(data: bytes, lines: int) -> bytes:
    """``data`` without what ``lines`` plain lines in it surely push out.

    For a terminal at rest, in its primary screen, without margins or reverse wraparound. The plain
    lines need not be the last ones: what follows them, a prompt or half a sequence, is fed.
    """
    end = data.rfind(b"\n") + 1
    for _ in range(_MAX_TRIES):
        cut = _start_of_last(data, end, lines)
        if cut <= 0:
            return data
        last = _last_risk(data, end)
        if last < cut:
            start = _end_of_risk(data, last)
            if start is None or cut - start < len(data) // 64:
                return data
            return b"".join((data[:start], b"\r\n", colours_of(data[start:cut]), data[cut:]))
        end = last
    return data


def _start_of_last(data: bytes, end: int, lines: int) -> int:
    """Where the last ``lines`` whole lines before ``end`` begin, right behind a CR LF, or -1."""
    at = end
    for _ in range(lines + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return -1
    at = data.rfind(b"\r\n", 0, at + 1)
    return at + 2 if at >= 0 else -1


def _end_of_risk(data: bytes, last: int) -> int | None:
    """Where nothing but plain lines begins after the risk at ``last``; None if that is not sure."""
    if last < 0:
        return 0
    match = _WHOLE.match(data, last) or _STRING.match(data, last)
    if match is None or _HAZARD.search(data, 0, match.end()):
        return None
    return match.end()


def _last_risk(data: bytes, end: int) -> int:
    """Where, before ``end``, what is not surely part of a plain line begins last; -1 for nowhere.

    Not a plain line's are ESC but for SGR and EL, SO and SI, and C1 controls in UTF-8.
    """
    stop = data.rfind(b"\x1b", 0, end) + 1
    shift = max(data.rfind(b"\x0e", 0, end), data.rfind(b"\x0f", 0, end))
    if b"\xc2" in data:
        shift = max([shift, *(match.start() for match in _C1.finditer(data, 0, end))])
    return max(shift, _last_risky_escape(data, stop))


def _last_risky_escape(data: bytes, stop: int) -> int:
    # Backwards in blocks, since a regular expression only looks forwards; small ones first, since
    # the last one mostly is near, where there are many.
    size = _BLOCK
    while stop > 0:
        start, size = max(stop - size, 0), 4 * size
        last = -1
        for match in _RISKY_ESC.finditer(data, start, stop + _LONGEST):
            if match.start() < stop:
                last = match.start()
        if last >= 0:
            return last
        stop = start
    return -1


def cut(data: bytes, limit: int) -> bytes:
    """At most about ``limit`` bytes of the end of ``data``, from a safe point on.

    A safe point is where the screen is cleared, else where a line begins, else an escape sequence.
    Before it comes what the bytes left out have set (modes, margins, titles, colours, character
    sets), each once, and a clear screen: a picture of what is left, not a mixture.
    """
    start = _safe_point(data, len(data) - limit)
    skipped = Settings()
    skipped.take(data[:start])
    return skipped.anew() + data[start:]


def _safe_point(data: bytes, start: int) -> int:
    if fresh := _FRESH.search(data, start):
        return fresh.start()
    line = data.find(b"\r\n", start)
    if line >= 0:
        return line + 2
    escape = data.find(b"\x1b", start)
    return escape if escape >= 0 else start
