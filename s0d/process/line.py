"""Whether a terminal's input line is empty, which decides what its end-of-file key means.

In canonical mode the EOF character ends a read: on an empty line the reader gets nothing, which
is end of file; after some characters it gets those, and a second EOF character is needed
(termios(3), VEOF).  The kernel does not tell how long the unfinished line is, so what was
written is followed here, with the terminal's own editing characters.
"""

from __future__ import annotations

import termios
from dataclasses import dataclass

_DISABLED = 0  # _POSIX_VDISABLE on Linux
_IUTF8 = 0o40000  # termios(3), Linux; the termios module has no name for it


@dataclass(frozen=True, slots=True)
class LineSettings:
    """The part of a terminal's settings that matters to input; a disabled character is None."""

    canonical: bool
    eof: int | None
    ends: frozenset[int]
    erase: int | None
    kill: int | None
    word_erase: int | None
    literal_next: int | None
    flushing: frozenset[int]
    utf8: bool

    @classmethod
    def of(cls, fd: int) -> LineSettings:
        """Those of the terminal of which `fd` is the master or the slave.  Raises OSError."""
        iflag, _, _, lflag, _, _, characters = termios.tcgetattr(fd)

        def key(index: int) -> int | None:
            value = characters[index]
            code = value if isinstance(value, int) else value[0]
            return None if code == _DISABLED else code

        extended = bool(lflag & termios.IEXTEN)
        ends = {0x0A, key(termios.VEOL), key(termios.VEOF)}
        if extended:
            ends.add(key(termios.VEOL2))
        if iflag & termios.ICRNL and not iflag & termios.IGNCR:
            ends.add(0x0D)
        flushing: set[int | None] = set()
        if lflag & termios.ISIG and not lflag & termios.NOFLSH:
            flushing = {key(termios.VINTR), key(termios.VQUIT), key(termios.VSUSP)}
        return cls(
            canonical=bool(lflag & termios.ICANON),
            eof=key(termios.VEOF),
            ends=frozenset(code for code in ends if code is not None),
            erase=key(termios.VERASE),
            kill=key(termios.VKILL),
            word_erase=key(termios.VWERASE) if extended else None,
            literal_next=key(termios.VLNEXT) if extended else None,
            flushing=frozenset(code for code in flushing if code is not None),
            utf8=bool(iflag & _IUTF8),
        )


class InputLine:
    """The length of the unfinished line, in characters as the terminal counts them."""

    def __init__(self) -> None:
        self._line = bytearray()
        self._literal = False

    @property
    def empty(self) -> bool:
        return not self._line and not self._literal

    def feed(self, data: bytes, settings: LineSettings) -> None:
        """Note what was written while these settings were in force."""
        if not settings.canonical:
            self._line.clear()  # every byte was the reader's at once
            self._literal = False
            return
        start = max((data.rfind(end) for end in settings.ends), default=-1)
        # From the last certain end of a line, unless it may have been quoted.
        if start > 0 and data[start - 1] != settings.literal_next:
            data = data[start:]
        for code in data[-8192:]:
            self._key(code, settings)

    def _key(self, code: int, settings: LineSettings) -> None:
        if self._literal:
            self._literal = False
            self._line.append(code)
        elif code == settings.literal_next:
            self._literal = True
        elif code in settings.ends or code in settings.flushing or code == settings.kill:
            self._line.clear()
        elif code == settings.erase:
            self._erase(settings)
        elif code == settings.word_erase:
            self._erase_word(settings)
        elif len(self._line) < 4095:
            self._line.append(code)

    def _erase(self, settings: LineSettings) -> int:
        """Take the last character, all bytes of it, and return its first byte."""
        first = 0
        while self._line:
            first = self._line.pop()
            if not settings.utf8 or first & 0xC0 != 0x80:
                break
        return first

    def _erase_word(self, settings: LineSettings) -> None:
        """As the kernel does (n_tty, WERASE): back over one run of letters, digits and `_`."""
        in_word = False
        while self._line:
            before = bytes(self._line)
            if _is_word(self._erase(settings)):
                in_word = True
            elif in_word:
                self._line = bytearray(before)
                return


def _is_word(code: int) -> bool:
    """The kernel's isalnum(), which knows Latin-1's letters (lib/ctype.c), or an underscore."""
    return code == 0x5F or (chr(code).isalnum() and not 0x80 <= code < 0xC0)
