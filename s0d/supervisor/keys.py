"""Keys as the bytes that a terminal sends for them, in the modes that its program has set.

Names are tmux's (`tmux(1)`, "KEY BINDINGS"), encodings xterm's ("Xterm Control Sequences",
"PC-Style Function Keys"): what terminfo's `xterm-256color` promises.  xterm's modifyOtherKeys is
left out: programs that ask for it understand the plain encodings too.
"""

from __future__ import annotations

import re
from typing import Final

from s0d.model.errors import InvalidRequest
from s0d.terminal import Modes

_PLAIN: Final = {"Enter": "\r", "Tab": "\t", "Escape": "\x1b", "BSpace": "\x7f", "Space": " "}
_CURSOR: Final = {"Up": "A", "Down": "B", "Right": "C", "Left": "D", "End": "F", "Home": "H"}
_SS3: Final = {"F1": "P", "F2": "Q", "F3": "R", "F4": "S"}
_EDITING: Final = {"IC": 2, "DC": 3, "PPage": 5, "NPage": 6}
_F5_TO_F12: Final = {f"F{5 + n}": code for n, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24))}
_TILDE: Final = _EDITING | _F5_TO_F12
_ALIASES: Final = (
    {"Return": "Enter", "Esc": "Escape", "Backspace": "BSpace"}
    | {"Insert": "IC", "Delete": "DC", "Del": "DC"}
    | {"PageUp": "PPage", "PgUp": "PPage", "PageDown": "NPage", "PgDn": "NPage"}
)
NAMES: Final = frozenset({*_PLAIN, *_CURSOR, *_SS3, *_TILDE, *_ALIASES, "BTab"})
_KEY: Final = re.compile(r"((?:[CMS]-)*)(.+)", re.DOTALL)
_CONTROLS: Final = {" ": 0, "@": 0, "[": 27, "\\": 28, "]": 29, "^": 30, "_": 31, "/": 31, "?": 127}
_SHIFT, _META, _CONTROL = 1, 2, 4
_PASTE_END: Final = "\x1b[201~"


def encode_key(key: str, modes: Modes) -> str:
    """What the terminal sends for `key`: a name (`Enter`, `C-c`, `S-Up`, `M-x`), else the text.

    Raises `InvalidRequest` for a combination that no terminal can send.
    """
    match = _KEY.fullmatch(key)
    if match is None:
        return key
    prefix, base = match.groups()
    base = _ALIASES.get(base, base)
    if base not in NAMES and (not prefix or len(base) > 1):
        return key
    modifiers = (
        (_SHIFT if "S-" in prefix else 0)
        | (_META if "M-" in prefix else 0)
        | (_CONTROL if "C-" in prefix else 0)
    )
    return _function_key(base, modifiers, modes) or _character(key, base, modifiers, modes)


def encode_paste(text: str, modes: Modes) -> str:
    """`text` as it is pasted: line ends as the Enter key, bracketed where the program asks for it.

    The text cannot end the brackets itself.
    """
    text = text.replace("\r\n", "\r").replace("\n", "\r")
    if not modes.bracketed_paste:
        return text
    while _PASTE_END in text:
        text = text.replace(_PASTE_END, "")
    return f"\x1b[200~{text}{_PASTE_END}"


def _function_key(name: str, modifiers: int, modes: Modes) -> str | None:
    if name == "BTab" or (name == "Tab" and modifiers & _SHIFT):
        return _meta("\x1b[Z", modifiers)
    parameter = f";{modifiers + 1}" if modifiers else ""
    if name in _TILDE:
        return f"\x1b[{_TILDE[name]}{parameter}~"
    final = _CURSOR.get(name) or _SS3.get(name)
    if final is None:
        return None
    if modifiers:
        return f"\x1b[1{parameter}{final}"
    return f"\x1bO{final}" if name in _SS3 or modes.application_cursor else f"\x1b[{final}"


def _character(key: str, base: str, modifiers: int, modes: Modes) -> str:
    text = _PLAIN.get(base, base)
    if base == "Enter" and modes.newline:
        text = "\r\n"
    if modifiers & _SHIFT:
        text = text.upper()
    if modifiers & _CONTROL:
        text = _control(key, base, text)
    return _meta(text, modifiers)


def _control(key: str, base: str, text: str) -> str:
    if base == "BSpace":
        return "\b"
    if base in ("Enter", "Tab", "Escape"):
        return text
    upper = text.upper()
    if "A" <= upper <= "Z":
        return chr(ord(upper) - 64)
    if text not in _CONTROLS:
        raise InvalidRequest(f"keys: no terminal can send {key!r}")
    return chr(_CONTROLS[text])


def _meta(text: str, modifiers: int) -> str:
    return f"\x1b{text}" if modifiers & _META else text
