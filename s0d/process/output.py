"""Read what a process writes, in batches, as fast as it is taken and no faster."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Awaitable, Callable, Iterable

import trio

CHUNK_SIZE = 64 * 1024
BATCH_SIZE = 4 * CHUNK_SIZE
_GROWN_PIPE = 256 * 1024
_TERMINAL_BUFFER = 256 * 1024  # the kernel keeps 64 KiB and a page or two

# A storm of tiny writes: this many short reads, each this soon (s) after the last one.
_STORM_READS = 4
_STORM_GAP = 0.001
_STORM_NAP = 0.002

Emit = Callable[[list[bytes]], Awaitable[None]]


class OutputPump:
    """Reads one descriptor until its end.

    A batch is a list of chunks of at most 64 KiB each, in order, about 256 KiB in all.  Pipes
    are read until a read comes back short, terminals until they are empty (the kernel gives at
    most 4095 bytes a read there), small reads joined.  The first bytes after a silence are
    emitted at once; in a storm of tiny writes on a pipe the pump naps *after* it has emitted,
    so that nothing that was read is ever held back.
    """

    def __init__(self, fd: int, *, terminal: bool = False) -> None:
        self.fd = fd
        self.ended = trio.Event()  # end of file, or `run` was left
        self.last_read = trio.current_time()
        self.bytes_read = 0
        self._terminal = terminal
        self._busy = False
        self._left: int | None = None  # bytes that `run` may still read, once `finish` was called
        self._last_wake = float("-inf")
        self._wait_scope: trio.CancelScope | None = None
        self._short_reads = 0
        self._full_reads = 0
        self._grown = terminal

    def expect_reply(self) -> None:
        """Somebody wrote to the process and waits: what looks like a storm may be a dialogue."""
        self._short_reads = 0

    async def run(self, emit: Emit) -> None:
        """Read until end of file, or after `finish` until nothing is there.

        While `emit` waits nothing is read, and the process waits once its pipe is full.
        """
        try:
            while True:
                woken_at = await self._readable()
                batch, more = self._read_batch()
                if batch:
                    self._busy = True
                    await emit(batch)
                    self._busy = False
                    self.last_read = trio.current_time()
                if not more or self._is_finished(batch):
                    return
                await self._nap_in_storm(woken_at, batch)
        finally:
            self.ended.set()

    def _is_finished(self, batch: list[bytes]) -> bool:
        if self._left is None:
            return False
        self._left -= sum(map(len, batch))
        return not batch or self._left <= 0

    async def _readable(self) -> float:
        """Wait for something to read, or for `finish`; a checkpoint in any case."""
        if self._left is not None:
            await trio.lowlevel.checkpoint()
        else:
            with trio.CancelScope() as self._wait_scope:
                await trio.lowlevel.wait_readable(self.fd)
            self._wait_scope = None
        return trio.current_time()

    def _read_batch(self) -> tuple[list[bytes], bool]:
        """What is there, up to a batch, and whether more may come."""
        chunks: list[bytes] = []
        size = 0
        more = True
        while size < BATCH_SIZE:
            data = self._read()
            if not data:
                more = data is None
                break
            chunks.append(data)
            size += len(data)
            if len(data) < CHUNK_SIZE and not self._terminal:
                break
        self.bytes_read += size
        self._note_size(size)
        return (_joined(chunks) if self._terminal else chunks), more

    def _read(self) -> bytes | None:
        """One read: b"" at the end, None when there is nothing now."""
        try:
            return os.read(self.fd, CHUNK_SIZE)
        except BlockingIOError:
            return None
        except OSError as error:
            # A terminal whose last slave was closed.
            if error.errno == errno.EIO and self._terminal:
                return b""
            raise

    def _note_size(self, size: int) -> None:
        """Make the pipe larger once it was found full twice on end."""
        self._full_reads = self._full_reads + 1 if size >= CHUNK_SIZE else 0
        if self._full_reads < 2 or self._grown:
            return
        self._grown = True
        try:
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, _GROWN_PIPE)
        except OSError:
            return  # EPERM: the user's quota of pipe pages is used up; the old size still works

    async def _nap_in_storm(self, woken_at: float, batch: list[bytes]) -> None:
        if self._terminal:
            return
        short = sum(map(len, batch)) < CHUNK_SIZE // 2
        soon = woken_at - self._last_wake < _STORM_GAP
        self._last_wake = trio.current_time()
        self._short_reads = self._short_reads + 1 if short and soon else 0
        if self._short_reads >= _STORM_READS and self._left is None:
            await trio.sleep(_STORM_NAP)
            self._last_wake = trio.current_time()

    async def drain(self, silence: float = 1.0, total: float = 5.0) -> None:
        """After the leader's exit: `drain` of this pump alone."""
        await drain([self], silence, total)

    def finish(self) -> None:
        """Let `run` return once nothing is left to read, though others may hold the other end.

        To be called when every process of the attempt is dead: what they wrote is read, and what
        a stranger who was handed the descriptor may still write is not waited for; nor does
        his flood keep `run`, which reads no more than was in the kernel's buffer at this moment.
        """
        self._left = _TERMINAL_BUFFER if self._terminal else _pipe_size(self.fd)
        if self._wait_scope is not None:
            self._wait_scope.cancel()

    def idle_since(self) -> float:
        """When data came last; now, while a batch is being taken."""
        return trio.current_time() if self._busy else self.last_read


def _pipe_size(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ)


def _joined(chunks: list[bytes]) -> list[bytes]:
    """The same bytes in chunks of CHUNK_SIZE."""
    if len(chunks) < 2:
        return chunks
    whole = b"".join(chunks)
    return [whole[at : at + CHUNK_SIZE] for at in range(0, len(whole), CHUNK_SIZE)]


async def drain(pumps: Iterable[OutputPump], silence: float = 1.0, total: float = 5.0) -> None:
    """Wait until all pumps are at their end, none had data for `silence` seconds, or `total`.

    The pumps go on running; `finish` ends them.
    """
    pumps = list(pumps)
    start = trio.current_time()
    await trio.lowlevel.checkpoint()
    with trio.move_on_at(start + total):
        while any(not pump.ended.is_set() for pump in pumps):
            deadline = max(start, *(pump.idle_since() for pump in pumps)) + silence
            if deadline <= trio.current_time():
                return
            with trio.move_on_at(deadline):
                for pump in pumps:
                    await pump.ended.wait()
