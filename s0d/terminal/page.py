"""The rows of one screen, primary or alternate, and where they go when its height changes."""

from __future__ import annotations

from collections import deque

from s0d.terminal.cells import Line, Row, line_of, row_of


class Page:
    """The rows of the primary or the alternate screen, and what resizing has taken from them."""

    def __init__(self, rows: int) -> None:
        self.rows = [Row() for _ in range(rows)]
        self.above: list[Row] = []
        """Rows that a lower screen pushed off the top, where there is no scrollback for them."""
        self.below: list[Row] = []
        """Rows beneath the cursor that a lower screen cut off."""

    def settle(self) -> None:
        """Let go of what resizing has taken: the screen has moved on."""
        if self.above or self.below:
            self.above.clear()
            self.below.clear()

    def fit(self, rows: int, cursor: int, columns: int, history: deque[Line] | None) -> int:
        """Have so many rows, with the one of the cursor among them.

        Rows that leave at the top go to ``history``, as lines of ``columns`` columns, or are put
        aside when there is none. Returns by how many rows the contents have moved down.
        """
        excess = len(self.rows) - rows
        if excess <= 0:
            return self._grow(-excess, history)
        cut = min(excess, len(self.rows) - 1 - cursor)
        if cut:
            self.below[:0] = self.rows[-cut:]
            del self.rows[-cut:]
        gone = self.rows[: excess - cut]
        if history is None:
            self.above.extend(gone)
        else:
            history.extend([line_of(row, columns) for row in gone])
        del self.rows[: excess - cut]
        return -len(gone)

    def _grow(self, missing: int, history: deque[Line] | None) -> int:
        back = self.below[:missing]
        del self.below[:missing]
        self.rows.extend(back)
        missing -= len(back)
        moved = 0
        while moved < missing and (history or self.above):
            self.rows.insert(0, row_of(history.pop()) if history else self.above.pop())
            moved += 1
        self.rows.extend([Row() for _ in range(missing - moved)])
        return moved
