"""What a terminal's program has set in output that lies too far back to be drawn.

A program that draws for hours sets its modes once, at its beginning: the alternate screen, the
mouse, what the arrow keys send.  So where a screen is made from the journal's end only, what comes
before is not fed but searched for what stays (`Settings`), at hundreds of megabytes a second.
"""

from __future__ import annotations

from typing import Final

from s0d.journal import CursorExpired, Journal, Record
from s0d.model import event as ev
from s0d.terminal import Settings

from .turns import Turns

_READ: Final = 256 << 10
_PIECE: Final = 64 << 10
"""Bytes searched between two turns of the others: some 0.3 ms of work."""


class Past:
    """The settings of one attempt's events, as far as they have been read."""

    def __init__(self, attempt_id: str) -> None:
        self.settings = Settings()
        self._attempt_id = attempt_id
        self._parts: list[bytes] = []

    async def read(self, journal: Journal, after: int, last: int) -> None:
        """Take the events beyond `after` up to `last`, those that retention has left."""
        while after < last:
            try:
                await self._read(journal, after, last)
            except CursorExpired as expired:
                after = max(after + 1, expired.earliest - 1)
            else:
                return

    async def _read(self, journal: Journal, after: int, last: int) -> None:
        with journal.cursor(after) as cursor:
            while cursor.position < last:
                block = await cursor.read_available(_READ)
                if block is None:
                    return
                # The wait for a block from a file was rest enough.
                await self._take([r for r in block.records if r.seq <= last], Turns())

    async def _take(self, records: list[Record], turns: Turns) -> None:
        for record in records:
            if record.attempt != self._attempt_id:
                continue
            if record.type == ev.OUTPUT:
                if record.fields["stream"] == "pty":
                    self._parts.append(record.fields["data"])
                continue
            await self._search(turns)
            if record.type == ev.TERMINAL_RESIZED:
                self.settings.resized()
            elif record.type == ev.ATTEMPT_STARTING:
                self.settings = Settings()
        await self._search(turns)

    async def _search(self, turns: Turns) -> None:
        data = b"".join(self._parts)
        self._parts.clear()
        for start in range(0, len(data), _PIECE):
            self.settings.take(data[start : start + _PIECE])
            await turns.rest()
