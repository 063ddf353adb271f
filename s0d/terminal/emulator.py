"""The terminal proper: modes, character sets, saved cursors, two screens, resizing.

Sources: DEC STD 070, xterm's ctlseqs page ("ctlseqs" below), ECMA-48.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from pyte import modes as mo

from s0d.terminal import control
from s0d.terminal.canvas import Canvas
from s0d.terminal.cells import Pen, pen_for
from s0d.terminal.page import Page
from s0d.terminal.style import PLAIN, Style, apply_sgr

DECCKM: Final = 1 << 5
BLINK: Final = 12 << 5
REVERSE_WRAP: Final = 45 << 5
FOCUS: Final = 1004 << 5
ALTERNATE_SCROLL: Final = 1007 << 5
BRACKETED_PASTE: Final = 2004 << 5

KEPT_MODES: Final = frozenset(
    {
        *(mo.IRM, mo.LNM, DECCKM, mo.DECSCNM, mo.DECOM, mo.DECAWM, BLINK, mo.DECTCEM),
        *(REVERSE_WRAP, FOCUS, ALTERNATE_SCROLL, BRACKETED_PASTE),
    }
)
"""Modes that are on or off, numbered as pyte does: private ones shifted by five bits.

What is not here (and has no handler below) changes nothing that a screen shows. DECCOLM is ignored
as in xterm, which wants mode 40 first.
"""

MOUSE: Final = frozenset({9, 1000, 1001, 1002, 1003})
MOUSE_ENCODINGS: Final = frozenset({1005, 1006, 1015, 1016})

_GRAPHICS: Final = dict(zip(range(0x5F, 0x7F), " ◆▒␉␌␍␊°±␤␋┘┐┌└┼⎺⎻─⎼⎽├┤┴┬│≤≥π≠£·", strict=True))
"""DEC Special Graphics, 0x5F to 0x7E (VT220 Programmer Reference, table 2-4)."""

_TABLES: Final[dict[str, dict[int, str]]] = {"0": _GRAPHICS, "A": {0x23: "£"}}
"""Character sets by their final that differ from ASCII: line drawing and British."""


_MAX_TITLES: Final = 10
"""Titles kept by XTWINOPS, as in xterm."""


@lru_cache(maxsize=4096)
def _pen_after(style: Style, params: str) -> Pen:
    return pen_for(apply_sgr(style, params))


@dataclass(frozen=True, slots=True)
class Saved:
    """What DECSC saves."""

    x: int = 0
    y: int = 0
    style: Style = PLAIN
    sets: tuple[str, ...] = ("B", "B", "B", "B")
    locked: int = 0
    origin: bool = False


class Emulator(Canvas):
    """A screen that obeys control functions; a ``parser.Sink``."""

    sets: tuple[str, ...]
    """Finals of the sets designated as G0 to G3."""
    _single: int | None
    _table: dict[int, str] | None

    def __init__(self, rows: int, cols: int, scrollback: int) -> None:
        self.history_cut = False
        super().__init__(rows, cols, scrollback)

    def reset(self) -> None:
        """RIS: everything as in a new terminal, the scrollback included (as in xterm)."""
        super().reset()
        self.history_cut = False
        self.primary = self.page
        self.alternate = Page(self.lines)
        self.saved: dict[bool, Saved] = {}
        """The saved cursor of the primary (False) and of the alternate screen (True)."""
        self.titles: list[tuple[str | None, str | None]] = []
        """What was pushed: title and icon's name, None for the one that was not."""
        self.keypad = False
        self.mouse = 0
        self.mouse_encoding = 0
        self.cursor_style = 0
        self.modify_other_keys = 0
        self._designate(Saved())

    def soft_reset(self) -> None:
        """DECSTR (ctlseqs; VT510 manual, table 5-12). Autowrap goes on, as in xterm."""
        self.mode -= {mo.IRM, mo.DECOM, DECCKM}
        self.mode |= {mo.DECTCEM, mo.DECAWM}
        self.cursor.hidden = self.keypad = False
        self.margins = None
        self.pen = pen_for(PLAIN)
        self.saved.pop(self.on_alternate, None)
        self._designate(Saved())

    # Tokens

    def control(self, char: str) -> None:
        """Execute a C0 control."""
        self.last_drawn = ""
        if function := control.C0.get(char):
            function(self)

    def newline(self, carriage_return: bool) -> None:
        """LF, after CR or not."""
        self.last_drawn = ""
        if carriage_return:
            self.cursor.x = 0
        self.linefeed()

    def linefeed(self) -> None:
        """LF, VT, FF: IND, and CR in newline mode. A wrap that was pending is off."""
        if mo.LNM in self.mode:
            self.cursor.x = 0
        elif self.cursor.x >= self.columns:
            self.cursor.x = self.columns - 1
        self.index()

    def escape(self, sequence: str) -> None:
        """Execute an escape sequence, given without its ESC."""
        self.last_drawn = ""
        if function := control.ESCAPE.get(sequence):
            function(self)
        elif len(sequence) == 2 and sequence[0] in "()*+":
            self.sets = tuple(
                sequence[1] if slot == sequence[0] else current
                for slot, current in zip("()*+", self.sets, strict=True)
            )
            self._select()

    def control_sequence(self, function: str, params: str) -> None:
        """Execute a control sequence; what is unknown, or malformed, changes nothing."""
        if function == "m":
            self.last_drawn = ""
            self.pen = _pen_after(self.pen.style, params)
            return
        if function != "b":
            self.last_drawn = ""
        if (handler := control.CSI.get(function)) and (numbers := control.numbers_of(params)):
            handler(self, numbers)

    def command(self, text: str) -> None:
        """OSC 0, 1 and 2 set the title and the icon's name. The others paint nothing."""
        code, _, value = text.partition(";")
        value = "".join([char for char in value if char.isprintable()])
        if code in ("0", "2"):
            self.set_title(value)
        if code in ("0", "1"):
            self.set_icon_name(value)
        self.last_drawn = ""

    def push_titles(self, which: int) -> None:
        """XTWINOPS 22: keep both (0), the icon's name (1), or the title (2)."""
        if which <= 2 and len(self.titles) < _MAX_TITLES:
            icon_name = self.icon_name if which != 2 else None
            self.titles.append((self.title if which != 1 else None, icon_name))

    def pop_titles(self, which: int) -> None:
        """XTWINOPS 23: take back of what was kept last; with nothing kept they stay."""
        if which > 2 or not self.titles:
            return
        title, icon_name = self.titles.pop()
        if title is not None and which != 1:
            self.title = title
        if icon_name is not None and which != 2:
            self.icon_name = icon_name

    # Character sets

    def draw(self, data: str) -> None:
        """Put text on the screen in the current character set."""
        if self._table is None and self._single is None:
            self.put(data)
            return
        if self._single is not None:
            first, data = data[0].translate(_TABLES.get(self.sets[self._single], {})), data[1:]
            self._single = None
            self.put(first)
        if data:
            self.put(data.translate(self._table) if self._table else data)

    def shift(self, slot: int) -> None:
        """SI, SO, LS2, LS3: make a designated set the current one."""
        self.locked = slot
        self._select()

    def shift_once(self, slot: int) -> None:
        """SS2, SS3: take the next character, only, from a designated set."""
        self._single = slot

    def _designate(self, saved: Saved) -> None:
        self.sets, self.locked = saved.sets, saved.locked
        self._single = None
        self._select()

    def _select(self) -> None:
        self._table = _TABLES.get(self.sets[self.locked])

    # Cursor

    def save_cursor(self) -> None:
        """DECSC: one place for each screen, not a stack."""
        self.saved[self.on_alternate] = Saved(
            self.cursor.x,
            self.cursor.y,
            self.pen.style,
            self.sets,
            self.locked,
            mo.DECOM in self.mode,
        )

    def restore_cursor(self) -> None:
        """DECRC: what was saved, else home and the defaults (DEC STD 070)."""
        saved = self.saved.get(self.on_alternate, Saved())
        self._designate(saved)
        self.pen = pen_for(saved.style)
        self.mode -= {mo.DECOM}
        if saved.origin:
            self.mode |= {mo.DECOM}
        last = self.columns if mo.DECAWM in self.mode else self.columns - 1
        self.cursor.x, self.cursor.y = min(saved.x, last), saved.y
        self.ensure_vbounds()

    def backspace(self) -> None:
        """BS: one column back; in reverse-wraparound mode from column 0 to the row above."""
        if REVERSE_WRAP in self.mode and self.cursor.x == 0 and self.cursor.y > self.region().top:
            self.cursor.x, self.cursor.y = self.columns - 1, self.cursor.y - 1
        else:
            self.cursor_back()

    # Modes

    def set_mode(self, *modes: int, **kwargs: Any) -> None:
        """SM, DECSET (``private=True``)."""
        for mode in modes:
            self._switch(mode, True, bool(kwargs.get("private")))

    def reset_mode(self, *modes: int, **kwargs: Any) -> None:
        """RM, DECRST (``private=True``)."""
        for mode in modes:
            self._switch(mode, False, bool(kwargs.get("private")))

    def _switch(self, mode: int, on: bool, private: bool) -> None:
        number = mode << 5 if private else mode
        if number in KEPT_MODES:
            self.mode = self.mode | {number} if on else self.mode - {number}
        if not private:
            return
        if mode == 6:
            self.cursor_position()
        elif mode == 7 and not on:
            self.ensure_hbounds()
        elif mode == 25:
            self.cursor.hidden = not on
        elif mode == 66:
            self.keypad = on
        elif mode in MOUSE:
            # One at a time: the last one set counts, resetting any resets (ctlseqs).
            self.mouse = mode if on else 0
        elif mode in MOUSE_ENCODINGS:
            self.mouse_encoding = mode if on else 0
        elif mode in (47, 1047, 1048, 1049):
            self._switch_screen(mode, on)

    def _switch_screen(self, mode: int, on: bool) -> None:
        """47 switches, 1047 clears on leaving, 1048 is the cursor, 1049 all of it (ctlseqs)."""
        if on and mode in (1048, 1049):
            self.save_cursor()
        if mode != 1048:
            if mode == 1047 and not on and self.on_alternate:
                self.erase_in_display(2)
            self._use(self.alternate if on else self.primary)
            if mode == 1049 and on:
                self.erase_in_display(2)
        if not on and mode in (1048, 1049):
            self.restore_cursor()

    @property
    def on_alternate(self) -> bool:
        """Whether the alternate screen shows."""
        return self.page is self.alternate

    def _use(self, page: Page) -> None:
        self.page, self.buffer = page, page.rows
        self.scrolls_back = page is self.primary

    # Size

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. Nothing is reflowed, and what no longer fits comes back with the room.

        As in xterm, rows beneath the cursor go first, then rows at the top go to the scrollback. A
        higher screen takes back first the ones from beneath, while nothing has scrolled since (in
        xterm they are lost), then those of the scrollback. The margins are the new edges.
        """
        rows, columns = lines or self.lines, columns or self.columns
        for page in (self.primary, self.alternate):
            saved = self.saved.get(page is self.alternate, Saved())
            at = self.cursor.y if page is self.page else saved.y
            history = self.history if page is self.primary else None
            moved = page.fit(rows, min(at, self.lines - 1), self.columns, history)
            if page is self.page:
                self.cursor.y += moved
        self.lines, self.columns, self.margins = rows, columns, None
        last = columns if mo.DECAWM in self.mode else columns - 1
        self.cursor.x = min(self.cursor.x, last)
        self.ensure_vbounds()
