"""Drawing text on the grid: wrapping, wide characters, combining marks, joined emoji."""

from __future__ import annotations

from itertools import groupby

from pyte import modes as mo

from s0d.terminal.cells import MAX_CLUSTER, Cell, Row
from s0d.terminal.grid import Grid
from s0d.terminal.width import WIDTHS, ZWJ, are_usual


class Canvas(Grid):
    """A grid that can be drawn on at the cursor."""

    def put(self, text: str) -> None:
        """Put text at the cursor and move it on: no controls, any other characters."""
        self.last_drawn = text
        if text.isascii() or are_usual(text):
            self._put_separate(text)
            return
        for width, group in groupby(text, WIDTHS.__getitem__):
            if width == 1:
                self._put_separate("".join(group))
            elif width == 0:
                for char in group:
                    self._combine(char)
            else:
                for char in group:
                    if not (self.buffer[self.cursor.y].wide and self._join(char)):
                        self._put_wide(char)

    def _put_separate(self, text: str) -> None:
        """Put characters of one column each, of which only the first may join what is there."""
        cursor, row = self.cursor, self.buffer[self.cursor.y]
        if row.wide and self._join(text[0]):
            text = text[1:]
            if not text:
                return
        stop = cursor.x + len(text)
        if stop < self.columns and mo.IRM not in self.mode:
            row.write(cursor.x, text, self.pen)
            cursor.x = stop
        else:
            self._put_narrow(text)

    def _put_narrow(self, text: str) -> None:
        """Put characters of one column each, which join nothing."""
        cursor = self.cursor
        stop = cursor.x + len(text)
        wraps = mo.DECAWM in self.mode
        if not wraps and stop > self.columns:
            # Without autowrap the last column is overwritten again and again.
            text = text[: max(self.columns - 1 - cursor.x, 0)] + text[-1]
        at = 0
        while at < len(text):
            if cursor.x >= self.columns:
                self._wrap()
            piece = text[at : at + self.columns - cursor.x]
            if mo.IRM in self.mode:
                self.insert_characters(len(piece))
            self.buffer[cursor.y].write(cursor.x, piece, self.pen)
            cursor.x += len(piece)
            at += len(piece)
        if not wraps and cursor.x >= self.columns:
            cursor.x = self.columns - 1

    def _put_wide(self, char: str) -> None:
        """Put a character of two columns; one that does not fit the line goes to the next."""
        cursor, wraps = self.cursor, mo.DECAWM in self.mode
        if cursor.x > self.columns - 2:
            # Where it cannot wrap, or never fits, it is dropped, as in tmux.
            if not wraps or self.columns < 2:
                return
            self._wrap()
        if mo.IRM in self.mode:
            self.insert_characters(2)
        x, row = cursor.x, self.cells(cursor.y)
        row.part(x)
        row.part(x + 2)
        row.wide = True
        row[x], row[x + 1] = self.pen[char], self.pen[""]
        cursor.x = x + 2
        if not wraps and cursor.x >= self.columns:
            cursor.x = self.columns - 1

    def _wrap(self) -> None:
        self.cursor.x = 0
        self.index()

    def _base(self) -> tuple[Row, int] | None:
        """Where the character before the cursor is, if there is one in this row."""
        x, row = self.cursor.x - 1, self.cells(self.cursor.y)
        if x > 0 and row[x].data == "":
            x -= 1
        return (row, x) if x >= 0 else None

    def _combine(self, char: str) -> bool:
        """Add a mark to the character before the cursor; say whether there was room for it."""
        place = self._base()
        if place is None:
            return False
        row, x = place
        cell = row[x]
        if len(cell.data) >= MAX_CLUSTER:
            return False
        row[x] = Cell(cell.data + char, cell.style)
        row.wide = True
        return True

    def _join(self, char: str) -> bool:
        """Join an emoji to the one before it where a zero-width joiner asks for it, as tmux does.

        xterm draws the parts side by side. A joiner after ASCII joins nothing: it is a stray.
        """
        if char.isascii() or (place := self._base()) is None:
            return False
        base = place[0][place[1]].data
        return base[-1:] == ZWJ and not base[0].isascii() and self._combine(char)

    def repeat(self, count: int) -> None:
        """REP (ECMA-48 8.3.103): the last character again, if nothing came after it."""
        if self.last_drawn:
            self.put(self.last_drawn[-1] * min(count, self.lines * self.columns))
