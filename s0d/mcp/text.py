"""Bytes that a program wrote, as text for a reader who has no terminal.

Pure: bytes in, text out, for any bytes at all, in time proportional to them.
"""

from __future__ import annotations

import re
from typing import Final

# ECMA-48, section 5: control sequences, control strings, escape sequences.  A string that is not
# ended goes to the next ESC or the end.
_SEQUENCE: Final = re.compile(
    rb"\x1b\[[0-?]*[ -/]*[@-~]"
    rb"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    rb"|\x1b[ -/]*[0-~]"
)
_CONTROLS: Final = re.compile(rb"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f]")
_BACKSPACE: Final = re.compile(rb"[^\n\x08]\x08 \x08|\x08")
_UNFINISHED: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*\x1b?|[ -/]*)?\Z|\r\Z")
_LONGEST: Final = 4096
"""Bytes after which a sequence that has no end is taken as it is."""


def readable(data: bytes, *, strip_ansi: bool) -> str:
    """`data` as text; with `strip_ansi` without colours, cursor movement and other controls.

    A carriage return inside a line begins it anew, as on a terminal: of a progress bar the last
    state remains.
    """
    if strip_ansi:
        data = plain(data)
    return data.decode("utf-8", "replace")


def plain(data: bytes) -> bytes:
    data = _SEQUENCE.sub(b"", data)
    data = b"\n".join(map(_overwritten, data.split(b"\n")))
    return _CONTROLS.sub(b"", _BACKSPACE.sub(b"", data))


def _overwritten(line: bytes) -> bytes:
    """What its last carriage return left of it; those before a line's end mean nothing."""
    return next((part for part in reversed(line.split(b"\r")) if part), b"")


def unfinished(data: bytes) -> int:
    """How many bytes at the end are half a character, an escape sequence or a line end."""
    tail = data[-_LONGEST:]
    found = _UNFINISHED.search(tail)
    if found is not None:
        return len(tail) - found.start()
    for back in range(1, min(4, len(tail)) + 1):  # UTF-8: RFC 3629, section 3
        byte = tail[-back]
        if byte & 0xC0 == 0x80:
            continue
        length = (
            2 if byte >> 5 == 0b110 else 3 if byte >> 4 == 0b1110 else 4 if byte >> 3 == 30 else 1
        )
        return back if length > back else 0
    return 0


def cut_end(data: bytes, most: int) -> int:
    """Where to cut so that at most `most` bytes come before: after a line, else after a whole
    character or sequence; at least one byte."""
    if len(data) <= most:
        return len(data)
    line = data.rfind(b"\n", most // 2, most)
    if line >= 0:
        return line + 1
    return (most - unfinished(data[:most])) or most


def cut_start(data: bytes, most: int) -> int:
    """Where the last `most` bytes begin, or a little later: at a line, else at a character."""
    start = max(0, len(data) - most)
    if start == 0:
        return 0
    line = data.find(b"\n", start, start + most // 2)
    if line >= 0:
        return line + 1
    while start < len(data) and data[start] & 0xC0 == 0x80:
        start += 1
    return start


def shortened(text: str, most: int) -> tuple[str, int]:
    """At most `most` characters, from the beginning and the end; and how many were left out."""
    left_out = len(text) - most
    if left_out <= 0:
        return text, 0
    head = most // 3
    return (
        f"{text[:head]}\n[... {left_out} characters left out ...]\n{text[head - most :]}",
        left_out,
    )
