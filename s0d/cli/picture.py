"""A screen that is followed, drawn on the reader's own terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec

from .client import Client
from .following import Following
from .http import Response

Json = dict[str, Any]

ENTER: Final = "\x1b[?1049h\x1b[H\x1b[2J"
LEAVE: Final = "\x1b[0m\x1b[?25h\x1b[?1049l"

# The SGR parameter of each attribute of a run (ECMA-48, 8.3.117; overline is xterm's).
_ATTRIBUTES: Final = (
    {"bold": 1, "faint": 2, "italic": 3, "underline": 4, "blink": 5}
    | {"reverse": 7, "conceal": 8, "strike": 9}
    | {"overline": 53}
)


class ScreenFollower(Following[tuple[str, bytes]]):
    """The frames of a screen's stream as (event, data).

    Each connection begins with the whole screen: nothing is lost with one that breaks.
    """

    def __init__(self, client: Client, session: str, notice: Callable[[str], None]) -> None:
        super().__init__(notice)
        self._client = client
        self._session = session

    def _open(self) -> Response:
        return self._client.screen_stream(self._session)

    def _parse(self, chunks: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
        return parse_frames(chunks)


def parse_frames(chunks: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """The frames of an event stream as (event, data); comments are passed over."""
    rest = b""
    for chunk in chunks:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            fields = dict(line.split(b": ", 1) for line in frame.split(b"\n") if b": " in line)
            if b"data" in fields:
                yield fields.get(b"event", b"").decode("ascii", "replace"), fields[b"data"]


def draw(kind: str, data: bytes) -> str:
    """The sequences that draw a frame over what the frames before it drew."""
    frame: Json = msgspec.json.decode(data)
    parts = ["\x1b[?25l"]
    if kind == "screen":
        parts.append("\x1b[0m\x1b[2J")
        rows = dict(enumerate(frame["lines"]))
    else:
        rows = {int(row): line for row, line in frame["changed"].items()}
    for row, line in rows.items():
        parts.append(f"\x1b[{row + 1}H{_line(line)}\x1b[0m\x1b[K")
    cursor = frame["cursor"]
    parts.append(f"\x1b[{cursor['row'] + 1};{cursor['col'] + 1}H")
    if cursor["visible"]:
        parts.append("\x1b[?25h")
    return "".join(parts)


def _line(runs: Iterable[Json]) -> str:
    return "".join([f"\x1b[{_style(run)}m{_harmless(run['text'])}" for run in runs])


def _style(run: Json) -> str:
    codes = ["0", *(str(code) for name, code in _ATTRIBUTES.items() if run.get(name))]
    for name, base in (("fg", 38), ("bg", 48)):
        colour = run.get(name)
        if isinstance(colour, int):
            codes.append(f"{base};5;{colour}")
        elif isinstance(colour, str):
            codes.append(f"{base};2;" + ";".join(str(part) for part in bytes.fromhex(colour[1:])))
    return ";".join(codes)


def _harmless(text: str) -> str:
    """Without control characters: a daemon of somebody else's may send anything."""
    return "".join([c for c in text if c >= " " and not "\x7f" <= c <= "\x9f"])
