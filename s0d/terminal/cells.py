"""Cells, rows of cells, and the compact lines that rows become when they leave the screen."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby, repeat
from typing import Final, NamedTuple

from pyte.screens import StaticDefaultDict

from s0d.terminal.style import PLAIN, Style

MAX_CLUSTER: Final = 12
"""Most code points in a cell: a base and its combining marks. Further marks are dropped."""

_MAX_PEN: Final = 1024


class Cell(NamedTuple):
    """One column: its text, empty for the right half of a wide character, and its style."""

    data: str
    style: Style = PLAIN


BLANK: Final = Cell(" ")


class Pen(dict[str, Cell]):
    """The cells of one style by character, made on demand: equal cells are mostly one object."""

    __slots__ = ("blank", "style")

    def __init__(self, style: Style) -> None:
        self.style = style
        # Erasing keeps the background and nothing else (terminfo's "bce", as in xterm).
        self.blank = BLANK if style.bg < 0 else Cell(" ", Style(bg=style.bg))

    def __missing__(self, char: str) -> Cell:
        if len(self) >= _MAX_PEN:
            self.clear()
        cell = self[char] = Cell(char, self.style)
        return cell


pen_for = lru_cache(maxsize=1024)(Pen)
_PLAIN_PEN: Final = Pen(PLAIN)


class Row(StaticDefaultDict[int, Cell]):
    """A line on the screen: cells by column, ``default`` where nothing was written.

    Most lines are written once, from left to right, and leave: such a row keeps its text as it came
    (``runs``, from column 0 on) and has no cells. ``spread`` makes cells of it, for who needs them.
    Cells beyond the screen's last column are what a narrower resize has hidden.
    """

    __slots__ = ("length", "runs", "wide")

    def __init__(self, default: Cell = BLANK) -> None:
        super().__init__(default)
        self.runs: list[tuple[str, Pen]] = []
        self.length = 0
        """Columns in ``runs``."""
        self.wide = False
        """Whether a cell may be anything else than one code point in one column."""

    def write(self, x: int, text: str, pen: Pen) -> None:
        """Put characters of one column each at column ``x``."""
        stop, runs = x + len(text), self.runs
        if not self and self.default is BLANK:
            if x > self.length:
                self.write(self.length, " " * (x - self.length), _PLAIN_PEN)
            if x == self.length:
                if runs and runs[-1][1].style == pen.style:
                    text = runs.pop()[0] + text
                runs.append((text, pen))
                self.length = stop
                return
            if len(runs) == 1 and runs[0][1].style == pen.style:
                old = runs[0][0]
                runs[0] = old[:x] + text + old[stop:], pen
                self.length = max(self.length, stop)
                return
        if runs:
            self.spread()
        if self.wide:
            self.part(x)
            self.part(stop)
        self.update(zip(range(x, stop), map(pen.__getitem__, text), strict=True))

    def spread(self) -> None:
        """Make cells of ``runs``."""
        x = 0
        for text, pen in self.runs:
            self.update(zip(range(x, x + len(text)), map(pen.__getitem__, text), strict=True))
            x += len(text)
        self.runs.clear()
        self.length = 0

    def wipe(self, blank: Cell) -> None:
        """Make the whole row ``blank``, at no cost a column."""
        self.clear()
        self.runs.clear()
        self.length = 0
        self.default = blank
        self.wide = False

    def part(self, x: int) -> None:
        """See that no wide character crosses from column ``x - 1`` to ``x``: blank its halves."""
        if self.wide and x > 0 and (cell := self.get(x)) and not cell.data:
            space = Cell(" ", Style(bg=cell.style.bg))
            self[x - 1] = self[x] = space

    def erase(self, start: int, stop: int, columns: int, blank: Cell) -> None:
        """Blank the columns from ``start`` to before ``stop`` of a screen ``columns`` wide."""
        if start <= 0 and stop >= columns:
            self.wipe(blank)
            return
        if self.runs:
            if start >= self.length and blank is BLANK:
                return
            self.spread()
        self.part(start)
        self.part(stop)
        if stop >= columns:
            self._forget_hidden(columns)
        if blank != self.default:
            self.update(dict.fromkeys(range(start, stop), blank))
        elif len(self) < stop - start:
            for x in [x for x in self if start <= x < stop]:
                del self[x]
        else:
            for x in range(start, stop):
                self.pop(x, None)

    def _forget_hidden(self, columns: int) -> None:
        if self and max(self) >= columns:
            for x in [x for x in self if x >= columns]:
                del self[x]

    def cells(self, columns: int) -> list[Cell]:
        """The cells of the first ``columns`` columns, without default blanks at the end."""
        self.spread()
        stop = columns
        if self.default == BLANK:
            stop = min(max(self, default=-1) + 1, columns)
        cells = list(map(self.get, range(stop), repeat(self.default)))
        if stop == columns and self.wide and self[columns].data == "":
            cells[-1] = Cell(" ", cells[-1].style)  # its right half is hidden by a resize
        while cells and cells[-1] == BLANK:
            cells.pop()
        return cells


class Line(NamedTuple):
    """A row at rest: stretches of text of one style, without trailing default blanks.

    ``shape`` is empty when every cell is one code point; else it has, a byte a cell, the code
    points in it (0 for the right half of a wide character), so that no cell is lost or joined.
    """

    runs: tuple[tuple[str, Style], ...] = ()
    shape: bytes = b""


_EMPTY: Final = Line()


def line_of(row: Row, columns: int) -> Line:
    """The compact form of the first ``columns`` columns of ``row``."""
    if row.runs and row.length <= columns:
        return _line_of_runs(row)
    cells = row.cells(columns)
    if not cells:
        return _EMPTY
    texts, styles = zip(*cells, strict=True)
    runs = []
    at = 0
    for style, group in groupby(styles):
        stop = at + len(list(group))
        runs.append(("".join(texts[at:stop]), style))
        at = stop
    # Without marks and wide characters one code point is one cell.
    return Line(tuple(runs), bytes(map(len, texts)) if row.wide else b"")


def _line_of_runs(row: Row) -> Line:
    runs = [(text, pen.style) for text, pen in row.runs]
    text, style = runs[-1]
    if style == PLAIN and text[-1] == " ":
        runs.pop()
        if text := text.rstrip(" "):
            runs.append((text, style))
    return Line(tuple(runs))


def cells_of(line: Line) -> list[Cell]:
    """The cells that ``line`` was made of."""
    if not line.shape:
        return [Cell(char, style) for text, style in line.runs for char in text]
    cells: list[Cell] = []
    for text, style in line.runs:
        at = 0
        while at < len(text):
            length = line.shape[len(cells)]
            cells.append(Cell(text[at : at + length], style))
            at += length
            if line.shape[len(cells) : len(cells) + 1] == b"\0":
                cells.append(Cell("", style))
    return cells


def row_of(line: Line) -> Row:
    """The row that ``line`` was made of."""
    row = Row()
    row.update(enumerate(cells_of(line)))
    row.wide = bool(line.shape)
    return row
