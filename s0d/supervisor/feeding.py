"""Catching a screen up with its terminal's output, leaving out what cannot show any more.

Pure: bytes in, a `Screen` fed, a yield wherever others shall run.  Output is taken piece by piece:

- what can be skipped (a flood of lines) is held back unfed and skimmed again with the next piece,
  so that of any number of pieces only the last screens of lines are ever drawn;
- what cannot is fed while it lies within the last `LIMIT` bytes, and else cut down to the modes,
  titles and colours that it set; then the screen says `history_cut`.

The unit of blocking is one piece to skim (128 KiB) or one slice to draw (256 bytes): a millisecond.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from s0d.terminal import Screen

LIMIT: Final = 512 << 10
"""Bytes of cursor movement and the like that are drawn at most: about a second of work."""
PIECE: Final = 128 << 10
"""Bytes skimmed at once."""
_CHUNK: Final = 16 << 10
"""Bytes cut at once: what is looked for in them takes longer than skimming."""
_SLICE: Final = 256
"""Bytes drawn at once: half a millisecond of what takes most a byte, a cursor movement each few."""
_HELD: Final = LIMIT
"""Bytes held back at most: a scrollback and two screens of lines of 500 bytes."""
_REST: Final = 512
"""Bytes kept of a piece that is cut: more than a sequence that its end may have split."""


class Feeder:
    """Feeds `screen`; every iterator must be used up before the next call."""

    def __init__(self, screen: Screen) -> None:
        self.screen = screen
        self._held = b""
        self._parts: list[bytes] = []
        self._size = 0

    def begin(self, past: bytes, rows: int, cols: int) -> Iterator[None]:
        """Go on with a clear screen of this size, after `past` in place of what was left out."""
        self.screen.resize(rows, cols)
        yield from self.screen.catch_up(past, slice_bytes=_SLICE)

    def take(self, data: bytes, following: int) -> Iterator[None]:
        """The next output, of which `following` bytes are still to come before `flush`."""
        self._parts.append(data)
        self._size += len(data)
        # Joined first: a thousand lines in an event each are no more work than in one.
        if self._size >= PIECE:
            yield from self._take_parts(following)

    def flush(self, following: int = 0) -> Iterator[None]:
        """Feed what is held back, so that the screen shows all that was taken."""
        yield from self._take_parts(following)
        held, self._held = self._held, b""
        yield from self.screen.catch_up(held, slice_bytes=_SLICE)

    def resize(self, rows: int, cols: int, following: int) -> Iterator[None]:
        """Change the size, after all that was taken before; `following` as for `take`."""
        yield from self.flush(following)
        self.screen.resize(rows, cols)

    def _take_parts(self, following: int) -> Iterator[None]:
        data = b"".join(self._parts)
        self._parts.clear()
        self._size = 0
        following += len(data)
        for start in range(0, len(data), PIECE):
            piece = data[start : start + PIECE]
            following -= len(piece)
            yield from self._take(piece, following)

    def _take(self, piece: bytes, following: int) -> Iterator[None]:
        left = self.screen.skim(self._held + piece)
        yield
        if len(left) <= _HELD:
            self._held = left
            return
        self._held = b""
        following += len(left)
        for start in range(0, len(left), _CHUNK):
            chunk = left[start : start + _CHUNK]
            following -= len(chunk)
            yield from self._feed(chunk, max(LIMIT - following, _REST))

    def _feed(self, chunk: bytes, limit: int) -> Iterator[None]:
        if len(chunk) > limit:
            chunk = self.screen.skim(chunk, limit)
            yield
        yield from self.screen.catch_up(chunk, slice_bytes=_SLICE)
        yield
