"""A screen as escape sequences that bring a fresh terminal of its size to the same state.

The order matters and is the order of the code: what homes the cursor (DECSTBM, DECOM) comes before
the cursor is placed, what changes how text is drawn (insert mode, character sets, autowrap) after
the text, the saved cursors before the present one, and the alternate screen over the primary.

What a terminal keeps and no sequence sets is not restored: the character that REP would repeat, a
single shift that still waits for its character, and a pending wrap right after a joiner.
"""

from __future__ import annotations

from pyte import modes as mo

from s0d.terminal.cells import BLANK, Cell, Line, cells_of, line_of
from s0d.terminal.emulator import KEPT_MODES, Emulator, Saved
from s0d.terminal.page import Page
from s0d.terminal.style import sgr_of
from s0d.terminal.width import ZWJ

_LATE: frozenset[int] = frozenset({mo.IRM, mo.DECAWM, mo.DECOM, mo.DECTCEM})
"""Modes that the order of things sets, not ``_modes``."""


def repaint(screen: Emulator, scrollback: int = 0) -> str:
    """The sequences for ``screen``, with up to ``scrollback`` lines that scroll off above it.

    They start by clearing, so that the terminal need not be quite fresh. The bytes of a sequence
    that is only half there are the parser's to add (``Parser.pending``).
    """
    parts = ["\x1b[!p\x1b[H\x1b[2J", *_history(screen, scrollback)]
    if not screen.on_alternate and _is_used(screen, screen.alternate):
        parts += ["\x1b[?47h", *_page(screen, screen.alternate), *_saved(screen, True), "\x1b[?47l"]
    parts += _page(screen, screen.primary)
    parts += _saved(screen, False)
    if screen.on_alternate:
        parts += [
            "\x1b[0m\x1b[?47h\x1b[2J",
            *_page(screen, screen.alternate),
            *_saved(screen, True),
        ]
    parts += [_titles(screen), _tab_stops(screen), *_modes(screen)]
    parts.append(_present(screen))
    return "".join(parts)


def _is_used(screen: Emulator, page: Page) -> bool:
    blank = line_of(type(page.rows[0])(), 1)
    return True in screen.saved or any(line_of(row, screen.columns) != blank for row in page.rows)


def _history(screen: Emulator, count: int) -> list[str]:
    """Lines that go up and away: printed at the bottom, then a screen of newlines."""
    lines = list(screen.history)[-count:] if count > 0 else []
    if not lines:
        return []
    # As many newlines at the end as push the last line out of the top row, and no more.
    shown = [f"{_line(line)}\x1b[0m\r\n" for line in lines]
    return [*shown, f"\x1b[{screen.lines};1H", "\n" * min(len(lines), screen.lines - 1), "\x1b[H"]


def _page(screen: Emulator, page: Page) -> list[str]:
    parts = []
    for y, row in enumerate(page.rows):
        line = line_of(row, screen.columns)
        if line.runs:
            parts.append(f"\x1b[{y + 1}H{_line(line)}\x1b[0m")
    return parts


def _line(line: Line) -> str:
    """A line from column 0 on, the style set by each run."""
    if not line.shape:
        return "".join([f"{sgr_of(style)}{text}" for text, style in line.runs])
    cells = list(enumerate(cells_of(line)))
    if any(cell.data.endswith(ZWJ) for _, cell in cells):
        # Drawn in order, the character after a joiner would join: from the right it does not.
        cells.reverse()
    # Terminals disagree about the width of what is more than one code point: say where each goes.
    return "".join([f"\x1b[{x + 1}G{_cell(cell)}" for x, cell in cells if cell.data])


def _cell(cell: Cell) -> str:
    return f"{sgr_of(cell.style)}{cell.data}"


def _saved(screen: Emulator, alternate: bool) -> list[str]:
    """DECSC with the state that was saved; the margins are still the screen's edges."""
    saved = screen.saved.get(alternate)
    if saved is None:
        return []
    page = screen.alternate if alternate else screen.primary
    origin = "\x1b[?6h" if saved.origin else ""
    place = _place(screen, page, saved.x, min(saved.y, screen.lines - 1), 0)
    undo = "\x1b[?6l" if saved.origin else ""
    return [origin, place, _charsets(saved), sgr_of(saved.style), "\x1b7", undo, _charsets(Saved())]


def _place(screen: Emulator, page: Page, x: int, y: int, top: int) -> str:
    """Put the cursor there (the wrap pending past the last column), rows counted from ``top``."""
    if x < screen.columns:
        return f"\x1b[{y - top + 1};{x + 1}H"
    cells = page.rows[y].cells(screen.columns)
    cells += [BLANK] * (screen.columns - len(cells))
    column = screen.columns - (2 if cells[-1].data == "" else 1)
    at = f"\x1b[{y - top + 1};{column + 1}H"
    if column and cells[column - 1].data.endswith(ZWJ):
        return at  # drawn again it would join
    return at + _cell(cells[column])


def _charsets(state: Saved | Emulator) -> str:
    shift = ("\x0f", "\x0e", "\x1bn", "\x1bo")[state.locked]
    named = zip("()*+", state.sets, strict=True)
    return "".join([f"\x1b{slot}{name}" for slot, name in named]) + shift


def _titles(screen: Emulator) -> str:
    """Those that were pushed, and then the present ones."""
    parts = []
    for title, icon_name in screen.titles:
        which = 0 if None not in (title, icon_name) else 1 if title is None else 2
        parts.append(f"{_title(title)}{_icon_name(icon_name)}\x1b[22;{which}t")
    last = screen.title, screen.icon_name
    title, icon_name = (text if text or screen.titles else None for text in last)
    return "".join([*parts, _title(title), _icon_name(icon_name)])


def _title(text: str | None) -> str:
    return "" if text is None else f"\x1b]2;{text}\x07"


def _icon_name(text: str | None) -> str:
    return "" if text is None else f"\x1b]1;{text}\x07"


def _tab_stops(screen: Emulator) -> str:
    stops = sorted(stop for stop in screen.tabstops if stop < screen.columns)
    if stops == list(range(8, screen.columns, 8)):
        return ""
    return "\x1b[3g" + "".join([f"\x1b[{stop + 1}G\x1bH" for stop in stops])


def _modes(screen: Emulator) -> list[str]:
    """Everything that is on; a fresh terminal has it off."""
    on = sorted((KEPT_MODES - _LATE) & screen.mode)
    parts = [f"\x1b[{number}h" if number < 32 else f"\x1b[?{number >> 5}h" for number in on]
    parts += [f"\x1b[?{mode}h" for mode in (screen.mouse, screen.mouse_encoding) if mode]
    if screen.keypad:
        parts.append("\x1b=")
    if screen.modify_other_keys:
        parts.append(f"\x1b[>4;{screen.modify_other_keys}m")
    if screen.cursor_style:
        parts.append(f"\x1b[{screen.cursor_style} q")
    if screen.cursor.hidden:
        parts.append("\x1b[?25l")
    return parts


def _present(screen: Emulator) -> str:
    """Margins, origin, cursor, and at last what changes how text is drawn."""
    top, bottom = screen.region()
    parts = [f"\x1b[{top + 1};{bottom + 1}r" if screen.margins else ""]
    origin = mo.DECOM in screen.mode
    parts.append("\x1b[?6h" if origin else "")
    parts.append(
        _place(screen, screen.page, screen.cursor.x, screen.cursor.y, top if origin else 0)
    )
    parts += [_charsets(screen), sgr_of(screen.pen.style)]
    parts.append("\x1b[4h" if mo.IRM in screen.mode else "")
    parts.append("" if mo.DECAWM in screen.mode else "\x1b[?7l")
    return "".join(parts)
