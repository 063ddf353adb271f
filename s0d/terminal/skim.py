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

_HARMLESS_ESC: Final = rb"\x1b\[[0-9;:]{0,200}[mK]"
_RISKY_ESC: Final = re.compile(rb"\x1b(?!\[[0-9;:]{0,200}[mK])")
_SGR: Final = re.compile(rb"\x1b\[[0-9;:]{0,200}m")
_C1: Final = re.compile(rb"\xc2[\x80-\x9f]")
_WHOLE: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,200}[ -/]{0,4}[@-~]|[ -/]{1,4}[0-~]|[0-OQ-WYZ\\`-jl-~])"
)
_STRING: Final = re.compile(rb"\x1b[]PX^_k][^\x07\x18\x1a\x1b]*[\x07\x18\x1a]")
_RESETS: Final = (b"\x1b[m", b"\x1b[0m")

_HAZARD: Final = re.compile(
    rb"\x1b\[\?[0-9;]*4[79][0-9;]*[hl]"  # the alternate screen: 47, 1047, 1049
    rb"|\x1b\[[0-9;]*r"  # margins
    rb"|\x1b[)(*+-./nNoO]"  # character sets, as SO and SI in the text would choose them
)

_STATE: Final = re.compile(
    rb"\x1b\[[?]?[0-9;]{0,200}[hlr]"
    rb"|\x1b\[[0-9;:]{0,200}m"
    rb"|\x1b\[[>!][0-9;]{0,200}[mnp]|\x1b\[[0-6]? q|\x1b\[[?0-9]{0,2}[gW]"
    rb"|\x1b[=>c]|\x1b[()*+][0-9A-Z]|\x1b[no]|[\x0e\x0f]"
    rb"|\x1b\][012];[^\x00-\x1f]{0,4000}(?:\x07|\x1b\\)"
)
_MAX_STATE: Final = 4096
_FRESH: Final = re.compile(rb"\x1bc|\x1b\[[23]J|\x1b\[\?1049[hl]")
_CLEAR: Final = b"\x1b[r\x1b[?6l\x1b[H\x1b[2J\x1b[3J"


def first_line_end(data: bytes) -> int:
    """How many bytes the first line has with its newline; all of them if there is none."""
    return data.find(b"\n") + 1 or len(data)


def skip_lines(data: bytes, lines: int) -> bytes:
    """``data`` without what its last ``lines`` lines surely push out.

    For a terminal at rest, in its primary screen, without margins.
    """
    cut = _start_of_last(data, lines)
    if cut <= 0:
        return data
    start = _end_of_risk(data, cut)
    if start is None or cut - start < len(data) // 64:
        return data
    return b"".join((data[:start], b"\r\n", _attributes(data[start:cut]), data[cut:]))


def _start_of_last(data: bytes, lines: int) -> int:
    """Where the last ``lines`` lines begin, right behind a CR LF, or -1."""
    at = len(data)
    for _ in range(lines + 1):
        at = data.rfind(b"\n", 0, at)
        if at < 0:
            return -1
    at = data.rfind(b"\r\n", 0, at + 1)
    return at + 2 if at >= 0 else -1


def _end_of_risk(data: bytes, stop: int) -> int | None:
    """Where, before ``stop``, nothing but plain lines begins; None if that is not sure.

    The last ``lines`` lines may be anything: they are fed. But they must be plain for the rest to
    be pushed out, so the whole of ``data`` is looked at.
    """
    last = _last_risk(data)
    if last < 0:
        return 0
    if last >= stop:
        return None
    match = _WHOLE.match(data, last) or _STRING.match(data, last)
    if match is None or match.end() >= stop or _HAZARD.search(data, 0, match.end()):
        return None
    return match.end()


def _last_risk(data: bytes) -> int:
    """Where the last byte is that may begin something else than plain lines; -1 for nowhere."""
    if max(data.rfind(b"\x0e"), data.rfind(b"\x0f")) >= 0 or _C1.search(data):
        return len(data)
    last = data.rfind(b"\x1b")
    while last >= 0 and not _RISKY_ESC.match(data, last):
        last = data.rfind(b"\x1b", 0, last)
    return last


def _attributes(skipped: bytes) -> bytes:
    """SGR sequences with the effect of all those in ``skipped``.

    Of equal ones the last is enough: every attribute still gets its last setting.
    """
    start = max(skipped.rfind(reset) for reset in _RESETS)
    return b"".join(_last_of_each(_SGR.findall(skipped, max(start, 0))))


def _last_of_each(sequences: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(reversed(sequences)))[::-1]


def cut(data: bytes, limit: int) -> bytes:
    """At most about ``limit`` bytes of the end of ``data``, from a safe point on.

    A safe point is where the screen is cleared, else where a line begins, else an escape sequence.
    Before it comes what the bytes left out have set (modes, margins, titles, colours, character
    sets), each once, and a clear screen: a picture of what is left, not a mixture.
    """
    start = _safe_point(data, len(data) - limit)
    state = _last_of_each(_STATE.findall(data, 0, start))[-_MAX_STATE:]
    return b"".join((b"\x18", *state, _CLEAR, data[start:]))


def _safe_point(data: bytes, start: int) -> int:
    if fresh := _FRESH.search(data, start):
        return fresh.start()
    line = data.find(b"\r\n", start)
    if line >= 0:
        return line + 2
    escape = data.find(b"\x1b", start)
    return escape if escape >= 0 else start
