"""What all streams share: being ended at once by a shutdown, and encodings made once a block."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import trio

from s0d.journal.cursor import Cursor
from s0d.journal.errors import CursorExpired, JournalError
from s0d.journal.record import Block
from s0d.wire.event import EventEncoder

BATCH: Final = 256 << 10
"""Bytes of events read, encoded and sent at once: where sending one by one costs 70 µs an event,
this costs 1.5 (stack notes), and a client sees the first of them no later."""


class Streams:
    """Ends every waiting stream of an application when it stops.

    A stream waits inside `waiting`; `stop` cancels all of those scopes.  A stream that is busy
    sending sees `stopped` when it comes back to wait.
    """

    def __init__(self) -> None:
        self.stopped = False
        self._waits: set[trio.CancelScope] = set()

    @contextmanager
    def waiting(self, seconds: float = float("inf")) -> Iterator[trio.CancelScope]:
        """A scope that is cancelled after `seconds` or by `stop`, whichever comes first."""
        with trio.move_on_after(seconds) as scope:
            if self.stopped:
                scope.cancel()
            self._waits.add(scope)
            try:
                yield scope
            finally:
                self._waits.discard(scope)

    def stop(self) -> None:
        self.stopped = True
        for scope in self._waits:
            scope.cancel()


async def with_more(cursor: Cursor, block: Block) -> list[Block]:
    """`block`, and what else is at hand, so that a burst of small blocks becomes one write.

    They stay blocks of the journal's tail, whole and shared: that is what makes their encodings
    worth keeping.  Not to be called where a deadline may fall: a block that was read is the
    caller's to send.
    """
    blocks, size = [block], block.nbytes
    while size <= BATCH // 2:
        try:
            more = await cursor.read_available(BATCH - size)
        except (CursorExpired, JournalError):
            break  # comes again with the next read
        if more is None:
            break
        blocks.append(more)
        size += more.nbytes
    return blocks


def sse_frames(block: Block, encoder: EventEncoder) -> bytes:
    """The SSE frames of `block`, encoded once for all its readers."""
    frames = block.cache.get("sse")
    if frames is None:
        frames = block.cache["sse"] = encoder.sse(block.records)
    return frames


def websocket_frames(block: Block, encoder: EventEncoder) -> bytes:
    """One unmasked text frame an event (RFC 6455, section 5.2), encoded once for all readers.

    Server frames carry no mask, so they are the same bytes for every client.
    """
    frames = block.cache.get("websocket")
    if frames is None:
        messages = map(encoder.message, block.records)
        frames = block.cache["websocket"] = b"".join(map(text_frame, messages))
    return frames


def text_frame(message: bytes) -> bytes:
    return _head(0x81, len(message)) + message


def binary_frame(message: bytes | memoryview) -> bytes:
    return b"".join((_head(0x82, len(message)), message))


def _head(first: int, size: int) -> bytes:
    if size < 126:
        return bytes((first, size))
    if size < 1 << 16:
        return bytes((first, 0x7E)) + size.to_bytes(2, "big")
    return bytes((first, 0x7F)) + size.to_bytes(8, "big")
