"""From bytes to tokens: text, control characters, escape and control sequences, strings.

The states are those of the VT500 parser (vt100.net/emu/dec_ansi_parser), with UTF-8 in front:

- ground: text and controls are passed on as they come.
- sequence: after ESC, until a final byte. C0 controls inside are executed at once, ESC starts
  anew, CAN and SUB cancel, a character that cannot be part of it ends it and is drawn.
- string: after OSC, DCS, SOS, PM, APC or ``ESC k``, until ST, ESC, CAN, SUB, and for OSC also BEL.

A regular expression takes whole tokens in the ground state, which is nearly always; what it does
not match goes through the states one character at a time, so where the bytes are split does not
matter. C1 controls count when they are encoded in UTF-8, as in xterm; a bare 0x80 to 0x9F is
invalid UTF-8 and shows as U+FFFD. ``ESC % @`` does not leave UTF-8 (xterm in a UTF-8 locale).

Bounds: a sequence keeps at most ``_MAX_SEQUENCE`` characters, a string at most ``MAX_STRING``. A
string that goes on for longer is taken for one that was never meant: it is dropped and the output
is shown again. Clipboard (OSC 52), images (OSC 1337, DCS, APC) may be longer: ``MAX_BULK``.
"""

from __future__ import annotations

import codecs
import re
from typing import Final, Protocol

MAX_STRING: Final = 4096
MAX_BULK: Final = 16 << 20
_MAX_SEQUENCE: Final = 300

_ESC: Final = "\x1b"
_CANCELS: Final = "\x18\x1a"
_STRINGS: Final = "]PX^_k"
_BULK: Final = re.compile(r"52;|1337;")

_TOKEN: Final = re.compile(
    r"([^\x00-\x1f\x7f-\x9f]*)"  # text, and what ends it:
    r"(?:(\r?\n)"
    r"|(\x1b\[[0-?]{0,200}[ -/]{0,4}[@-~])"
    r"|([\x00-\x1a\x1c-\x1f\x7f]))?"
)
_CSI: Final = re.compile(r"\x1b\[([<=>?]?)([0-;]{0,200})([ -/]{0,4}[@-~])")
_OSC_END: Final = re.compile("[\x07\x18\x1a\x1b\x9c]")
_STRING_END: Final = re.compile("[\x18\x1a\x1b\x9c]")


class Sink(Protocol):
    """What takes the tokens of a ``Parser``."""

    def draw(self, data: str) -> None:
        """Text: no C0, DEL or C1 in it."""

    def control(self, char: str) -> None:
        """A C0 control other than ESC, CAN and SUB."""

    def newline(self, carriage_return: bool) -> None:
        """LF, after CR or not."""

    def escape(self, sequence: str) -> None:
        """An escape sequence without its ESC: intermediates and final."""

    def control_sequence(self, function: str, params: str) -> None:
        """CSI: private prefix, intermediates and final as ``function``; parameters as written."""

    def command(self, text: str) -> None:
        """OSC: its text, at most ``MAX_STRING`` of it."""


class Parser:
    """Feeds a ``sink``; keeps what is incomplete at the end of the bytes so far."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence = ""
        self._string = ""
        self._kept = ""
        self._length = 0
        self._functions: dict[str, tuple[str, str] | None] = {}

    @property
    def at_rest(self) -> bool:
        """Whether nothing is incomplete: the next byte starts a token."""
        return not (self._sequence or self._string or self._decoder.getstate()[0])

    def pending(self) -> bytes:
        """Bytes that bring a parser at rest to this state (a bulk string's contents are gone)."""
        string = f"{_ESC}{self._string}{self._kept}" if self._string else ""
        return (self._sequence + string).encode() + self._decoder.getstate()[0]

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        text = self._decoder.decode(data)
        at = 0
        while at < len(text):
            if self._string:
                at = self._in_string(text, at)
            elif self._sequence:
                at = self._in_sequence(text, at)
            else:
                at = self._in_ground(text, at)

    def _in_ground(self, text: str, at: int) -> int:
        """Pass on whole tokens; return where something else begins, having begun it."""
        sink, token, known = self._sink, _TOKEN.match, self._functions.get
        while (match := token(text, at)) and (end := match.end()) > at:
            kind, drawn, at = match.lastindex, match[1], end
            if drawn:
                sink.draw(drawn)
            if kind == 2:
                sink.newline(match[2] != "\n")
            elif kind == 3:
                if parsed := known(match[3]):
                    sink.control_sequence(*parsed)
                else:
                    self._dispatch_csi(match[3])
            elif kind == 4 and match[4] not in _CANCELS:
                sink.control(match[4])
        if at == len(text):
            return at
        # ESC, or a C1 control, which is ESC and the character 0x40 below it (ECMA-35 13.3.3).
        self._sequence = _ESC
        if text[at] != _ESC:
            self._advance(chr(ord(text[at]) - 0x40))
        return at + 1

    def _in_sequence(self, text: str, at: int) -> int:
        char = text[at]
        if char > "\x7f":
            self._sequence = ""
            return at  # no part of a sequence: drawn, or a C1 that begins another one
        if char == _ESC:
            self._sequence = _ESC
        elif char in _CANCELS:
            self._sequence = ""
        elif char < " ":
            if char == "\n":
                self._sink.newline(False)
            else:
                self._sink.control(char)
        elif char != "\x7f":
            self._advance(char)
        return at + 1

    def _advance(self, char: str) -> None:
        """Take a printable ASCII character after ESC."""
        if len(self._sequence) < _MAX_SEQUENCE:
            self._sequence += char
        sequence = self._sequence
        if sequence.startswith("\x1b["):
            if char >= "@" and len(sequence) > 2:
                self._sequence = ""
                self._dispatch_csi(sequence)
        elif len(sequence) == 2 and char in _STRINGS:
            self._sequence, self._string = "", char
            self._kept, self._length = "", 0
        elif char >= "0":
            self._sequence = ""
            if len(sequence) < _MAX_SEQUENCE:
                self._sink.escape(sequence[1:])

    def _dispatch_csi(self, sequence: str) -> None:
        try:
            parsed = self._functions[sequence]
        except KeyError:
            match = _CSI.fullmatch(sequence)
            parsed = (match[1] + match[3], match[2]) if match else None
            if len(self._functions) >= 2048:
                self._functions.clear()
            self._functions[sequence] = parsed
        if parsed:
            self._sink.control_sequence(*parsed)

    def _in_string(self, text: str, at: int) -> int:
        is_osc = self._string == "]"
        match = (_OSC_END if is_osc else _STRING_END).search(text, at, at + self._room())
        end = match.start() if match else min(len(text), at + self._room())
        if is_osc and len(self._kept) < MAX_STRING:
            self._kept += text[at : min(end, at + MAX_STRING - len(self._kept))]
        self._length += end - at
        if match is None:
            if self._room() == 0:
                self._string = ""
            return end
        self._string = ""
        if is_osc and match[0] not in _CANCELS:
            self._sink.command(self._kept)
        if match[0] == _ESC:
            self._sequence = _ESC
        return end + 1

    def _room(self) -> int:
        """How many more characters the string may have."""
        bulk = self._string in "PX^_" or _BULK.match(self._kept)
        return max((MAX_BULK if bulk else MAX_STRING) - self._length, 0)
