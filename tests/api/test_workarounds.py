"""The faults of Hypercorn and Quart-Trio, by their numbers in `s0d.api.workarounds`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from h11 import LocalProtocolError
from hypercorn.config import Config
from hypercorn.events import RawData
from hypercorn.trio.worker_context import WorkerContext
from wsproto.events import TextMessage

from s0d.api.config import ApiConfig
from s0d.api.connection import Connection, hypercorn_config
from s0d.api.workarounds import H11Protocol, HTTPStream, Inbox, WebsocketConnection, WSStream
from tests.api.fake import FakeSession, FakeSupervisor
from tests.api.harness import AUTH, JSON, LIMIT, Closed, Served, b64, handshake, request, serving

SESSIONS = "/api/v1/sessions"


def typed(text: str) -> dict[str, Any]:
    return {"type": "input", "input_id": text, "data_base64": b64(b"x")}


def inputs(session: FakeSession) -> list[str]:
    return [command[1] for command in session.commands]


@pytest.mark.parametrize("version", [b"1.0", b"1.1"])
async def test_1_connections_close_when_they_should(
    supervisor: FakeSupervisor, short_dir: Path, version: bytes
) -> None:
    """At once, not only when there is no more patience with the client."""
    close = {**AUTH, "Connection": "close"} if version == b"1.1" else AUTH
    asked = request("GET", SESSIONS, close).replace(b"HTTP/1.1", b"HTTP/" + version)
    async with serving(supervisor, short_dir, linger=60) as served:
        wire = await served.connect()
        await wire.send(asked)
        assert (await wire.answer()).status == 200
        assert await wire.closed() == b""


async def test_1_idle_connections_close(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, keep_alive=0.05) as served:
        wire = await served.connect()
        for _ in range(3):
            assert (await wire.ask("GET", SESSIONS)).status == 200
        assert await wire.closed() == b""


async def test_2_handshake_and_frames_in_one_packet(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """The frames are served once the handshake is; other connections never notice."""
    session = supervisor.default.add()
    bystander = await served.websocket(f"{SESSIONS}/{session.id}/ws")
    client = await served.websocket(f"{SESSIONS}/{session.id}/ws")  # only to make frames with
    frames = [client.frame(TextMessage(json.dumps(typed(f"early-{n}")))) for n in range(50)]
    wire = await served.connect()
    await wire.send(handshake(f"{SESSIONS}/{session.id}/ws") + b"".join(frames))
    await session.until(lambda session: len(session.commands) == 50)
    assert inputs(session) == [f"early-{n}" for n in range(50)]
    await bystander.until("event")


async def test_2_refused_handshake_and_frames_in_one_packet(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    frame = b"\x81\x80\x00\x00\x00\x00"
    wire = await served.connect()
    await wire.send(handshake(f"{SESSIONS}/{session.id}/ws", {}) + frame * 1000)
    answer = await wire.answer()
    assert (answer.status, answer.code) == (401, "unauthorized")
    assert (await served.ask("GET", SESSIONS)).status == 200


async def test_2_no_exception_leaves_a_connection(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever else a protocol may raise: it would take the server down, and all beside it."""
    bystander = await served.connect()
    assert (await bystander.ask("GET", "/healthz")).status == 200

    async def handle(protocol: H11Protocol, event: Any) -> None:
        if isinstance(event, RawData):
            raise LocalProtocolError("a fault that nobody knows yet")

    with monkeypatch.context() as patched:
        patched.setattr(H11Protocol, "handle", handle)
        wire = await served.connect()
        await wire.send(request("GET", "/healthz"))
        assert await wire.closed() in (b"", b"<reset>")
    assert "a fault that nobody knows yet" in caplog.text
    assert (await bystander.ask("GET", "/healthz")).status == 200


class Failing(FakeSession):
    """A session with a bug."""

    def view(self) -> Any:
        raise ZeroDivisionError("the secret of the traceback")

    def accept_signal(self, signum: int, attempt_id: str | None) -> Any:
        raise ZeroDivisionError("the secret of the traceback")


@pytest.fixture
def failing(supervisor: FakeSupervisor) -> FakeSession:
    session = supervisor.default.add()
    session.__class__ = Failing
    return session


async def test_2_bug_in_a_handler_stays_in_its_request(
    served: Served, failing: FakeSession, caplog: pytest.LogCaptureFixture
) -> None:
    wire = await served.connect()
    answer = await wire.ask("GET", f"{SESSIONS}/{failing.id}")
    assert (answer.status, answer.code) == (500, "internal_error")
    assert b"secret" not in answer.body
    assert answer.headers["x-request-id"] in caplog.text
    assert (await wire.ask("GET", "/healthz")).status == 200


async def test_7_bug_in_a_websocket_handler_closes_with_1011(
    served: Served, failing: FakeSession
) -> None:
    socket = await served.websocket(f"{SESSIONS}/{failing.id}/ws")
    await socket.send({"type": "signal", "signal": "TERM"})
    assert await socket.receive() == Closed(1011, "")
    await failing.detached()


async def test_3_sending_to_a_client_that_left_still_yields() -> None:
    """Else a stream with much to send would go round without ever letting another task run."""
    for stream in (_stream(HTTPStream), _stream(WSStream)):
        stream.closed = True
        with trio.testing.assert_checkpoints():
            await stream.app_send({"type": "http.response.body", "body": b"x"})
    context = WorkerContext(None)
    connection = Connection(None, ApiConfig(), Config(), context, _Gone(), None)  # type: ignore[arg-type]
    with trio.testing.assert_checkpoints():
        await connection._send(RawData(b"x"))


def _stream(kind: Any) -> Any:
    return kind(None, Config(), WorkerContext(None), None, False, None, None, None, 1)


class _Gone:
    """A stream whose other end has left; it says so at once."""

    async def send_all(self, data: bytes) -> None:
        raise trio.BrokenResourceError


async def test_5_answer_without_reading_the_body(served: Served) -> None:
    """More than the application's queue holds is on its way; the answer comes all the same."""
    wire = await served.connect()
    body = bytes(2 << 20)
    await wire.send(request("POST", SESSIONS, {"Content-Length": str(len(body))}))
    await wire.send(body)
    answer = await wire.answer()
    assert (answer.status, answer.headers["connection"]) == (401, "close")
    assert await wire.closed() == b""


async def test_5_inbox_bounds_what_waits_but_not_a_disconnect() -> None:
    inbox = Inbox(2)
    body = {"type": "http.request"}
    gone = {"type": "http.disconnect"}
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(inbox.put, body)
        await trio.testing.wait_all_tasks_blocked()
        assert len(nursery.child_tasks) == 1
        await inbox.put(gone)
    assert [await inbox.get() for _ in range(4)] == [body, body, gone, gone]


async def test_6_empty_binary_message_is_one() -> None:
    connection = WebsocketConnection(None, {"type": "websocket"})  # type: ignore[arg-type]
    events = [
        {"type": "websocket.receive", "bytes": b"", "text": None},
        {"type": "websocket.receive", "bytes": None, "text": ""},
        {"type": "websocket.disconnect"},
    ]

    async def receive() -> Any:
        return events.pop(0)

    await connection.handle_messages(None, receive)  # type: ignore[arg-type]
    assert [message async for message in connection.receive_channel] == [b"", ""]


async def test_8_what_came_before_the_clients_close_is_done(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(f"{SESSIONS}/{session.id}/ws")
    frames = [socket.frame(TextMessage(json.dumps(typed(str(n))))) for n in range(40)]
    await socket.stream.send_all(b"".join(frames))
    await socket.stream.send_eof()
    await session.until(lambda session: len(session.commands) == 40)
    await session.detached()


async def test_9_message_over_the_limit(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, max_message=1000) as served:
        socket = await served.websocket(f"{SESSIONS}/{session.id}/ws")
        await socket.send("x" * 1_000_000)
        assert (await socket.receive()).code == 1009
        with trio.fail_after(LIMIT):
            assert await socket.stream.receive_some() == b""
        await session.detached()


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        (b"\x81\x82\x00\x00\x00\x00\xff\xff", 1007),  # text that is not UTF-8
        (b"\xf1\x80\x00\x00\x00\x00", 1002),  # reserved bits
        (b"\x81\x01x", 1002),  # not masked
        (b"\x8f\x80\x00\x00\x00\x00", 1002),  # an unknown opcode
    ],
)
async def test_9_protocol_error_is_said(
    served: Served, supervisor: FakeSupervisor, frame: bytes, code: int
) -> None:
    session = supervisor.default.add()
    socket = await served.websocket(f"{SESSIONS}/{session.id}/ws")
    await socket.stream.send_all(frame)
    assert (await socket.receive()).code == code
    assert await socket.stream.receive_some() == b""


async def test_10_compression_is_not_negotiated(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    wire = await served.connect()
    offer = {**AUTH, "Sec-WebSocket-Extensions": "permessage-deflate; client_max_window_bits"}
    await wire.send(handshake(f"{SESSIONS}/{session.id}/ws", offer))
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += await wire.stream.receive_some(1)
    assert head.startswith(b"HTTP/1.1 101")
    assert b"sec-websocket-extensions" not in head.lower()


async def test_11_connection_ends_with_its_client(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    """The default interval of pings is 20 s: nothing may wait for it, the place is free again."""
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, max_connections=1) as served:
        socket = await served.websocket(f"{SESSIONS}/{session.id}/ws")
        await socket.stream.aclose()
        await served.admitted()


async def test_12_answer_comes_in_one_piece(served: Served) -> None:
    wire = await served.connect()
    for _ in range(5):
        await wire.send(request("GET", "/healthz"))
        piece = await wire.stream.receive_some()
        assert piece.startswith(b"HTTP/1.1 200")
        assert piece.endswith(b'{"success":true,"data":{"status":"ok"}}')


async def test_13_continue_is_sent_when_the_body_is_wanted(served: Served) -> None:
    expect = {"Expect": "100-continue", "Content-Length": "2"}
    wire = await served.connect()
    await wire.send(request("POST", SESSIONS, {**JSON, **expect}))
    assert (await wire.head()).status == 100
    await wire.send(b"{}")
    assert (await wire.answer()).status == 400
    wire = await served.connect()
    await wire.send(request("POST", SESSIONS, expect))
    assert (await wire.head()).status == 401


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: a\r\n\r\n",
        handshake("/healthz").replace(b"13", b"12"),
    ],
)
async def test_14_errors_of_the_server_have_the_envelope(served: Served, data: bytes) -> None:
    wire = await served.connect()
    await wire.send(data)
    answer = await wire.answer()
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.headers["x-request-id"]
    assert await wire.closed() == b""


async def test_14_head_that_is_too_large(served: Served) -> None:
    wire = await served.connect()
    await wire.send(request("GET", "/healthz", {"X": "x" * 100_000}))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (431, "invalid_request")


@pytest.mark.parametrize(
    "data",
    [
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        request(
            "GET",
            "/healthz",
            {
                "Connection": "Upgrade, HTTP2-Settings",
                "Upgrade": "h2c",
                "HTTP2-Settings": "AAMAAABk",
            },
        ),
    ],
)
async def test_15_no_http2_in_clear_text(served: Served, data: bytes) -> None:
    wire = await served.connect()
    await wire.send(data)
    with trio.fail_after(LIMIT):
        answer = await wire.stream.receive_some()
    assert answer.startswith((b"HTTP/1.1 200", b"HTTP/1.1 400"))


async def test_16_several_connection_headers_count_together(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """As the SDK sends them, in either order."""
    session = supervisor.default.add()
    upgrade = handshake(f"{SESSIONS}/{session.id}/ws")
    for more in (b"keep-alive", b"Foo, bar"):
        for both in (
            b"Connection: Upgrade\r\nConnection: " + more,
            more.join([b"Connection: ", b"\r\nConnection: Upgrade"]),
        ):
            wire = await served.connect()
            await wire.send(upgrade.replace(b"Connection: Upgrade", both))
            with trio.fail_after(LIMIT):
                assert (await wire.stream.receive_some()).startswith(b"HTTP/1.1 101")


async def test_get_of_a_query_alone(served: Served) -> None:
    assert (await served.ask("GET", "?x")).status == 400


def test_connection_has_no_last_request() -> None:
    assert hypercorn_config(ApiConfig()).keep_alive_max_requests > 10**12


@pytest.mark.long
async def test_connection_takes_more_than_a_thousand_requests(served: Served) -> None:
    wire = await served.connect()
    for _ in range(1100):
        answer = await wire.ask("GET", "/healthz")
        assert answer.status == 200
        assert "connection" not in answer.headers


async def test_pipelined_request_does_not_hide_a_disconnect(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, heartbeat=0.02) as served:
        wire = await served.connect()
        stream = request("GET", f"{SESSIONS}/{session.id}/events/stream", AUTH)
        await wire.send(stream + request("GET", "/healthz"))
        await wire.head()
        await wire.until(b": connected")
        await wire.stream.aclose()
        await session.detached()
