"""Ending streams, and encodings that are made once."""

from __future__ import annotations

import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType

from s0d.api.streams import BATCH, Streams, sse_frames, text_frame, websocket_frames, with_more
from s0d.wire.event import EventEncoder
from tests.api.fake import FakeSupervisor


@given(st.lists(st.one_of(st.text(max_size=200), st.integers(120, 70_000).map("x".__mul__))))
def test_frames_are_read_as_the_messages_they_hold(messages: list[str]) -> None:
    client = Connection(ConnectionType.CLIENT)
    client.receive_data(b"".join(text_frame(message.encode()) for message in messages))
    text, read = "", []
    for event in client.events():
        text += event.data  # type: ignore[union-attr]
        if event.message_finished:  # type: ignore[union-attr]
            read.append(text)
            text = ""
    assert read == messages


async def test_stop_ends_those_who_wait_and_those_who_come(autojump_clock: object) -> None:
    streams = Streams()
    ended = []

    async def stream() -> None:
        with streams.waiting(60) as wait:
            await trio.sleep_forever()
        ended.append(wait.cancelled_caught)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stream)
        nursery.start_soon(stream)
        await trio.testing.wait_all_tasks_blocked()
        assert ended == []
        streams.stop()
    assert ended == [True, True]
    await stream()
    assert ended == [True, True, True]
    assert trio.current_time() < 60


async def test_waiting_ends_by_itself(autojump_clock: object) -> None:
    streams = Streams()
    start = trio.current_time()
    with streams.waiting(15):
        await trio.sleep_forever()
    assert trio.current_time() - start == pytest.approx(15)
    assert not streams.stopped


async def test_block_is_encoded_once_for_all_its_readers(supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    encoder = EventEncoder(session.id)
    with session.cursor() as one, session.cursor() as other:
        session.append(data=b"x")
        blocks = [await cursor.read() for cursor in (one, other)]
        assert blocks[0] is blocks[1] is not None
        assert sse_frames(blocks[0], encoder) is sse_frames(blocks[1], encoder)
        framed = websocket_frames(blocks[0], encoder)
        assert framed is websocket_frames(blocks[1], encoder)
        assert json.loads(framed[4:])["event"]["data_base64"] == "eA=="


async def test_a_burst_is_taken_together_but_bounded(supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    with session.cursor() as cursor:
        for _ in range(10):
            session.append(data=b"x")
        first = await cursor.read()
        assert first is not None
        blocks = await with_more(cursor, first)
        assert [block.last for block in blocks] == list(range(1, 11))
        for _ in range(20):
            session.append(data=bytes(32 << 10))
        first = await cursor.read()
        assert first is not None
        blocks = await with_more(cursor, first)
        assert BATCH // 2 < sum(block.nbytes for block in blocks) <= BATCH
        assert blocks[0].first == 11
