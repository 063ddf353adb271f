"""Write to a process what was accepted, in order, without ever holding anything up."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

import trio

from s0d.process.errors import InputClosed, InputFull, InputRefused
from s0d.process.line import InputLine, LineSettings

QUEUE_LIMIT = 1024 * 1024
_WRITE_SIZE = 64 * 1024


def _nothing() -> None:
    return None


class InputWriter:
    """A bounded queue of bytes and its one writer.

    `limit` is in bytes; a single larger input is taken while the queue is empty.  Pipes: `eof`
    calls `close_stdin` after the bytes before it.  Terminals: `eof` writes the terminal's own
    EOF character, and input goes on to be possible.

    The descriptor is the caller's: close the writer before it.  In canonical mode the kernel cuts
    a terminal's line at 4,095 bytes.

    `on_write` is called after each write: an `OutputPump.expect_reply`, for example.
    """

    def __init__(
        self,
        fd: int,
        *,
        terminal: bool = False,
        close_stdin: Callable[[], None] = _nothing,
        limit: int = QUEUE_LIMIT,
        on_write: Callable[[], None] = _nothing,
    ) -> None:
        self._fd = fd
        self._terminal = terminal
        self._close_stdin = close_stdin
        self._limit = limit
        self._on_write = on_write
        self._queue: deque[bytes | None] = deque()  # None stands for eof
        self._line = InputLine()
        self._wake = trio.Event()
        self._eof_queued = False
        self._closed = False
        self._scope = trio.CancelScope()
        self.pending = 0  # bytes accepted and not yet written

    def put_nowait(self, data: bytes, eof: bool = False) -> None:
        """Queue bytes, then eof; all of it or, when this raises, nothing (see `check`)."""
        self.check(len(data), eof)
        if data:
            self._queue.append(bytes(data))
            self.pending += len(data)
        if eof:
            self._queue.append(None)
            self._eof_queued = not self._terminal
        self._wake.set()

    def check(self, size: int, eof: bool = False) -> None:
        """Would `put_nowait` take this many bytes?  For a caller that must record it first.

        Raises InputClosed, InputFull, InputRefused.
        """
        if self._closed or self._eof_queued:
            raise InputClosed("standard input is closed")
        if self.pending and self.pending + size > self._limit:
            raise InputFull(f"{self.pending} bytes of input wait to be read")
        if eof and self._terminal and self._settings().eof is None:
            raise InputRefused("the terminal's EOF character is disabled")

    def _settings(self) -> LineSettings:
        try:
            return LineSettings.of(self._fd)
        except OSError as error:
            raise InputClosed("the terminal is gone") from error

    async def run(self) -> None:
        """Write what is queued until `close`, the end of the pipe, or the reader's end."""
        try:
            with self._scope:
                while not self._closed:
                    await self._write_next()
        except (BrokenPipeError, trio.ClosedResourceError, InputClosed):
            pass  # nobody reads any more, which later callers of put_nowait are told
        except OSError as error:
            if not self._terminal:
                raise
            del error  # EIO: the terminal was hung up
        finally:
            self.close()

    async def _write_next(self) -> None:
        while not self._queue:
            self._wake = trio.Event()
            await self._wake.wait()
        item = self._queue[0]
        if item is None:
            await self._write_eof()
        else:
            await self._write(item)
        if not self._closed:
            self._queue.popleft()
            await trio.lowlevel.checkpoint()

    async def _write_eof(self) -> None:
        if not self._terminal:
            self._closed = True
            self._close_stdin()
            return
        settings = self._settings()
        if settings.eof is not None:
            key = bytes([settings.eof])
            keys = key if self._line.empty or not settings.canonical else key * 2
            self.pending += len(keys)
            await self._write(keys)

    async def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view and not self._closed:
            try:
                written = os.write(self._fd, view[:_WRITE_SIZE])
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._fd)
                continue
            if self._terminal:
                self._line.feed(bytes(view[:written]), self._settings())
            self.pending -= written
            view = view[written:]
            self._on_write()
            await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """End `run` at once, whatever is queued; later input raises InputClosed."""
        self._closed = True
        self._queue.clear()
        self.pending = 0
        self._scope.cancel()
