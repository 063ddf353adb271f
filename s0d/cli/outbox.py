"""What has been typed and is not known to have arrived: kept until the daemon says so."""

from __future__ import annotations

import uuid
from collections import deque
from typing import Final

import trio

ROOM: Final = 1 << 20
"""Bytes, beyond which no more is read."""


class Outbox:
    """Inputs, numbered from 1, to be sent in order: again where a connection broke.

    The daemon knows each by `id` and number, and accepts none twice.  None is the end of file.
    """

    def __init__(self) -> None:
        self.id = f"attach-{uuid.uuid4()}"
        self._first = 1
        self._inputs: deque[bytes | None] = deque()
        self._size = 0
        self._next = 1
        self._changed = trio.Event()

    def put(self, data: bytes | None) -> None:
        self._inputs.append(data)
        self._size += len(data or b"")
        self._change()

    def rewind(self) -> int:
        """Begin anew with what is not known to have arrived; its first number."""
        self._next = self._first
        return self._first

    def arrived(self, number: int) -> bytes | None:
        """All up to `number` need not be sent again; what that last one was."""
        last = None
        while self._inputs and self._first <= number:
            last = self._inputs.popleft()
            self._size -= len(last or b"")
            self._first += 1
        self._next = max(self._next, self._first)
        self._change()
        return last

    async def wait_room(self) -> None:
        while self._size >= ROOM:
            await self._changed.wait()

    async def wait_empty(self) -> None:
        """Until all has arrived."""
        while self._inputs:
            await self._changed.wait()

    async def take(self) -> bytes | None:
        """The next to be sent; waits for one."""
        while self._next - self._first >= len(self._inputs):
            await self._changed.wait()
        data = self._inputs[self._next - self._first]
        self._next += 1
        return data

    def _change(self) -> None:
        self._changed.set()
        self._changed = trio.Event()
