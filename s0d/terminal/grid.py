"""The grid of cells: erasing, inserting, scrolling and moving about.

``Grid`` is pyte's screen with every operation replaced that raises, is slow, or shows something
else than xterm does; what is not here is pyte's. Columns and rows count from 0, as in pyte. A
cursor in column ``columns`` has just filled the last one: the next character wraps.
"""

from __future__ import annotations

from collections import deque
from typing import Any, Final

import pyte
from pyte import modes as mo
from pyte.screens import Cursor, Margins

from s0d.terminal.cells import Cell, Line, Pen, Row, line_of, pen_for
from s0d.terminal.page import Page
from s0d.terminal.style import PLAIN

MAX_ROWS: Final = 512
MAX_COLS: Final = 1024

_DEFAULT_TABS: Final = frozenset(range(8, MAX_COLS, 8))


class Grid(pyte.Screen):
    """One screen of ``lines`` rows and ``columns`` columns, with ``scrollback`` lines above it."""

    buffer: list[Row]  # type: ignore[assignment]  # pyte has a dict of rows: slower to scroll
    scrolls_back: bool

    def __init__(self, rows: int, cols: int, scrollback: int) -> None:
        self.history: deque[Line] = deque(maxlen=scrollback)
        super().__init__(cols, rows)

    def reset(self) -> None:
        """Blank rows, home cursor, default pen, margins, tab stops, modes and titles."""
        self.mode = {mo.DECAWM, mo.DECTCEM}
        self.margins = None
        self.title = self.icon_name = ""
        self.tabstops = set(_DEFAULT_TABS)
        self.cursor = Cursor(0, 0)
        self.pen: Pen = pen_for(PLAIN)
        self.last_drawn = ""
        self.page = Page(self.lines)
        self.buffer = self.page.rows
        self.scrolls_back = True
        self.history.clear()

    # Erasing and editing

    def cells(self, y: int) -> Row:
        """A row whose cells are to be read or changed one by one."""
        row = self.buffer[y]
        if row.runs:
            row.spread()
        row.part(self.columns)  # half of a wide character that a resize has hidden
        return row

    def erase_in_display(self, how: int = 0, *_: Any, **__: Any) -> None:
        """ED: 0 from the cursor on, 1 up to the cursor, 2 all, 3 the scrollback (xterm)."""
        if how == 0:
            wiped = self.buffer[self.cursor.y + 1 :]
        elif how == 1:
            wiped = self.buffer[: self.cursor.y]
        elif how == 2:
            wiped = self.buffer
            self.page.settle()
        else:
            if how == 3:
                self.history.clear()
            return
        for row in wiped:
            row.wipe(self.pen.blank)
        self.erase_in_line(how)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """EL: 0 from the cursor on, 1 up to the cursor, 2 all.

        With the wrap pending, 0 erases nothing, as in VTE and tmux: xterm blanks the last column,
        which would eat a character of each full line that ``grep --color`` prints.
        """
        if how == 0:
            self._erase(self.cursor.x, self.columns)
        elif how == 1:
            self._erase(0, self.cursor.x + 1)
        elif how == 2:
            self._erase(0, self.columns)

    def erase_characters(self, count: int | None = None) -> None:
        """ECH: blank ``count`` columns from the cursor on."""
        self._erase(self.cursor.x, min(self.cursor.x + (count or 1), self.columns))

    def _erase(self, start: int, stop: int) -> None:
        if start < self.columns:
            row = self.buffer[self.cursor.y]
            row.erase(start, min(stop, self.columns), self.columns, self.pen.blank)

    def insert_characters(self, count: int | None = None) -> None:
        """ICH: shift the rest of the line to the right by ``count`` columns."""
        self._shift(self.cursor.x, min(count or 1, self.columns - self.cursor.x))

    def delete_characters(self, count: int | None = None) -> None:
        """DCH: shift the rest of the line to the left by ``count`` columns."""
        self._shift(self.cursor.x, -min(count or 1, self.columns - self.cursor.x))

    def _shift(self, x: int, by: int) -> None:
        if by == 0:
            return
        row, columns = self.cells(self.cursor.y), self.columns
        source = x if by > 0 else x - by
        kept = columns - x - abs(by)
        row.part(x)
        row.part(source)
        row.part(source + kept)
        cells = [row[column] for column in range(source, source + kept)]
        target = source + by
        row.update(zip(range(target, target + kept), cells, strict=True))
        gap = x if by > 0 else columns + by
        # Not erase(): a gap at the end must not reach for what a resize has hidden.
        row.update(dict.fromkeys(range(gap, gap + abs(by)), self.pen.blank))

    def insert_lines(self, count: int | None = None) -> None:
        """IL: blank lines at the cursor, the rest of the region moves down; column 0."""
        top, bottom = self.region()
        if top <= self.cursor.y <= bottom:
            self.scroll_down(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def delete_lines(self, count: int | None = None) -> None:
        """DL: lines at the cursor go, the rest of the region moves up; column 0."""
        top, bottom = self.region()
        if top <= self.cursor.y <= bottom:
            self._remove(self.cursor.y, bottom, min(count or 1, bottom - self.cursor.y + 1))
            self.cursor.x = 0

    def alignment_display(self) -> None:
        """DECALN: the screen full of E, no margins, cursor home."""
        self.margins = None
        self.page.settle()
        for row in self.buffer:
            row.wipe(Cell("E"))
        self.cursor.x = self.cursor.y = 0

    # Scrolling

    def region(self) -> Margins:
        """First and last row that scroll."""
        return self.margins or Margins(0, self.lines - 1)

    def scroll_up(self, top: int, bottom: int, count: int) -> None:
        """Move the rows from ``top`` to ``bottom`` up; what leaves the screen's top is kept.

        As in xterm a region that starts at the first row feeds the scrollback, wherever it ends.
        """
        count = min(count, bottom - top + 1)
        if top == 0 and self.scrolls_back:
            for row in self.buffer[:count]:
                self.history.append(line_of(row, self.columns))
        self._remove(top, bottom, count)

    def _remove(self, top: int, bottom: int, count: int) -> None:
        self.page.settle()
        for _ in range(count):
            row = self.buffer.pop(top)
            row.wipe(self.pen.blank)
            self.buffer.insert(bottom, row)

    def scroll_down(self, top: int, bottom: int, count: int) -> None:
        """Move the rows from ``top`` to ``bottom`` down; what leaves at the bottom is lost."""
        self.page.settle()
        for _ in range(min(count, bottom - top + 1)):
            row = self.buffer.pop(bottom)
            row.wipe(self.pen.blank)
            self.buffer.insert(top, row)

    def index(self) -> None:
        """IND: down a row; at the bottom margin the region scrolls."""
        # By far the most frequent of all: the usual case without a call more than it needs.
        margins, cursor = self.margins, self.cursor
        if cursor.y == (margins.bottom if margins else self.lines - 1):
            if margins or not self.scrolls_back:
                self.scroll_up(*self.region(), 1)
                return
            self.page.settle()
            row = self.buffer.pop(0)
            self.history.append(line_of(row, self.columns))
            row.wipe(self.pen.blank)
            self.buffer.append(row)
        elif cursor.y < self.lines - 1:
            cursor.y += 1

    def reverse_index(self) -> None:
        """RI: up a row; at the top margin the region scrolls down."""
        top, bottom = self.region()
        if self.cursor.y == top:
            self.scroll_down(top, bottom, 1)
        elif self.cursor.y > 0:
            self.cursor.y -= 1

    # Moving

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """DECSTBM (1-based; 0 is the edge), then home. A region below two rows is ignored."""
        first = max(top or 1, 1) - 1
        last = min(bottom or self.lines, self.lines) - 1
        if first < last:
            whole = first == 0 and last == self.lines - 1
            self.margins = None if whole else Margins(first, last)
            self.cursor_position()

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """CUP (1-based). In origin mode rows count from the top margin and stay in the region."""
        self.cursor_to_line(line)
        self.cursor_to_column(column)

    def cursor_to_line(self, line: int | None = None) -> None:
        """VPA (1-based), in origin mode as in ``cursor_position``. A pending wrap is off."""
        top, bottom = self.region() if mo.DECOM in self.mode else (0, self.lines - 1)
        self.cursor.y = min(top + (line or 1) - 1, bottom)
        self.ensure_hbounds()

    def cursor_up(self, count: int | None = None) -> None:
        """CUU: stops at the top margin, or at the edge when it is already above the margin."""
        top = self.region().top
        limit = top if self.cursor.y >= top else 0
        self.cursor.y = max(self.cursor.y - (count or 1), limit)
        self.ensure_hbounds()

    def cursor_down(self, count: int | None = None) -> None:
        """CUD: stops at the bottom margin, or at the edge when it is already below the margin."""
        bottom = self.region().bottom
        limit = bottom if self.cursor.y <= bottom else self.lines - 1
        self.cursor.y = min(self.cursor.y + (count or 1), limit)
        self.ensure_hbounds()

    def tab(self) -> None:
        """HT: to the next stop or the last column. A pending wrap stays, as in xterm and tmux."""
        self.tab_forward(1)

    def tab_forward(self, count: int) -> None:
        """CHT: ``count`` stops on, or to the last column."""
        x, last = self.cursor.x, self.columns - 1
        for _ in range(min(count, self.columns)):
            if x >= last:
                return
            x += 1
            while x < last and x not in self.tabstops:
                x += 1
        self.cursor.x = x

    def tab_backward(self, count: int) -> None:
        """CBT: ``count`` stops back, or to column 0."""
        x = min(self.cursor.x, self.columns - 1)
        for _ in range(min(count, self.columns)):
            x = max(x - 1, 0)
            while x > 0 and x not in self.tabstops:
                x -= 1
        self.cursor.x = x

    def set_tab_stop(self) -> None:
        """HTS: a stop at the cursor's column."""
        self.tabstops.add(min(self.cursor.x, self.columns - 1))

    def clear_tab_stop(self, how: int = 0) -> None:
        """TBC: 0 the stop at the cursor's column, 3 all."""
        if how == 0:
            self.tabstops.discard(min(self.cursor.x, self.columns - 1))
        elif how == 3:
            self.tabstops.clear()

    def default_tab_stops(self) -> None:
        """DECST8C: a stop every eight columns."""
        self.tabstops = set(_DEFAULT_TABS)
