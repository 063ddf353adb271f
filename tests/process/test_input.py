"""What was accepted is written, in order; what cannot be is refused; nothing is held up."""

from __future__ import annotations

import hashlib
import os
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
import trio
import trio.testing

from s0d.process.errors import InputClosed, InputFull, InputRefused
from s0d.process.input import QUEUE_LIMIT, InputWriter

from .conftest import PATIENCE, Running, Start

Write = Callable[[Running], Awaitable[InputWriter]]


@pytest.fixture
async def writer_of(nursery: trio.Nursery, start: Start) -> AsyncIterator[Write]:
    writers: list[InputWriter] = []

    async def make(running: Running) -> InputWriter:
        process = running.process
        fd = process.master_fd if process.terminal else process.stdin_fd
        assert fd is not None
        writer = InputWriter(fd, terminal=process.terminal, close_stdin=process.close_stdin)
        writers.append(writer)
        nursery.start_soon(writer.run)
        return writer

    yield make
    for writer in writers:
        writer.close()
    await trio.testing.wait_all_tasks_blocked()


async def put(writer: InputWriter, data: bytes, eof: bool = False) -> None:
    """As a patient client does."""
    with trio.fail_after(PATIENCE):
        while True:
            try:
                writer.put_nowait(data, eof)
            except InputFull:
                await trio.sleep(0.001)
            else:
                return


async def test_eight_megabytes_through_cat(start: Start, writer_of: Write) -> None:
    running = await start("/bin/cat")
    writer = await writer_of(running)
    data = os.urandom(8 * 1024 * 1024)
    for at in range(0, len(data), 100_000):
        await put(writer, data[at : at + 100_000])
    await put(writer, b"", eof=True)
    result = await running.ended()
    assert result.status.exit_code == 0
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()


async def test_a_single_larger_input_is_taken_while_the_queue_is_empty(
    start: Start, writer_of: Write
) -> None:
    running = await start("/usr/bin/sha256sum")
    writer = await writer_of(running)
    data = os.urandom(5 * QUEUE_LIMIT)
    writer.put_nowait(data, eof=True)
    result = await running.ended()
    assert result.stdout.split()[0].decode() == hashlib.sha256(data).hexdigest()


async def test_bounded_by_what_was_not_written(start: Start, writer_of: Write) -> None:
    running = await start("/bin/sleep", "1000")
    writer = await writer_of(running)
    writer.put_nowait(b"x" * QUEUE_LIMIT)
    await trio.testing.wait_all_tasks_blocked()
    in_pipe = QUEUE_LIMIT - writer.pending
    assert in_pipe == 65536
    writer.put_nowait(b"y" * in_pipe)
    with pytest.raises(InputFull):
        writer.put_nowait(b"z")
    with pytest.raises(InputFull):
        writer.put_nowait(b"z", eof=True)
    assert writer.pending == QUEUE_LIMIT
    writer.put_nowait(b"", eof=True)  # no bytes: there is room
    with pytest.raises(InputClosed):
        writer.put_nowait(b"z")


async def test_a_child_that_never_reads_holds_nothing_up(start: Start) -> None:
    running = await start("/bin/sleep", "1000")
    assert running.process.stdin_fd is not None
    writer = InputWriter(running.process.stdin_fd, close_stdin=running.process.close_stdin)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.put_nowait(b"x" * QUEUE_LIMIT, eof=True)
        await trio.testing.wait_all_tasks_blocked()
        writer.close()
    assert writer.pending == 0
    with pytest.raises(InputClosed):
        writer.put_nowait(b"x")


async def test_a_reader_that_closes_closes_input(start: Start, writer_of: Write) -> None:
    running = await start("/bin/sh", "-c", "exec <&-; echo closed; exec sleep 1000")
    writer = await writer_of(running)
    await running.output(b"closed")
    writer.put_nowait(b"x")
    await trio.testing.wait_all_tasks_blocked()
    with pytest.raises(InputClosed):
        writer.put_nowait(b"x")


async def test_eof_comes_after_the_bytes(start: Start, writer_of: Write) -> None:
    running = await start("/usr/bin/wc", "-c")
    writer = await writer_of(running)
    for _ in range(10):
        await put(writer, b"x" * 60_000)
    writer.put_nowait(b"x", eof=True)
    assert (await running.ended()).stdout.strip() == b"600001"


# --- terminals --------------------------------------------------------------------------------

READER = """
import os
while True:
    data = os.read(0, 65536)
    os.write(1, b"<%s>" % data)
    if data.endswith(b"bye"): break
"""


@pytest.mark.parametrize(
    "data", [b"", b"line\n", b"unfinished", b"two\nhalf", b"gone\x7f\x7f\x7f\x7f"]
)
async def test_eof_of_a_terminal_is_one_end_of_file(
    start: Start, writer_of: Write, data: bytes
) -> None:
    """The reader sees one empty read, no more, and later input still reaches it."""
    running = await start("python3", "-c", "print('up', flush=True)\n" + READER, terminal=True)
    await running.output(b"up")
    writer = await writer_of(running)
    writer.put_nowait(data, eof=True)
    await running.output(b"<>")
    writer.put_nowait(b"bye", eof=True)
    # The second EOF character meets nobody any more.
    result = await running.ended()
    assert result.stdout.count(b"<>") == 1
    assert b"<bye>" in result.stdout


async def test_eof_ends_cat_in_a_terminal(start: Start, writer_of: Write) -> None:
    for data in (b"", b"a", b"a\n"):
        running = await start("/bin/cat", terminal=True)
        (await writer_of(running)).put_nowait(data, eof=True)
        assert (await running.ended()).status.exit_code == 0


async def test_eof_in_raw_mode_is_the_plain_character(start: Start, writer_of: Write) -> None:
    code = "import tty, os; tty.setraw(0); os.write(1, b'up'); os.write(1, b'<%s>' % os.read(0, 9))"
    running = await start("python3", "-c", code, terminal=True)
    await running.output(b"up")
    (await writer_of(running)).put_nowait(b"", eof=True)
    assert b"<\x04>" in (await running.ended()).stdout


async def test_a_disabled_eof_is_refused_and_nothing_is_queued(
    start: Start, writer_of: Write
) -> None:
    running = await start(
        "/bin/sh", "-c", "stty eof undef; echo up; read x; echo got $x", terminal=True
    )
    await running.output(b"up")
    writer = await writer_of(running)
    with pytest.raises(InputRefused):
        writer.put_nowait(b"lost", eof=True)
    writer.put_nowait(b"kept\n")
    await running.output(b"got kept")


async def test_another_eof_character_is_respected(start: Start, writer_of: Write) -> None:
    running = await start("/bin/sh", "-c", "stty eof ^B; echo up; exec cat", terminal=True)
    await running.output(b"up")
    (await writer_of(running)).put_nowait(b"", eof=True)
    assert (await running.ended()).status.exit_code == 0


@pytest.mark.parametrize("raw", [False, True])
async def test_a_slow_reader_of_a_terminal_gets_everything(
    start: Start, writer_of: Write, raw: bool
) -> None:
    code = (
        "import hashlib, os, sys, time, termios, tty\n"
        f"tty.setraw(0) if {raw} else None\n"
        "a = termios.tcgetattr(0); a[3] &= ~termios.ECHO; termios.tcsetattr(0, 0, a)\n"
        "print('up', flush=True); n = 0; h = hashlib.sha256()\n"
        "while n < 400000:\n"
        "    data = os.read(0, 4096); n += len(data); h.update(data)\n"
        "    time.sleep(0.001 if n % 7 == 0 else 0)\n"
        "print(n, h.hexdigest(), flush=True)\n"
    )
    running = await start("python3", "-c", code, terminal=True)
    await running.output(b"up")
    writer = await writer_of(running)
    data = b"".join(b"%099d\n" % number for number in range(4000))
    for at in range(0, len(data), 9_973):
        await put(writer, data[at : at + 9_973])
    result = await running.ended()
    assert hashlib.sha256(data).hexdigest().encode() in result.stdout


async def test_a_terminal_nobody_reads_does_not_spin_or_hang(start: Start) -> None:
    running = await start("/bin/sh", "-c", "stty raw -echo; echo up; sleep 1000", terminal=True)
    await running.output(b"up")
    assert running.process.master_fd is not None
    writer = InputWriter(running.process.master_fd, terminal=True)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        writer.put_nowait(b"x" * QUEUE_LIMIT)
        await trio.testing.wait_all_tasks_blocked(0.05)
        before = sum(os.times()[:2])
        await trio.sleep(0.3)
        spent = sum(os.times()[:2]) - before
        assert writer.pending > QUEUE_LIMIT // 2
        writer.close()
    assert spent < 0.1


async def test_a_terminal_that_is_gone_closes_input() -> None:
    master, slave = os.openpty()
    os.set_blocking(master, False)
    writer = InputWriter(master, terminal=True)
    os.close(slave)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(writer.run)
        try:
            writer.put_nowait(b"x")
        except InputClosed:
            nursery.cancel_scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    os.close(master)
