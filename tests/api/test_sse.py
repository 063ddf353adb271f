"""Event streams: what they send, and when they end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio
from quart import Response

from s0d.api.sse import EventStream
from s0d.api.streams import Streams
from s0d.api.workarounds import HTTPConnection
from tests.api.fake import FakeSession, FakeSupervisor
from tests.api.harness import AUTH, Served, Wire, request, serving

GREETING = b": connected\n\n"


def target(session: FakeSession, query: str = "") -> str:
    return f"/api/v1/sessions/{session.id}/events/stream{query}"


def parse(frames: bytes) -> list[dict[str, Any]]:
    """The events of frames, as a client reads them; comments are skipped."""
    found = []
    for frame in frames.decode("ascii").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in frame.split("\n") if line)
        if fields.get("data"):
            event = json.loads(fields["data"])
            assert fields["id"] == str(event["seq"])
            assert fields["event"] == event["type"]
            found.append(event)
    return found


async def opened(
    served: Served, session: FakeSession, query: str = "", window: int = 0, **headers: str
) -> Wire:
    wire = await served.connect(window=window)
    await wire.send(request("GET", target(session, query), {**AUTH, **headers}))
    head = await wire.head()
    assert head.status == 200, await wire.rest()
    return wire


async def test_head_and_first_comment_come_at_once(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    wire = await served.connect()
    await wire.send(request("GET", target(session), AUTH))
    head = await wire.head()
    assert head.status == 200
    assert head.headers["content-type"] == "text/event-stream"
    assert head.headers["cache-control"] == "no-cache"
    assert head.headers["x-accel-buffering"] == "no"
    assert "content-length" not in head.headers
    assert await wire.until(b"\n\n") == GREETING
    assert session.attachments == 1


async def test_retained_events_then_live_ones(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    for n in range(3):
        session.append(data=b"%d" % n)
    wire = await opened(served, session)
    assert [e["seq"] for e in parse(await wire.until(b"id: 3\n"))] == [1, 2]
    await wire.until(b"\n\n")
    session.append("attempt.exited", exit_code=7, reason="exited")
    [event] = parse(await wire.until(b"\n\n"))
    assert event == {
        "seq": 4,
        "session_id": session.id,
        "runtime_generation": 1,
        "attempt_id": "att-1",
        "type": "attempt.exited",
        "exit_code": 7,
        "reason": "exited",
        "occurred_at": "2001-09-09T01:46:40.000000Z",
    }


async def test_frames_are_ascii_on_one_line(served: Served, supervisor: FakeSupervisor) -> None:
    """Clients split at U+0085, U+2028 and U+2029 too."""
    session = supervisor.default.add()
    reason = "a\nb\r\u0085\u2028\u2029 \N{SNOWMAN}"
    session.append("session.failed", reason=reason)
    wire = await opened(served, session)
    await wire.until(GREETING)
    frame = await wire.until(b"\n\n")
    assert frame.isascii()
    assert len(frame.decode().splitlines()) == 4
    assert parse(frame)[0]["reason"] == reason


CURSORS: Any = [
    ("", {}, 1),
    ("?after=0", {}, 1),
    ("?after=2", {}, 3),
    ("?after=", {}, 1),
    ("?after=2&after=1&other=x", {}, 3),
    ("?after=1", {"Last-Event-ID": "3"}, 4),
    ("?after=99", {"Last-Event-ID": "3"}, 4),
    ("", {"Last-Event-ID": "3"}, 4),
]


async def test_where_a_stream_begins(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    for _ in range(4):
        session.append(data=b"x")
    for query, headers, first in CURSORS:
        wire = await opened(served, session, query, 0, **headers)
        await wire.until(GREETING)
        assert parse(await wire.until(b"\n\n"))[0]["seq"] == first
        await wire.stream.aclose()


BAD_CURSORS: Any = [
    ("?after=5", {}),
    ("?after=-1", {}),
    ("?after=x", {}),
    ("?after=1.0", {}),
    ("?after=%D9%A1", {}),
    ("?after=9007199254740992", {}),
    ("?after=" + "9" * 400, {}),
    ("?after=1", {"Last-Event-ID": "x"}),
    ("?after=1", {"Last-Event-ID": "5"}),
]


async def test_cursor_that_cannot_be(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    for _ in range(4):
        session.append(data=b"x")
    for query, headers in BAD_CURSORS:
        answer = await served.ask("GET", target(session, query), {**AUTH, **headers})
        assert (answer.status, answer.code) == (400, "invalid_request")
        assert session.attachments == 0


async def test_expired_cursor_names_the_place_to_go_on(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add(max_bytes=1 << 18)
    while session.journal.earliest < 3:
        session.append(data=bytes(16 << 10))
    answer = await served.ask("GET", target(session, "?after=0"))
    assert (answer.status, answer.code) == (410, "event_cursor_expired")
    details = answer.json["error"]["details"]
    assert details == {"earliest": session.journal.earliest, "latest": session.journal.latest}
    wire = await opened(served, session, f"?after={details['earliest'] - 1}")
    await wire.until(GREETING)
    assert parse(await wire.until(b"\n\n"))[0]["seq"] == details["earliest"]


async def test_overtaken_reader_is_told_and_ended(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """It stops reading, retention overtakes it, it gets what was on its way and the comment."""
    session = supervisor.default.add(max_bytes=1 << 20)
    wire = await opened(served, session, window=1 << 14)
    await wire.until(GREETING)
    for _ in range(160):  # far more than sockets and retention hold
        session.append(data=bytes(64 << 10))
        await trio.lowlevel.checkpoint()
    body = await wire.rest()
    frames, _, comment = body.rpartition(b"\n\n: ")
    assert comment == b"event_cursor_expired earliest=%d\n\n" % session.journal.earliest
    sequences = [event["seq"] for event in parse(frames)]
    assert sequences == list(range(1, len(sequences) + 1))
    answer = await served.ask("GET", target(session, f"?after={sequences[-1]}"))
    assert answer.status == 410
    await session.detached()


async def test_slow_reader_loses_nothing_and_holds_nobody_up(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    slow = await opened(served, session, window=1 << 14)
    quick = await opened(served, session)
    for n in range(400):
        session.append(data=b"%03d" % n * 5_000)
        await trio.lowlevel.checkpoint()
    await quick.until(b"id: 400\n")
    await slow.until(GREETING)
    events = parse(await slow.until(b"id: 400\n"))
    assert [event["seq"] for event in events] == list(range(1, 400))


async def test_silence_is_broken_by_comments(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, heartbeat=0.02) as served:
        wire = await opened(served, session)
        for _ in range(3):
            assert (await wire.until(b": keep-alive\n\n")).removeprefix(GREETING).startswith(b": k")
        session.append(data=b"x")
        await wire.until(b"id: 1\n")


async def test_delete_ends_the_stream_after_its_last_event(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    wire = await opened(served, session)
    await wire.until(GREETING)
    session.append(data=b"last words")
    session.append("attempt.exited", reason="session_deleted")
    session.end()
    events = parse(await wire.rest())
    assert [event["type"] for event in events] == ["output", "attempt.exited"]
    await session.detached()


async def test_shutdown_ends_the_stream_at_once(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    session = supervisor.default.add()
    async with serving(supervisor, short_dir, two_steps=True) as served:
        wire = await opened(served, session)
        await wire.until(GREETING)
        served.shutdown.set()
        assert await wire.rest() == b""  # ended properly: with the last chunk
        await session.detached()


async def test_leaving_only_detaches(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    wire = await opened(served, session)
    await wire.until(GREETING)
    assert session.attachments == 1
    await wire.stream.aclose()
    await session.detached()
    assert session.commands == []


async def test_leaving_before_the_first_byte_detaches(
    served: Served, supervisor: FakeSupervisor
) -> None:
    session = supervisor.default.add()
    for _ in range(50):
        wire = await served.connect()
        await wire.send(request("GET", target(session), AUTH))
        await wire.stream.aclose()
    assert (await served.ask("GET", "/healthz")).status == 200
    await session.detached()
    assert session.journal.tail.readers == 0


async def test_stream_whose_head_could_not_be_sent_detaches(supervisor: FakeSupervisor) -> None:
    """Nobody ever begins to read its body, so nobody ends reading it either."""
    session = supervisor.default.add()
    body = EventStream(session, None, Streams(), 15)  # type: ignore[arg-type]
    assert session.attachments == 1
    scope = {"type": "http"}

    async def send(message: Any) -> None:
        raise trio.BrokenResourceError

    with pytest.raises(trio.BrokenResourceError):
        await HTTPConnection(None, scope)._send_response(send, Response(body))  # type: ignore[arg-type]
    assert session.attachments == 0


async def test_head_request_does_not_hang(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    wire = await served.connect()
    await wire.send(request("HEAD", target(session), AUTH))
    answer = await wire.answer("HEAD")
    assert answer.status == 405
    assert answer.headers["allow"] == "GET"
