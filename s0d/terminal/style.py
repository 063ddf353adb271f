"""Colours and attributes of a cell, and the SGR sequences that set them.

Sources: ECMA-48 8.3.117 (SGR), ISO 8613-6 (colons, 38 and 48), xterm's ctlseqs page (90 to 107,
21 as double underline, 4:N underline styles).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

BOLD: Final = 1
FAINT: Final = 2
ITALIC: Final = 4
UNDERLINE: Final = 8
BLINK: Final = 16
REVERSE: Final = 32
CONCEAL: Final = 64
STRIKE: Final = 128
OVERLINE: Final = 256

ATTRIBUTES: Final = {
    1: BOLD,
    2: FAINT,
    3: ITALIC,
    4: UNDERLINE,
    5: BLINK,
    7: REVERSE,
    8: CONCEAL,
    9: STRIKE,
    53: OVERLINE,
}
"""SGR number that sets an attribute, and its bit in ``Style.attrs``."""

_SETTERS: Final = {**ATTRIBUTES, 6: BLINK, 21: UNDERLINE}
_CLEARERS: Final = {
    22: BOLD | FAINT,
    23: ITALIC,
    24: UNDERLINE,
    25: BLINK,
    27: REVERSE,
    28: CONCEAL,
    29: STRIKE,
    55: OVERLINE,
}
_RGB: Final = 1 << 24
_MAX_PARAMS: Final = 64


class Style(NamedTuple):
    """How a cell looks: a colour is -1 (the default), 0 to 255 (palette) or 0x1RRGGBB (true)."""

    fg: int = -1
    bg: int = -1
    attrs: int = 0


PLAIN: Final = Style()


def apply_sgr(style: Style, params: str) -> Style:
    """``style`` after ``CSI params m``. Unknown and malformed parameters change nothing."""
    fields = params.split(";", _MAX_PARAMS)[:_MAX_PARAMS]
    rest = iter(fields)
    for field in rest:
        style = _apply_field(style, field, rest)
    return style


def _apply_field(style: Style, field: str, rest: Iterator[str]) -> Style:
    head, _, sub = field.partition(":")
    code = _number(head)
    fg, bg, attrs = style
    if code in (38, 48, 58):
        # 58 is the colour of the underline: its arguments are consumed, the colour is not kept.
        colour = _colour_of_subparams(sub) if sub else _colour_of_params(rest)
        if colour is None or code == 58:
            return style
        return Style(colour, bg, attrs) if code == 38 else Style(fg, colour, attrs)
    if code == 4 and sub:
        # 4:0 is no underline, 4:1 to 4:5 are its styles: all of them are an underline here.
        return Style(fg, bg, attrs & ~UNDERLINE if _number(sub) == 0 else attrs | UNDERLINE)
    return style if sub else _apply_code(style, code)


def _apply_code(style: Style, code: int) -> Style:
    fg, bg, attrs = style
    if code == 0:
        return PLAIN
    if code in _SETTERS:
        return Style(fg, bg, attrs | _SETTERS[code])
    if code in _CLEARERS:
        return Style(fg, bg, attrs & ~_CLEARERS[code])
    if 30 <= code <= 37 or 90 <= code <= 97:
        return Style(code - 30 if code < 90 else code - 82, bg, attrs)
    if 40 <= code <= 47 or 100 <= code <= 107:
        return Style(fg, code - 40 if code < 100 else code - 92, attrs)
    if code in (39, 49):
        return Style(-1, bg, attrs) if code == 39 else Style(fg, -1, attrs)
    return style


def _colour_of_params(rest: Iterator[str]) -> int | None:
    """The colour after ``38;``: ``5;N`` or ``2;R;G;B``, consumed from ``rest``."""
    kind = _number(next(rest, ""))
    if kind == 5:
        return _palette(_number(next(rest, "")))
    if kind == 2:
        return _true_colour([_number(next(rest, "")) for _ in range(3)])
    return None


def _colour_of_subparams(sub: str) -> int | None:
    """The colour after ``38:``: ``5:N``, ``2:R:G:B``, or ``2:SPACE:R:G:B`` as ISO 8613-6 has it."""
    kind, *values = [_number(part) for part in sub.split(":", _MAX_PARAMS)]
    if kind == 5 and values:
        return _palette(values[0])
    if kind == 2 and len(values) >= 3:
        return _true_colour(values[1:4] if len(values) > 3 else values)
    return None


def _palette(number: int) -> int | None:
    return number if number <= 255 else None


def _true_colour(values: list[int]) -> int | None:
    red, green, blue = values
    return _RGB | red << 16 | green << 8 | blue if max(values) <= 255 else None


def _number(text: str) -> int:
    """An empty parameter is zero; what is no number is a code that nothing answers to."""
    if not text:
        return 0
    return int(text) if len(text) < 8 and text.isdecimal() else 1 << 30


@lru_cache(maxsize=4096)
def sgr_of(style: Style) -> str:
    """The whole SGR sequence that sets exactly ``style``, whatever was set before."""
    codes = ["0", *(str(code) for code, bit in ATTRIBUTES.items() if style.attrs & bit)]
    codes += _colour_codes(style.fg, 30) + _colour_codes(style.bg, 40)
    return f"\x1b[{';'.join(codes)}m"


def _colour_codes(colour: int, base: int) -> list[str]:
    if colour < 0:
        return []
    if colour < 8:
        return [str(base + colour)]
    if colour < 16:
        return [str(base + 52 + colour)]
    if colour < 256:
        return [str(base + 8), "5", str(colour)]
    return [str(base + 8), "2", *(str(part) for part in rgb(colour))]


def rgb(colour: int) -> tuple[int, int, int]:
    """Red, green and blue (0 to 255) of a palette or true colour, with xterm's default palette."""
    if colour >= _RGB:
        return colour >> 16 & 255, colour >> 8 & 255, colour & 255
    if colour < 16:
        return _ANSI[colour]
    if colour < 232:
        index = colour - 16
        return _CUBE[index // 36], _CUBE[index // 6 % 6], _CUBE[index % 6]
    grey = 8 + 10 * (colour - 232)
    return grey, grey, grey


_CUBE: Final = (0, 95, 135, 175, 215, 255)
_ANSI: Final = (
    (0, 0, 0),
    (205, 0, 0),
    (0, 205, 0),
    (205, 205, 0),
    (0, 0, 238),
    (205, 0, 205),
    (0, 205, 205),
    (229, 229, 229),
    (127, 127, 127),
    (255, 0, 0),
    (0, 255, 0),
    (255, 255, 0),
    (92, 92, 255),
    (255, 0, 255),
    (0, 255, 255),
    (255, 255, 255),
)
