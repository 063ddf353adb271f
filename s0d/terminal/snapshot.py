"""What a person sees on a screen, as data, and that data as text, HTML and ANSI."""

from __future__ import annotations

from html import escape
from typing import Final, Literal

import msgspec
from pyte import modes as mo

from s0d.terminal import style as sgr
from s0d.terminal.cells import Line, line_of
from s0d.terminal.emulator import (
    ALTERNATE_SCROLL,
    BLINK,
    BRACKETED_PASTE,
    DECCKM,
    FOCUS,
    REVERSE_WRAP,
    Emulator,
)
from s0d.terminal.style import Style

Colour = int | str | None
"""A palette index (0 to 255), ``"#rrggbb"``, or None for the terminal's own."""

_SHAPES: Final = ("block", "underline", "bar")
_MOUSE: Final = {0: "off", 9: "x10", 1000: "normal", 1001: "highlight", 1002: "button", 1003: "any"}
_ENCODINGS: Final = {0: "default", 1005: "utf8", 1006: "sgr", 1015: "urxvt", 1016: "sgr_pixels"}


class Run(msgspec.Struct, frozen=True, omit_defaults=True):
    """A stretch of text of one style; ``width`` is the columns it takes."""

    text: str
    width: int
    fg: Colour = None
    bg: Colour = None
    bold: bool = False
    faint: bool = False
    italic: bool = False
    underline: bool = False
    blink: bool = False
    reverse: bool = False
    conceal: bool = False
    strike: bool = False
    overline: bool = False


class Cursor(msgspec.Struct, frozen=True):
    """The cursor; ``row`` and ``col`` count from 0 and are always on the screen."""

    row: int
    col: int
    visible: bool
    shape: Literal["block", "underline", "bar"]
    blink: bool


class Modes(msgspec.Struct, frozen=True):
    """The modes that decide what keys and the mouse send, and how text is drawn."""

    application_cursor: bool = False
    application_keypad: bool = False
    bracketed_paste: bool = False
    focus_events: bool = False
    mouse: str = "off"
    """``off``, ``x10``, ``normal``, ``highlight``, ``button`` or ``any``."""
    mouse_encoding: str = "default"
    """``default``, ``utf8``, ``sgr``, ``urxvt`` or ``sgr_pixels``."""
    alternate_scroll: bool = False
    modify_other_keys: int = 0
    insert: bool = False
    newline: bool = False
    origin: bool = False
    autowrap: bool = True
    reverse_wrap: bool = False
    reverse_video: bool = False


Runs = tuple[Run, ...]


class Snapshot(msgspec.Struct, frozen=True):
    """A screen at one moment.

    ``lines`` has ``rows`` lines from the top, ``scrollback`` the newest lines above them, oldest
    first; both without the default blanks at the end of a line. ``scrollback_lines`` is how many
    there are in all; ``history_cut`` says that output was skipped that they would have shown.
    ``margins`` are the first and last row that scroll.
    """

    rows: int
    cols: int
    lines: tuple[Runs, ...]
    cursor: Cursor
    title: str
    modes: Modes
    margins: tuple[int, int]
    alternate: bool
    scrollback: tuple[Runs, ...] = ()
    scrollback_lines: int = 0
    history_cut: bool = False
    icon_name: str = ""

    def text(self) -> str:
        """Scrollback and screen as plain lines, each ended by a newline."""
        return "".join([f"{text_of(line)}\n" for line in self.scrollback + self.lines])

    def ansi(self) -> str:
        """The same with SGR sequences; each line starts and ends in the default style."""
        return "".join([f"{_ansi_line(line)}\n" for line in self.scrollback + self.lines])

    def html(self) -> str:
        """The same as a ``pre`` element with inline styles (class ``s0d-screen``)."""
        body = "".join([f"{_html_line(line)}\n" for line in self.scrollback + self.lines])
        return f'<pre class="s0d-screen">{body}</pre>'

    def changed(self, since: Snapshot | None) -> list[int]:
        """The rows that differ from an earlier snapshot; all of them if the size does, or None."""
        if since is None or (since.rows, since.cols) != (self.rows, self.cols):
            return list(range(self.rows))
        return [y for y, line in enumerate(self.lines) if line != since.lines[y]]


def text_of(line: Runs) -> str:
    """The text of a line."""
    return "".join([run.text for run in line])


def take(screen: Emulator, scrollback: int) -> Snapshot:
    """The snapshot of ``screen`` with up to ``scrollback`` lines above it.

    While the alternate screen shows there is nothing above it: the scrollback is the primary's.
    """
    history = () if screen.on_alternate else tuple(screen.history)
    above = history[-scrollback:] if scrollback > 0 else ()
    return Snapshot(
        rows=screen.lines,
        cols=screen.columns,
        lines=tuple([_runs(line_of(row, screen.columns)) for row in screen.buffer]),
        cursor=_cursor(screen),
        title=screen.title,
        modes=_modes(screen),
        margins=(screen.region().top, screen.region().bottom),
        alternate=screen.on_alternate,
        scrollback=tuple([_runs(line) for line in above]),
        scrollback_lines=len(history),
        history_cut=screen.history_cut,
        icon_name=screen.icon_name,
    )


def _cursor(screen: Emulator) -> Cursor:
    style = screen.cursor_style
    return Cursor(
        row=screen.cursor.y,
        col=min(screen.cursor.x, screen.columns - 1),
        visible=not screen.cursor.hidden,
        shape=_SHAPES[max(style - 1, 0) // 2],
        blink=style % 2 == 1 if style else BLINK in screen.mode,
    )


def _modes(screen: Emulator) -> Modes:
    mode = screen.mode
    return Modes(
        application_cursor=DECCKM in mode,
        application_keypad=screen.keypad,
        bracketed_paste=BRACKETED_PASTE in mode,
        focus_events=FOCUS in mode,
        mouse=_MOUSE[screen.mouse],
        mouse_encoding=_ENCODINGS[screen.mouse_encoding],
        alternate_scroll=ALTERNATE_SCROLL in mode,
        modify_other_keys=screen.modify_other_keys,
        insert=mo.IRM in mode,
        newline=mo.LNM in mode,
        origin=mo.DECOM in mode,
        autowrap=mo.DECAWM in mode,
        reverse_wrap=REVERSE_WRAP in mode,
        reverse_video=mo.DECSCNM in mode,
    )


def _runs(line: Line) -> Runs:
    """The runs of a compact line: its cells counted where they are not one code point each."""
    at = 0
    runs = []
    for text, style in line.runs:
        width = len(text)
        if line.shape:
            width, left = 0, len(text)
            while left > 0 or line.shape[at + width : at + width + 1] == b"\0":
                left -= line.shape[at + width]
                width += 1
        at += width
        runs.append(_run(text, width, style))
    return tuple(runs)


def _run(text: str, width: int, style: Style) -> Run:
    if style == sgr.PLAIN:
        return Run(text, width)
    attrs = style.attrs
    return Run(
        text,
        width,
        _colour(style.fg),
        _colour(style.bg),
        *(bool(attrs & bit) for bit in sgr.ATTRIBUTES.values()),
    )


def _colour(colour: int) -> Colour:
    if colour < 0:
        return None
    return colour if colour < 256 else "#{:02x}{:02x}{:02x}".format(*sgr.rgb(colour))


def _style_of(run: Run) -> Style:
    flags = (
        *(run.bold, run.faint, run.italic, run.underline, run.blink),
        *(run.reverse, run.conceal, run.strike, run.overline),
    )
    bits = zip(flags, sgr.ATTRIBUTES.values(), strict=True)
    return Style(_number(run.fg), _number(run.bg), sum(bit for flag, bit in bits if flag))


def _number(colour: Colour) -> int:
    if isinstance(colour, str):
        return 1 << 24 | int(colour[1:], 16)
    return -1 if colour is None else colour


def _ansi_line(line: Runs) -> str:
    parts = []
    plain = True
    for run in line:
        style = _style_of(run)
        if style != sgr.PLAIN or not plain:
            parts.append(sgr.sgr_of(style))
        plain = style == sgr.PLAIN
        parts.append(run.text)
    return "".join(parts) + ("" if plain else "\x1b[0m")


def _html_line(line: Runs) -> str:
    return "".join([_html_run(run) for run in line])


def _html_run(run: Run) -> str:
    css = _css(_style_of(run))
    text = escape(run.text)
    return f'<span style="{css}">{text}</span>' if css else text


def _css(style: Style) -> str:
    attrs = style.attrs
    fg = "#{:02x}{:02x}{:02x}".format(*sgr.rgb(style.fg)) if style.fg >= 0 else ""
    bg = "#{:02x}{:02x}{:02x}".format(*sgr.rgb(style.bg)) if style.bg >= 0 else ""
    if attrs & sgr.REVERSE:
        # The default colours are the page's own: "Canvas" and "CanvasText" name them in CSS.
        fg, bg = bg or "Canvas", fg or "CanvasText"
    lines = [
        name
        for bit, name in (
            (sgr.UNDERLINE, "underline"),
            (sgr.STRIKE, "line-through"),
            (sgr.OVERLINE, "overline"),
        )
        if attrs & bit
    ]
    rules = [
        fg and f"color:{fg}",
        bg and f"background:{bg}",
        attrs & sgr.BOLD and "font-weight:bold",
        attrs & sgr.FAINT and "opacity:.6",
        attrs & sgr.ITALIC and "font-style:italic",
        attrs & sgr.CONCEAL and "visibility:hidden",
        lines and f"text-decoration:{' '.join(lines)}",
    ]
    return ";".join([str(rule) for rule in rules if rule])
