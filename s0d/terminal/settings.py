r"""What output has set that stays when it is left out: modes, margins, titles, colours, sets.

Found in the bytes alone, with regular expressions, at some hundreds of megabytes a second. Every
such sequence sets something to a value, whatever it was, so of equal ones the last is enough.

Saved cursors and titles, and tab stops that were set by moving there, are lost with what is left
out; nor is a C1 control encoded in UTF-8 looked for, or told whether a sequence stood inside a
string.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_STATE: Final = re.compile(
    # Most of what is written is none of it: cursor movements, erasing, colours.
    rb"\x1b(?!\[[0-9;]*+[A-PS-fim])(?:"
    rb"\[\??[0-9;]{0,200}+[hlr]|\[[>!][0-9;]{0,200}+[mnp]|\[[0-6]? q|\[[?0-9]{0,2}[gW]"
    rb"|[=>cno]|[()*+][0-9A-Z]|\][012];[^\x00-\x1f]{0,4000}(?:\x07|\x1b\\))"
)
"""What sets something that stays, but for SGR, SO and SI."""
_UNFINISHED: Final = re.compile(
    rb"\x1b(?:\[[0-?]{0,200}[ -/]{0,4}|[()*+]|\](?:[012](?:;[^\x00-\x1f]{0,4000}\x1b?)?)?)?\Z"
)
_SGR: Final = re.compile(rb"\x1b\[[0-9;:]{0,200}m")
_SGR_RESETS: Final = (b"\x1b[m", b"\x1b[0m")
_RESETS: Final = frozenset({b"\x1b[!p", b"\x1bc"})
_SHIFTS: Final = (b"\x0f", b"\x0e")  # SI, SO
_LOCKS: Final = frozenset({b"\x1bn", b"\x1bo"})
_LONGEST: Final = 4100
_MAX_KEPT: Final = 1024
_CANCEL: Final = b"\x18"
_CLEAR: Final = b"\x1b[0m\x1b[2J\x1b[3J\x1b[H"


class Settings:
    """What the output taken so far has set; what it takes is bounded."""

    def __init__(self) -> None:
        self._modes: list[bytes] = []
        self._colours: list[bytes] = []
        self._shift = b""
        self._unfinished = b""

    def take(self, data: bytes) -> None:
        """The next output; it may end anywhere."""
        data = self._unfinished + data
        escapes = b"\x1b" in data
        found = _last_of_each(_STATE.findall(data)) if escapes else []
        rare = (_RESETS | _LOCKS).intersection(found)
        self._shift = _last_shift(data, rare) or self._shift
        if found:
            self._modes = _last_titles(_last_of_each([*self._modes, *found]))[-_MAX_KEPT:]
        if escapes:
            reset, colours = _colours(data, rare & _RESETS)
            kept = [] if reset else self._colours
            self._colours = _last_of_each([*kept, *colours])[-_MAX_KEPT:]
        unfinished = _UNFINISHED.search(data, max(len(data) - _LONGEST, 0)) if escapes else None
        self._unfinished = unfinished[0] if unfinished else b""

    def resized(self) -> None:
        """The size has changed: there are no margins any more."""
        self._modes = _last_of_each([*self._modes, b"\x1b[r"])

    def anew(self) -> bytes:
        """Sequences for a terminal that has shown what came before: all of it set, and clear.

        Clear, since what follows is a picture of its own, not a mixture. What was incomplete at the
        end of the output is forgotten.
        """
        return b"".join((_CANCEL, *self._modes, self._shift, _CLEAR, *self._colours))


def colours_of(data: bytes) -> bytes:
    """SGR sequences with the effect of all those in ``data``."""
    return b"".join(_colours(data, ())[1])


def _colours(data: bytes, resets: Iterable[bytes]) -> tuple[bool, list[bytes]]:
    """Whether the colours are reset, also by ``resets``, and what sets them then, each once."""
    start = max(data.rfind(reset) for reset in (*_SGR_RESETS, *resets))
    found = _SGR.findall(data, max(start, 0))
    return start >= 0, _last_of_each(found)


def _last_of_each(sequences: list[bytes]) -> list[bytes]:
    return list(dict.fromkeys(reversed(sequences)))[::-1]


def _last_titles(sequences: list[bytes]) -> list[bytes]:
    """Of titles the last of each kind, and everything else."""
    titles = {sequence[:3]: sequence for sequence in sequences if sequence[1:2] == b"]"}
    kept = frozenset(titles.values())
    return [each for each in sequences if each[1:2] != b"]" or each in kept]


def _last_shift(data: bytes, others: Iterable[bytes]) -> bytes:
    """What selects the character set last: SI, SO, or one of ``others``; empty if nothing does."""
    at, shift = max((data.rfind(shift), shift) for shift in (*_SHIFTS, *others))
    if at < 0:
        return b""
    return _SHIFTS[0] if shift in _RESETS else shift
