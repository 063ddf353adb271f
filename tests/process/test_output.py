"""Every byte, in order, as fast as it is taken."""

from __future__ import annotations

import fcntl
import hashlib
import os
import tty
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from s0d.process import output
from s0d.process.output import BATCH_SIZE, CHUNK_SIZE, OutputPump, drain

from .conftest import PATIENCE, Run


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    reading, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    yield reading, writing
    for fd in (reading, writing):
        try:
            os.close(fd)
        except OSError:
            continue


def fill(writing: int) -> int:
    """Write until nothing goes in any more; returns how much went in."""
    written = 0
    while True:
        try:
            written += os.write(writing, b"x" * 4096)
        except BlockingIOError:
            return written


class Sink:
    """Takes batches, and keeps when each came."""

    def __init__(self) -> None:
        self.batches: list[list[bytes]] = []
        self.times: list[float] = []
        self.came = trio.Event()

    async def emit(self, chunks: list[bytes]) -> None:
        self.batches.append(chunks)
        self.times.append(trio.current_time())
        came, self.came = self.came, trio.Event()
        came.set()
        await trio.lowlevel.checkpoint()

    @property
    def data(self) -> bytes:
        return b"".join(chunk for batch in self.batches for chunk in batch)

    async def has(self, size: int) -> None:
        with trio.fail_after(PATIENCE):
            while len(self.data) < size:
                await self.came.wait()


async def test_batches_and_chunks_are_bounded_and_whole(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1024 * 1024)
    data = os.urandom(1024 * 1024)
    assert os.write(writing, data) == len(data)
    os.close(writing)
    sink = Sink()
    await OutputPump(reading).run(sink.emit)
    assert sink.data == data
    assert all(0 < len(chunk) <= CHUNK_SIZE for batch in sink.batches for chunk in batch)
    assert all(sum(map(len, batch)) <= BATCH_SIZE for batch in sink.batches)
    assert len(sink.batches) == 4


@pytest.mark.parametrize("terminal", [False, True])
async def test_all_that_a_program_wrote_before_it_exited(run: Run, terminal: bool) -> None:
    for _ in range(20):
        result = await run("/usr/bin/seq", "4000", terminal=terminal)
        end = "\r\n" if terminal else "\n"
        assert result.stdout.decode() == "".join(f"{n}{end}" for n in range(1, 4001))


async def test_a_flood_arrives_whole(run: Run) -> None:
    code = "import os,sys; [sys.stdout.buffer.write(bytes([i%256])*99991) for i in range(500)]"
    result = await run("python3", "-c", code)
    expected = b"".join(bytes([i % 256]) * 99991 for i in range(500))
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(expected).digest()


async def test_streams_are_kept_apart(run: Run) -> None:
    script = "for i in 1 2 3 4 5; do echo out$i; echo err$i >&2; done"
    result = await run("/bin/sh", "-c", script)
    assert result.stdout == b"out1\nout2\nout3\nout4\nout5\n"
    assert result.stderr == b"err1\nerr2\nerr3\nerr4\nerr5\n"


async def test_nothing_is_read_while_a_batch_is_being_taken(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    taken = trio.Event()

    async def emit(_: list[bytes]) -> None:
        await taken.wait()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(OutputPump(reading).run, emit)
        os.write(writing, b"first")
        await trio.testing.wait_all_tasks_blocked()
        assert fill(writing) == fcntl.fcntl(writing, fcntl.F_GETPIPE_SZ)
        nursery.cancel_scope.cancel()


async def test_a_pipe_that_keeps_full_grows_once(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    before = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
    sizes = []

    async def emit(_: list[bytes]) -> None:
        sizes.append(fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ))
        if len(sizes) < 4:
            os.write(writing, b"x" * CHUNK_SIZE)
        else:
            os.close(writing)

    os.write(writing, b"little")
    await OutputPump(reading).run(emit)
    assert sizes == [before, before, 4 * CHUNK_SIZE, 4 * CHUNK_SIZE]


async def test_a_quota_on_pipes_is_no_error(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, writing = pipe
    real = fcntl.fcntl

    def refuse(fd: int, command: int, *rest: int) -> int:
        if command == fcntl.F_SETPIPE_SZ:
            raise PermissionError(1, "over the quota")
        return real(fd, command, *rest)

    monkeypatch.setattr(output.fcntl, "fcntl", refuse)
    sink = Sink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(OutputPump(reading).run, sink.emit)
        for round_ in range(1, 5):
            os.write(writing, b"x" * CHUNK_SIZE)
            await sink.has(round_ * CHUNK_SIZE)
        os.close(writing)


async def test_the_first_byte_after_silence_is_not_delayed_a_storm_is_batched(
    pipe: tuple[int, int],
) -> None:
    reading, writing = pipe
    sink = Sink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(OutputPump(reading).run, sink.emit)
        with trio.fail_after(PATIENCE):
            os.write(writing, b"0000")
            await sink.has(4)
            for number in range(1, 2000):
                os.write(writing, b"%04d" % number)
                await trio.lowlevel.checkpoint()
            await sink.has(8000)
        storm = len(sink.batches)
        os.close(writing)
    assert sink.data == b"".join(b"%04d" % number for number in range(2000))
    assert sink.batches[0] == [b"0000"]
    assert storm < 500


async def test_a_dialogue_is_no_storm(pipe: tuple[int, int], autojump_clock: object) -> None:
    """Under the mock clock time passes only when the pump naps."""
    reading, writing = pipe
    sink = Sink()
    pump = OutputPump(reading)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, sink.emit)
        began = trio.current_time()
        for number in range(50):
            pump.expect_reply()
            os.write(writing, b"x")
            await sink.has(number + 1)
        spoken = trio.current_time() - began
        for number in range(50):
            os.write(writing, b"x")
            await sink.has(51 + number)
        stormy = trio.current_time() - began - spoken
        os.close(writing)
    assert spoken == 0
    assert stormy > 0.02


async def test_one_flood_does_not_starve_others(pipe: tuple[int, int]) -> None:
    reading, writing = os.open("/dev/zero", os.O_RDONLY | os.O_CLOEXEC), pipe[1]
    assert writing
    batches = 0

    async def emit(_: list[bytes]) -> None:
        nonlocal batches
        batches += 1

    pump = OutputPump(reading)
    pump._readable = _always  # type: ignore[method-assign]  # epoll takes no /dev/zero
    turns = 0
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, emit)
        while batches < 20:
            turns += 1
            await trio.lowlevel.checkpoint()
        nursery.cancel_scope.cancel()
    os.close(reading)
    assert turns >= 10


async def _always() -> float:
    await trio.lowlevel.checkpoint()
    return trio.current_time()


# --- the end ----------------------------------------------------------------------------------


async def test_drain_ends_with_the_end(pipe: tuple[int, int], autojump_clock: object) -> None:
    reading, writing = pipe
    pump, sink = OutputPump(reading), Sink()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, sink.emit)
        os.write(writing, b"last")
        os.close(writing)
        began = trio.current_time()
        await pump.drain()
    assert sink.data == b"last"
    assert trio.current_time() == began


async def test_drain_ends_after_silence(pipe: tuple[int, int], autojump_clock: object) -> None:
    reading, writing = pipe
    pump, sink = OutputPump(reading), Sink()

    async def late() -> None:
        for _ in range(3):
            await trio.sleep(0.75)
            os.write(writing, b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, sink.emit)
        nursery.start_soon(late)
        began = trio.current_time()
        await pump.drain(1.0, 5.0)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert took == pytest.approx(3 * 0.75 + 1.0)


async def test_drain_ends_in_time(pipe: tuple[int, int], autojump_clock: object) -> None:
    reading, writing = pipe
    pump, sink = OutputPump(reading), Sink()

    async def babble() -> None:
        while True:
            await trio.sleep(0.5)
            os.write(writing, b"x")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, sink.emit)
        nursery.start_soon(babble)
        began = trio.current_time()
        await pump.drain(1.0, 5.0)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    assert took == 5.0


async def test_drain_of_two_counts_silence_of_both(
    pipe: tuple[int, int], autojump_clock: object
) -> None:
    reading, writing = pipe
    other_reading, other_writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    pumps = [OutputPump(reading), OutputPump(other_reading)]
    sink = Sink()

    async def late() -> None:
        await trio.sleep(0.9)
        os.write(other_writing, b"x")

    async with trio.open_nursery() as nursery:
        for pump in pumps:
            nursery.start_soon(pump.run, sink.emit)
        nursery.start_soon(late)
        began = trio.current_time()
        await drain(pumps)
        took = trio.current_time() - began
        nursery.cancel_scope.cancel()
    os.close(other_reading)
    os.close(other_writing)
    assert writing
    assert took == pytest.approx(1.9)


async def test_finish_reads_the_rest_and_waits_for_nobody(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    pump, sink = OutputPump(reading), Sink()
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(pump.run, sink.emit)
            await trio.testing.wait_all_tasks_blocked()
            os.write(writing, b"x" * 50_000)
            pump.finish()
    assert len(sink.data) == 50_000
    assert pump.ended.is_set()


async def test_finish_is_not_kept_by_a_strangers_flood(pipe: tuple[int, int]) -> None:
    reading, writing = pipe
    size = fcntl.fcntl(reading, fcntl.F_GETPIPE_SZ)
    pump = OutputPump(reading)
    read = 0

    async def emit(chunks: list[bytes]) -> None:
        nonlocal read
        read += sum(map(len, chunks))
        os.write(writing, b"y" * 4096)

    os.write(writing, b"x" * size)
    pump.finish()
    with trio.fail_after(PATIENCE):
        await pump.run(emit)
    assert size <= read < 8 * size


async def test_a_terminal_is_drained_into_one_record() -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    pump, sink = OutputPump(master, terminal=True), Sink()
    assert os.write(slave, b"x" * 10_000) == 10_000
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pump.run, sink.emit)
        await sink.has(10_000)
        os.close(slave)
    os.close(master)
    assert sink.data == b"x" * 10_000
    assert len(sink.batches) <= 2
    assert all(len(batch) == 1 for batch in sink.batches)
