"""The WebSocket of a session: order, durability, and how it closes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from wsproto.events import BytesMessage, CloseConnection, Ping

from s0d.model.errors import InputBufferFull, SessionConflict, Unavailable
from tests.api.fake import FakeSession, FakeSupervisor
from tests.api.harness import Closed, Served, b64, handshake, serving


def target(session: FakeSession, query: str = "") -> str:
    return f"/api/v1/sessions/{session.id}/ws{query}"


def inputs(session: FakeSession) -> list[str]:
    """The ids of the inputs that were accepted."""
    return [command[1] for command in session.commands]


def typed(data: bytes, **more: Any) -> dict[str, Any]:
    return {"type": "input", "input_id": data.decode(), "data_base64": b64(data), **more}


async def test_events_come_from_the_cursor_on(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    for n in range(3):
        session.append(data=b"%d" % n)
    socket = await served.websocket(target(session, "?after=1"))
    assert session.attachments == 1
    first = await socket.receive()
    assert first == {
        "type": "event",
        "event": {
            "seq": 2,
            "session_id": session.id,
            "runtime_generation": 1,
            "attempt_id": "att-1",
            "type": "output",
            "stream": "stdout",
            "data_base64": b64(b"1"),
            "occurred_at": "2001-09-09T01:46:40.000000Z",
        },
    }
    session.append("session.ready")
    assert [(await socket.receive())["event"]["seq"] for _ in range(2)] == [3, 4]


@pytest.mark.parametrize(("query", "status"), [("?after=9", 400), ("?after=x", 400)])
async def test_bad_cursor_is_refused_before_the_upgrade(
    served: Served, supervisor: FakeSupervisor, query: str, status: int
) -> None:
    session = supervisor.default.add()
    wire = await served.connect()
    await wire.send(handshake(target(session, query)))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (status, "invalid_request")
    assert session.attachments == 0


async def test_expired_cursor_is_refused_before_the_upgrade(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add(max_bytes=1 << 18)
    while session.journal.earliest < 3:
        session.append(data=bytes(16 << 10))
    wire = await served.connect()
    await wire.send(handshake(target(session, "?after=0")))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (410, "event_cursor_expired")
    assert answer.json["error"]["details"]["earliest"] == session.journal.earliest


async def test_requests_reach_the_session_in_order(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    await socket.send(typed(b"a", request_id="1", expected_attempt_id="att-1"))
    await socket.send(typed(b"b", eof=True))
    await socket.send({"type": "signal", "signal": "usr1", "request_id": "3"})
    await socket.send({"type": "resize", "rows": 3, "cols": 4, "expected_attempt_id": "att-1"})
    answers = [m for _ in range(4) for m in await socket.until("ack") if m["type"] == "ack"]
    assert answers == [
        {"type": "ack", "request_id": "1"},
        {"type": "ack"},
        {"type": "ack", "request_id": "3"},
        {"type": "ack"},
    ]
    assert session.commands == [
        ("input", "a", b"a", False, "att-1"),
        ("input", "b", b"b", True, None),
        ("signal", 10, None),
        ("resize", 3, 4, "att-1"),
    ]


async def test_acks_wait_for_durability_and_keep_their_order(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """Commands are accepted at once, events flow, and errors too wait for their turn."""
    session = supervisor.default.add()
    session.durable = trio.Event()
    socket = await served.websocket(target(session))
    await socket.send(typed(b"a", request_id="a"))
    await socket.send({"type": "nonsense", "request_id": "b"})
    await socket.send(typed(b"c", request_id="c"))
    assert [(await socket.receive())["event"]["seq"] for _ in range(2)] == [1, 2]
    assert len(session.commands) == 2
    assert session.waited == [1]  # and nothing was answered: the next message is an event
    session.append("session.ready")
    assert (await socket.receive())["event"]["type"] == "session.ready"
    session.durable.set()
    answers = [await socket.receive() for _ in range(3)]
    assert [(m["type"], m["request_id"]) for m in answers] == [
        ("ack", "a"),
        ("error", "b"),
        ("ack", "c"),
    ]
    assert session.waited == [1, 2]


async def test_requests_are_taken_while_a_backlog_is_being_sent(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """The client does not read at all; its input is accepted all the same."""
    session = supervisor.default.add()
    for _ in range(300):
        session.append(data=bytes(64 << 10))
    socket = await served.websocket(target(session))
    for n in range(20):
        await socket.send(typed(b"%d" % n))
    await session.until(lambda session: len(session.commands) == 20)
    messages = [await socket.receive() for _ in range(340)]
    events = [m["event"]["seq"] for m in messages if m["type"] == "event"]
    assert events == list(range(1, 321))
    assert sum(m["type"] == "ack" for m in messages) == 20


MALFORMED: Any = [
    ("", ""),
    ("{", ""),
    ("[]", ""),
    ("null", ""),
    ("{} {}", ""),
    ('{"type": 1}', "type"),
    ('{"type": "input"}', "input_id"),
    ('{"type": "input", "input_id": ""}', "input_id"),
    ('{"type": "input", "input_id": "x"}', "data_base64"),
    ('{"type": "input", "input_id": "x", "data_base64": "*"}', "data_base64"),
    ('{"type": "signal", "signal": "NOPE"}', "signal"),
    ('{"type": "resize", "rows": 0, "cols": 1}', "rows"),
    ('{"type": "resize", "rows": 1}', "cols"),
    ('{"type": "event"}', "type"),
    ('{"type": "' + "[" * 100_000 + '"}', ""),
    ('{"x": ' + "[" * 100_000, ""),
    ('{"type": "input", "input_id": "\\ud800", "eof": true}', ""),
]


async def test_malformed_message_is_an_error_and_no_end(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    for n, (message, field) in enumerate(MALFORMED):
        await socket.send(message)
        [*_, error] = await socket.until("error")
        assert error["code"] == "invalid_request"
        assert field in error["error"]
        await socket.send(typed(b"still there %d" % n))
        await socket.until("ack")
    assert inputs(session) == [f"still there {n}" for n in range(len(MALFORMED))]


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SessionConflict("not running"), "session_conflict"),
        (InputBufferFull("full"), "input_buffer_full"),
        (Unavailable("disk"), "unavailable"),
    ],
)
async def test_refused_request_is_an_error_and_no_end(
    served: Served, supervisor: FakeSupervisor, error: Exception, code: str
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    session.refuse = error
    await socket.send(typed(b"x", request_id="r"))
    assert await socket.receive() == {
        "type": "error",
        "request_id": "r",
        "error": str(error),
        "code": code,
    }
    session.refuse = None
    await socket.send(typed(b"y"))
    await socket.until("ack")


@pytest.mark.parametrize("data", [b"x", b""])
async def test_binary_messages_close_with_1003(
    served: Served, supervisor: FakeSupervisor, data: bytes
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    await socket.stream.send_all(socket.frame(BytesMessage(data)))
    assert (await socket.receive()).code == 1003
    await session.detached()


async def test_delete_closes_after_the_last_event(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    session.append("attempt.exited", reason="session_deleted")
    session.end()
    assert (await socket.receive())["event"]["type"] == "attempt.exited"
    assert await socket.receive() == Closed(1000, "session deleted")
    await session.detached()


async def test_shutdown_closes_with_1001(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, two_steps=True) as served:
        socket = await served.websocket(target(session))
        served.shutdown.set()
        assert (await socket.receive()).code == 1001
        await session.detached()


async def test_overtaken_reader_is_closed_with_1008(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add(max_bytes=1 << 20)
    socket = await served.websocket(target(session), window=1 << 14)
    for _ in range(160):
        session.append(data=bytes(64 << 10))
        await trio.lowlevel.checkpoint()
    seen = 0
    while isinstance(message := await socket.receive(), dict):
        seen += 1
        assert message["event"]["seq"] == seen
    assert message == Closed(1008, "event_cursor_expired")


async def test_client_may_close(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    await socket.stream.send_all(socket.frame(CloseConnection(1000, "bye")))
    assert (await socket.receive()).code == 1000
    assert await socket.stream.receive_some() == b""
    await session.detached()


async def test_client_may_vanish(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(target(session))
    assert session.attachments == 1
    await socket.stream.aclose()
    await session.detached()


async def test_pings_come_in_silence(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, ping_interval=0.02) as served:
        socket = await served.websocket(target(session))
        for _ in range(3):
            assert isinstance(await socket.receive(), Ping)
