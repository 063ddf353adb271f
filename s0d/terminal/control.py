"""Which control function calls which operation of the emulator: three literal tables.

The names are those of ECMA-48, DEC STD 070 and xterm's ctlseqs page. Whatever is not in the tables
is accepted and changes nothing: reports (DA, DSR, DECRQM: the screen answers nobody), other window
operations, printing, rectangles, keyboard protocols other than modifyOtherKeys.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from s0d.terminal.emulator import Emulator

Numbers = tuple[int, ...]
_MAX_NUMBERS: Final = 32
_MAX_NUMBER: Final = 65535


@lru_cache(maxsize=1024)
def numbers_of(params: str) -> Numbers:
    """The parameters as numbers, absent ones 0, at least one; surplus ones are dropped.

    Sub-parameters (after a colon) mean something only in SGR, which does not come here: empty.
    """
    if ":" in params:
        return ()
    fields = params.split(";", _MAX_NUMBERS)[:_MAX_NUMBERS]
    return tuple([min(int(field or 0), _MAX_NUMBER) for field in fields])


def _second(numbers: Numbers) -> int:
    return numbers[1] if len(numbers) > 1 else 0


def _next_line(screen: Emulator) -> None:
    screen.cursor.x = 0
    screen.index()


def _index(screen: Emulator) -> None:
    screen.ensure_hbounds()
    screen.index()


def _reverse_index(screen: Emulator) -> None:
    screen.ensure_hbounds()
    screen.reverse_index()


def _keypad(on: bool) -> Callable[[Emulator], None]:
    def switch(screen: Emulator) -> None:
        screen.keypad = on

    return switch


def _cursor_style(screen: Emulator, numbers: Numbers) -> None:
    """DECSCUSR: 0 the default, 1 and 2 block, 3 and 4 underline, 5 and 6 bar; odd ones blink."""
    if numbers[0] <= 6:
        screen.cursor_style = numbers[0]


def _key_options(screen: Emulator, numbers: Numbers) -> None:
    """XTMODKEYS: of the key resources only 4, modifyOtherKeys, is kept; no value is 0."""
    if numbers[0] == 4:
        screen.modify_other_keys = min(_second(numbers), 3)


def _key_options_off(screen: Emulator, numbers: Numbers) -> None:
    if numbers[0] == 4:
        screen.modify_other_keys = 0


def _tab_control(screen: Emulator, numbers: Numbers) -> None:
    if numbers[0] == 5:
        screen.default_tab_stops()


def _window_operation(screen: Emulator, numbers: Numbers) -> None:
    """XTWINOPS: of all operations only 22 and 23, keep the titles and take them back."""
    if numbers[0] == 22:
        screen.push_titles(_second(numbers))
    elif numbers[0] == 23:
        screen.pop_titles(_second(numbers))


def _scroll_down(screen: Emulator, numbers: Numbers) -> None:
    """SD with one parameter; with five it is mouse highlighting, with others nothing (ctlseqs)."""
    if len(numbers) == 1:
        screen.scroll_down(*screen.region(), numbers[0] or 1)


C0: Final[dict[str, Callable[[Emulator], None]]] = {
    "\b": lambda screen: screen.backspace(),
    "\t": lambda screen: screen.tab(),
    "\v": lambda screen: screen.linefeed(),
    "\f": lambda screen: screen.linefeed(),
    "\r": lambda screen: screen.carriage_return(),
    "\x0e": lambda screen: screen.shift(1),  # SO
    "\x0f": lambda screen: screen.shift(0),  # SI
}

ESCAPE: Final[dict[str, Callable[[Emulator], None]]] = {
    "7": lambda screen: screen.save_cursor(),  # DECSC
    "8": lambda screen: screen.restore_cursor(),  # DECRC
    "=": _keypad(True),  # DECKPAM
    ">": _keypad(False),  # DECKPNM
    "D": _index,  # IND
    "E": _next_line,  # NEL
    "H": lambda screen: screen.set_tab_stop(),  # HTS
    "M": _reverse_index,  # RI
    "N": lambda screen: screen.shift_once(2),  # SS2
    "O": lambda screen: screen.shift_once(3),  # SS3
    "c": lambda screen: screen.reset(),  # RIS
    "n": lambda screen: screen.shift(2),  # LS2
    "o": lambda screen: screen.shift(3),  # LS3
    "#8": lambda screen: screen.alignment_display(),  # DECALN
}

CSI: Final[dict[str, Callable[[Emulator, Numbers], None]]] = {
    "@": lambda screen, n: screen.insert_characters(n[0]),  # ICH
    "A": lambda screen, n: screen.cursor_up(n[0]),  # CUU
    "B": lambda screen, n: screen.cursor_down(n[0]),  # CUD
    "C": lambda screen, n: screen.cursor_forward(n[0]),  # CUF
    "D": lambda screen, n: screen.cursor_back(n[0]),  # CUB
    "E": lambda screen, n: screen.cursor_down1(n[0]),  # CNL
    "F": lambda screen, n: screen.cursor_up1(n[0]),  # CPL
    "G": lambda screen, n: screen.cursor_to_column(n[0]),  # CHA
    "H": lambda screen, n: screen.cursor_position(n[0], _second(n)),  # CUP
    "I": lambda screen, n: screen.tab_forward(n[0] or 1),  # CHT
    "J": lambda screen, n: screen.erase_in_display(n[0]),  # ED
    "K": lambda screen, n: screen.erase_in_line(n[0]),  # EL
    "L": lambda screen, n: screen.insert_lines(n[0]),  # IL
    "M": lambda screen, n: screen.delete_lines(n[0]),  # DL
    "P": lambda screen, n: screen.delete_characters(n[0]),  # DCH
    "S": lambda screen, n: screen.scroll_up(*screen.region(), n[0] or 1),  # SU
    "T": _scroll_down,  # SD
    "X": lambda screen, n: screen.erase_characters(n[0]),  # ECH
    "Z": lambda screen, n: screen.tab_backward(n[0] or 1),  # CBT
    "^": _scroll_down,  # SD, as ECMA-48 first printed it
    "`": lambda screen, n: screen.cursor_to_column(n[0]),  # HPA
    "a": lambda screen, n: screen.cursor_forward(n[0]),  # HPR
    "b": lambda screen, n: screen.repeat(n[0] or 1),  # REP
    "d": lambda screen, n: screen.cursor_to_line(n[0]),  # VPA
    "e": lambda screen, n: screen.cursor_down(n[0]),  # VPR
    "f": lambda screen, n: screen.cursor_position(n[0], _second(n)),  # HVP
    "g": lambda screen, n: screen.clear_tab_stop(n[0]),  # TBC
    "h": lambda screen, n: screen.set_mode(*n),  # SM
    "l": lambda screen, n: screen.reset_mode(*n),  # RM
    "r": lambda screen, n: screen.set_margins(n[0], _second(n)),  # DECSTBM
    "s": lambda screen, n: screen.save_cursor(),  # SCOSC
    "t": _window_operation,  # XTWINOPS
    "u": lambda screen, n: screen.restore_cursor(),  # SCORC
    "?J": lambda screen, n: screen.erase_in_display(n[0]),  # DECSED: nothing is protected
    "?K": lambda screen, n: screen.erase_in_line(n[0]),  # DECSEL
    "?W": _tab_control,  # DECST8C
    "?h": lambda screen, n: screen.set_mode(*n, private=True),  # DECSET
    "?l": lambda screen, n: screen.reset_mode(*n, private=True),  # DECRST
    ">m": _key_options,  # XTMODKEYS
    ">n": _key_options_off,
    "!p": lambda screen, n: screen.soft_reset(),  # DECSTR
    " q": _cursor_style,  # DECSCUSR
}
