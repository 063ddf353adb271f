"""The keys that detach from a terminal, looked for in what a person types."""

from __future__ import annotations

from typing import Final

from .errors import UsageError

DEFAULT_KEYS: Final = "C-] d"
_NAMED: Final = {"Enter": "\r", "Escape": "\x1b", "Space": " ", "Tab": "\t"}


class DetachKeys:
    """Passes on what is typed, until the sequence has been typed.

    Keys that might begin the sequence are held back until it is clear that they do not: typing the
    first key twice sends it once it is followed by another one.
    """

    def __init__(self, text: str) -> None:
        self._keys = [] if text in ("", "none") else [_encodings(word) for word in text.split()]
        self._matched = 0
        self._held = b""

    def feed(self, data: bytes) -> tuple[bytes, bool]:
        """What is for the program, and whether to detach; what comes after that is dropped."""
        passed = bytearray()
        at = 0
        while self._keys and at < len(data):
            if key := self._match(data, at, self._keys[self._matched]):
                self._matched += 1
                self._held += key
                at += len(key)
                if self._matched == len(self._keys):
                    return bytes(passed), True
            elif self._matched:
                passed += self._held  # it was no beginning; this key may be one
                self._matched, self._held = 0, b""
            else:
                passed.append(data[at])
                at += 1
        return bytes(passed + data[at:]), False

    @staticmethod
    def _match(data: bytes, at: int, key: tuple[bytes, ...]) -> bytes:
        return next((form for form in key if data.startswith(form, at)), b"")


def describe(text: str) -> str:
    """The keys as a person reads them: `Ctrl-] d`."""
    controls = ("C-", "^")
    return " ".join(
        f"Ctrl-{word[-1]}" if word.startswith(controls) and len(word) > 1 else word
        for word in text.split()
    )


def _encodings(word: str) -> tuple[bytes, ...]:
    """The forms in which terminals send a key: plain, and as programs may have asked for."""
    if word in _NAMED:
        return (_NAMED[word].encode(),)
    control = word.removeprefix("C-") if word.startswith("C-") else word.removeprefix("^")
    if control != word and len(control) == 1 and "@" <= control.upper() <= "_":
        code = ord(control.lower())
        # CSI u (kitty's protocol) and xterm's modifyOtherKeys.
        others = (f"\x1b[{code};5u".encode(), f"\x1b[27;5;{code}~".encode())
        return (bytes([ord(control.upper()) & 0x1F]), *others)
    if len(word) == 1 and word.isprintable():
        return (word.encode(),)
    raise UsageError(f"detach keys: {word}: write a character, or C-x for Ctrl-x, as in 'C-] d'")
