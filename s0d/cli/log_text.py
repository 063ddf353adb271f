"""Lines of a log on their way to standard output."""

from __future__ import annotations

import re
import sys
from binascii import a2b_base64
from collections.abc import Callable, Iterable
from typing import Any, Final

import click
import msgspec

from .colour import has_colour
from .errors import one_line

Json = dict[str, Any]

# Sequences (ECMA-48): what sets colours may stay, the rest would drive the reader's terminal.
_COLOUR: Final = r"\x1b\[[0-9;:]*m"
_SEQUENCE: Final = re.compile(
    rf"({_COLOUR})"
    r"|\x1b\[[0-?]*[ -/]*[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]*[0-~]"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TOLD: Final = ("session.", "attempt.", "journal.")
_DETAILS: Final = ("reason", "exit_code", "signal", "pid", "message")


def readable(text: str, *, colour: bool) -> str:
    """A line as a person reads it: without the sequences that move cursors, what a progress bar
    shows last, and other control characters escaped."""
    if text.isprintable():
        return text
    coloured = False

    def keep(match: re.Match[str]) -> str:
        nonlocal coloured
        coloured = coloured or (colour and match[1] is not None)
        return match[1] or "" if colour else ""

    text = _SEQUENCE.sub(keep, text)
    text = text.rstrip("\r").rpartition("\r")[2]
    parts = re.split(f"({_COLOUR})", text) if coloured else [text]
    shown = "".join(p if p.startswith("\x1b[") else _CONTROL.sub(_escape, p) for p in parts)
    return f"{shown}\x1b[0m" if coloured else shown


def _escape(match: re.Match[str]) -> str:
    return match[0].encode("unicode_escape").decode()


class Printer:
    """Prints lines to stdout, and what happened to the session to stderr, dim."""

    def __init__(self, *, json: bool, follow: bool, timestamps: bool, raw: bool) -> None:
        self.raw = raw
        self._json = json
        self._follow = follow
        self._timestamps = timestamps
        self._colour = has_colour(sys.stdout)
        self._dim = has_colour(sys.stderr)
        self._out = sys.stdout.buffer
        self._count = 0

    def line(self, line: Json) -> None:
        if self._json:
            self._object(line)
        elif self.raw:
            data = line.get("data_base64")
            self._out.write((line["line"].encode() if data is None else a2b_base64(data)) + b"\n")
        else:
            when = f"{line['occurred_at']} " if self._timestamps else ""
            text = readable(line["line"], colour=self._colour)
            self._out.write(f"{when}{text}\n".encode())

    def event(self, event: Json) -> None:
        """What is about the session's life."""
        if not event["type"].startswith(_TOLD):
            return
        if self._json:
            self._object({"event": event})
            return
        self.flush()
        details = [f"{key}={event[key]}" for key in _DETAILS if key in event]
        when = f"{event['occurred_at']} " if self._timestamps else ""
        text = one_line(f"{when}-- {' '.join([event['type'], *details])}")
        click.echo(f"\x1b[2m{text}\x1b[0m" if self._dim else text, err=True, color=self._dim)

    def unfinished(self, parts: Iterable[Json], wanted: Callable[[bytes], Iterable[bytes]]) -> None:
        """What has no end yet is shown, too."""
        for part in parts:
            data = a2b_base64(part["data_base64"])
            if not [*wanted(data + b"\n")]:
                continue
            if self._json:
                self._object({**part, "line": data.decode("utf-8", "backslashreplace")})
            elif self.raw:
                self._out.write(data)
            else:
                text = data.decode("utf-8", "backslashreplace")
                self._out.write(f"{readable(text, colour=self._colour)}\n".encode())

    def close(self) -> None:
        if self._json and not self._follow:
            self._out.write(b"\n]\n" if self._count else b"[]\n")
        self.flush()

    def flush(self) -> None:
        self._out.flush()

    def _object(self, value: Json) -> None:
        if self._follow:
            self._out.write(msgspec.json.encode(value) + b"\n")
            return
        self._out.write((b",\n " if self._count else b"[\n ") + msgspec.json.encode(value))
        self._count += 1
