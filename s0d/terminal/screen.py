"""The face of the layer: a screen that eats bytes and shows what a person would see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from s0d.terminal import skim as skimming
from s0d.terminal import snapshot as snapshots
from s0d.terminal.emulator import REVERSE_WRAP, Emulator
from s0d.terminal.grid import MAX_COLS, MAX_ROWS
from s0d.terminal.parser import Parser
from s0d.terminal.repaint import repaint
from s0d.terminal.snapshot import Snapshot

MAX_SCROLLBACK: Final = 10_000

_USUAL_COLS: Final = 80
_LEAST_SLICE: Final = 64


class Screen:
    """A terminal of ``rows`` by ``cols`` with up to ``scrollback`` lines above it.

    Sizes are clamped to 1 … ``MAX_ROWS`` (512), 1 … ``MAX_COLS`` (1024) and 0 … ``MAX_SCROLLBACK``
    (10,000): what a terminal may be told (65,535 each) is more than a picture of it is worth, and
    a control function may touch every cell. Not thread-safe; use one from one thread at a time.
    """

    def __init__(self, rows: int, cols: int, scrollback: int = 1000) -> None:
        self._emulator = Emulator(
            _clamp(rows, 1, MAX_ROWS),
            _clamp(cols, 1, MAX_COLS),
            _clamp(scrollback, 0, MAX_SCROLLBACK),
        )
        self._parser = Parser(self._emulator)

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return self._emulator.lines, self._emulator.columns

    @property
    def history_cut(self) -> bool:
        """Whether ``skim`` or ``catch_up`` left out output that would still show (until RIS)."""
        return self._emulator.history_cut

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream: any bytes, split anywhere. Never raises."""
        self._parser.feed(data)

    def feed_slices(self, data: bytes, slice_bytes: int = 4096) -> Iterator[None]:
        """``feed`` in slices, with a yield between them for the caller to let others run.

        ``slice_bytes`` is for a line of 80 columns or fewer: what a byte can cost grows with the
        columns, so wider screens get smaller slices. The last slice is followed by no yield.
        """
        size = max(min(slice_bytes, slice_bytes * _USUAL_COLS // self.size[1]), _LEAST_SLICE)
        for start in range(0, len(data), size):
            if start:
                yield
            self.feed(data[start : start + size])

    def skim(self, data: bytes, limit: int | None = None) -> bytes:
        """What is left to feed of ``data`` for the same screen and scrollback.

        Left out is what surely scrolls out of the scrollback too: lines of text with nothing but
        colours and erasures in them, in the primary screen without margins. What the colours leave
        behind is carried over. When ``limit`` is given and more than so many bytes are left, the
        oldest of them are left out too, up to a safe point: then modes, titles and colours are
        still right, the scrollback starts anew, and ``history_cut`` is True.

        Feeds nothing, but counts on the result being fed next.
        """
        rows, _ = self.size
        lines = 2 * rows + (self._emulator.history.maxlen or 0)
        left = skimming.skip_lines(data, lines) if self._skippable else data
        if limit is None or len(left) <= limit:
            return left
        self._emulator.history_cut = True
        return skimming.cut(left, limit)

    def catch_up(
        self, data: bytes, limit: int | None = None, slice_bytes: int = 4096
    ) -> Iterator[None]:
        """``skim`` and feed in slices, looking again for what to skip once the start is fed.

        For the blocks of a journal one after the other: a block that begins in the middle of a
        sequence, or with leaving the alternate screen, is skimmed all the same.
        """
        if not self._skippable:
            start = skimming.first_line_end(data)
            yield from self.feed_slices(data[:start], slice_bytes)
            data = data[start:]
        yield from self.feed_slices(self.skim(data, limit), slice_bytes)

    @property
    def _skippable(self) -> bool:
        screen = self._emulator
        plain = screen.margins is None and REVERSE_WRAP not in screen.mode
        return self._parser.at_rest and screen.scrolls_back and plain

    def resize(self, rows: int, cols: int) -> None:
        """Change the size (clamped as at the start); see ``Emulator.resize`` for what moves."""
        self._emulator.resize(_clamp(rows, 1, MAX_ROWS), _clamp(cols, 1, MAX_COLS))

    def snapshot(self, scrollback: int = 0) -> Snapshot:
        """The screen as it is now, with up to ``scrollback`` of the lines above it."""
        return snapshots.take(self._emulator, scrollback)

    def text(self, scrollback: int = 0) -> str:
        """``snapshot(scrollback).text()``."""
        return self.snapshot(scrollback).text()

    def ansi(self, scrollback: int = 0) -> str:
        """``snapshot(scrollback).ansi()``."""
        return self.snapshot(scrollback).ansi()

    def html(self, scrollback: int = 0) -> str:
        """``snapshot(scrollback).html()``."""
        return self.snapshot(scrollback).html()

    def repaint(self, scrollback: int = 0) -> bytes:
        """Bytes that bring a fresh terminal of this size to this state (see ``repaint``).

        They end with the bytes of the sequence or character that is incomplete, so that the stream
        can go on right behind them. With ``scrollback``, so many lines are put above the screen.
        """
        return repaint(self._emulator, scrollback).encode() + self._parser.pending()


def _clamp(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
