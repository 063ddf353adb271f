"""How many columns a character takes.

The widths are those of wcwidth, character by character, as xterm, tmux and nearly every program
that draws have them: a program positions its cursor by them, so a screen that disagreed would show
something else than the program believes. In particular a variation selector widens nothing.
"""

from __future__ import annotations

import re
from typing import Final

from wcwidth import wcwidth

ZWJ: Final = "\u200d"
_MAX_KNOWN: Final = 16384


class _Widths(dict[str, int]):
    """Widths by character, looked up once; forgotten all at once when there are too many."""

    def __missing__(self, char: str) -> int:
        if len(self) >= _MAX_KNOWN:
            self.clear()
        # Non-characters that reach this point have no picture: they count as combining (and a
        # combining mark that has nothing before it is not drawn).
        width = self[char] = max(wcwidth(char), 0)
        return width


WIDTHS: Final = _Widths()
"""Columns (0, 1 or 2) of each character, filled on demand."""

are_usual: Final = re.compile(
    "[ -~\xa0-\xac\xae-\u02ff\u0370-\u0482\u048a-\u058a\u05d0-\u05ea\u0620-\u064a\u0671-\u06d5"
    "\u2500-\u25fc\u2800-\u28ff\ufffd]*"
).fullmatch
"""Whether all characters are of the many that take one column each: letters of the alphabets from
Latin to Arabic, lines and blocks, Braille, and what stands for invalid UTF-8. Found out at once,
where ``WIDTHS`` needs a look-up a character; no is always a right answer."""
