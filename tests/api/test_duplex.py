"""Input that waits for its program, and output in frames."""

from __future__ import annotations

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from s0d.api.duplex import Duplex, Patience
from s0d.api.streams import BATCH, Streams, binary_frame
from s0d.api.workarounds import CUT
from s0d.model.errors import InputBufferFull, SessionConflict
from s0d.wire.attach import Reason


class Full:
    """A queue that is full until a time."""

    def __init__(self, until: float) -> None:
        self.until = until
        self.taken = 0

    async def put(self) -> None:
        await trio.lowlevel.checkpoint()
        if trio.current_time() < self.until:
            raise InputBufferFull("full")
        self.taken += 1


async def test_input_waits_until_there_is_room(autojump_clock: MockClock) -> None:
    queue, patience = Full(trio.current_time() + 29), Patience()
    await patience.put(queue.put)
    assert queue.taken == 1
    assert trio.current_time() < queue.until + 0.2


async def test_a_program_that_never_reads_is_waited_for_once(autojump_clock: MockClock) -> None:
    queue, patience = Full(float("inf")), Patience()
    began = trio.current_time()
    for _ in range(10):
        with pytest.raises(InputBufferFull):
            await patience.put(queue.put)
    assert 30 <= trio.current_time() - began < 31
    queue.until = 0
    await patience.put(queue.put)
    queue.until = trio.current_time() + 10  # it has read: it is worth waiting for again
    await patience.put(queue.put)
    assert queue.taken == 2


async def test_any_other_refusal_is_raised_at_once() -> None:
    async def put() -> None:
        raise SessionConflict("not running")

    with pytest.raises(SessionConflict):
        await Patience().put(put)


class FakeWebsocket:
    def __init__(self, **extensions: Any) -> None:
        self.scope = {"extensions": extensions}
        self.sent: list[Any] = []

    async def send(self, data: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(data)


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, BATCH, BATCH + 1, 3 * BATCH])
async def test_output_goes_out_whole_in_messages_of_a_bounded_size(size: int) -> None:
    data = bytes(range(256)) * (size // 256 + 1)
    chunks = [data[:size][at : at + 1000] for at in range(0, size, 1000)]
    plain: Any = FakeWebsocket()
    await Duplex(plain, Streams()).output(chunks)
    assert b"".join(plain.sent) == data[:size]
    assert all(0 < len(message) <= BATCH for message in plain.sent)
    framed: Any = FakeWebsocket(**{"s0d.websocket.frames": {}})
    await Duplex(framed, Streams()).output(chunks)
    assert b"".join(framed.sent) == b"".join(map(binary_frame, plain.sent))
    assert len(framed.sent) <= 1


def test_a_binary_frame_is_one_of_the_rfc() -> None:
    assert binary_frame(b"ab") == b"\x82\x02ab"
    assert binary_frame(bytes(300))[:4] == b"\x82\x7e\x01\x2c"
    assert binary_frame(bytes(70_000))[:10] == b"\x82\x7f" + (70_000).to_bytes(8, "big")


class StuckWebsocket:
    """Its client does not read; what waits for that ends when the connection is cut."""

    def __init__(self) -> None:
        self._cut = trio.Event()
        self.scope = {"state": {CUT: self._cut.set}}

    async def send(self, _: Any) -> None:
        with trio.CancelScope(shield=True):
            await self._cut.wait()

    async def close(self, code: int, reason: str) -> None:
        await trio.lowlevel.checkpoint()


async def test_what_is_gone_waits_for_no_client(autojump_clock: MockClock) -> None:
    websocket: Any = StuckWebsocket()
    began = trio.current_time()
    await Duplex(websocket, Streams()).end(Reason.DELETED)
    assert trio.current_time() - began == pytest.approx(10)
