"""Connections as a whole: caps, time limits, lingering, and the order of shutdown."""

from __future__ import annotations

import errno
import os
import socket
from functools import partial
from pathlib import Path

import pytest
import trio

from s0d.api.auth import StaticTokens
from s0d.api.config import ApiConfig, TcpAddress, UnixAddress
from s0d.api.server import serve_api
from s0d.model.errors import InvalidRequest
from tests.api.fake import FakeSession, FakeSupervisor
from tests.api.harness import AUTH, JSON, LIMIT, TOKEN, Served, Wire, request, serving

SESSIONS = "/api/v1/sessions"


async def streaming(served: Served, session: FakeSession, window: int = 0) -> Wire:
    wire = await served.connect(window=window)
    await wire.send(request("GET", f"{SESSIONS}/{session.id}/events/stream", AUTH))
    await wire.head()
    return wire


def flood(session: FakeSession) -> None:
    """More than any socket holds."""
    for _ in range(200):
        session.append(data=bytes(64 << 10))


async def ended(served: Served) -> None:
    """Wait until the server has given up its listeners, which is the last thing but one."""
    with trio.fail_after(LIMIT):
        await served.ended.wait()


async def test_connections_are_capped_in_all(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, max_connections=2) as served:
        first, second = await served.connect(), await served.connect(unix=True)
        for wire in (first, second):
            assert (await wire.ask("GET", SESSIONS)).status == 200
        third = await served.connect()
        assert await third.closed() == b""
        assert (await first.ask("GET", SESSIONS)).status == 200
        await second.stream.aclose()
        await served.admitted()


async def test_connections_are_capped_a_peer(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, max_connections_per_peer=1) as served:
        tcp, unix = await served.connect(), await served.connect(unix=True)
        for wire in (tcp, unix):
            assert (await wire.ask("GET", SESSIONS)).status == 200
        for again in (False, True):
            assert await (await served.connect(unix=again)).closed() == b""
        for wire in (tcp, unix):
            assert (await wire.ask("GET", SESSIONS)).status == 200


@pytest.mark.parametrize("begun", [b"", b"GET /heal", request("GET", "/healthz")[:-2]])
async def test_head_has_to_come_in_time(
    supervisor: FakeSupervisor, short_dir: Path, begun: bytes
) -> None:
    async with serving(supervisor, short_dir, header_timeout=0.05, linger=60) as served:
        wire = await served.connect()
        await wire.send(begun)
        assert await wire.closed() == b""


async def test_dripping_does_not_prolong_the_head(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    """Also not that of a later request: a connection kept alive has no more time than a new one."""
    async with serving(supervisor, short_dir, header_timeout=0.2) as served:
        wire = await served.connect()
        assert (await wire.ask("GET", "/healthz")).status == 200
        with trio.fail_after(LIMIT):
            for byte in request("GET", "/healthz", {"X": "x" * 10_000}):
                try:
                    await wire.send(bytes([byte]))
                    await trio.sleep(0.005)  # the pace of the attack
                except trio.BrokenResourceError:
                    break
            else:
                pytest.fail("the head was taken, however slowly it came")


async def test_body_has_to_come_in_time(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, body_timeout=0.05) as served:
        wire = await served.connect()
        await wire.send(request("POST", SESSIONS, {**JSON, "Content-Length": "10"}) + b"{")
        answer = await wire.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")
        assert await wire.closed() == b""


async def test_answer_before_the_end_of_a_body_is_not_lost(served: Served) -> None:
    """The client sends it all before it reads; a reset would take the answer from it."""
    for _ in range(5):
        wire = await served.connect()
        head = request("POST", SESSIONS, {**JSON, "Transfer-Encoding": "chunked"})
        await wire.send(head)
        chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        for _ in range(18):
            await wire.send(chunk)
        answer = await wire.answer()
        assert (answer.status, answer.code) == (413, "request_too_large")


async def test_lingering_ends(supervisor: FakeSupervisor, short_dir: Path) -> None:
    """A client that does not hang up after the last answer is not waited for longer than so."""
    async with serving(supervisor, short_dir, linger=0.05) as served:
        wire = await served.connect()
        await wire.send(request("GET", SESSIONS, {**AUTH, "Connection": "close"}))
        await wire.answer()
        assert await wire.closed() == b""
        await _refused(wire)


async def _refused(wire: Wire) -> None:
    """Send until the kernel says that nobody reads any more."""
    with trio.fail_after(LIMIT):
        try:
            while True:
                await wire.send(bytes(1 << 16))
        except trio.BrokenResourceError:
            pass


async def test_answer_under_way_is_finished(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    session.durable = trio.Event()
    async with serving(supervisor, short_dir, grace=60) as served:
        wire, idle = await served.connect(), await served.connect()
        assert (await idle.ask("GET", SESSIONS)).status == 200
        body = b'{"input_id": "x", "eof": true}'
        await wire.send(request("POST", f"{SESSIONS}/{session.id}/inputs", JSON, body))
        await session.until(lambda session: bool(session.commands))
        served.shutdown.set()
        assert await idle.closed() == b""
        session.durable.set()
        answer = await wire.answer()
        assert (answer.status, answer.headers["connection"]) == (202, "close")
        assert await wire.closed() == b""
        await wire.stream.aclose()
        await ended(served)


async def test_stuck_readers_do_not_defeat_shutdown(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    """Fault 4: a write is shielded.  In the first step only they are cut."""
    session = supervisor.default.add()
    flood(session)
    async with serving(supervisor, short_dir, two_steps=True, grace=0.1) as served:
        await streaming(served, session, window=1 << 12)
        await served.websocket(f"{SESSIONS}/{session.id}/ws", window=1 << 12)
        idle = await served.connect()
        assert (await idle.ask("GET", SESSIONS)).status == 200
        assert session.attachments == 2
        served.shutdown.set()
        await session.detached()
        assert (await idle.ask("GET", SESSIONS)).status == 503
        assert not served.ended.is_set()
        served.close.set()
        await ended(served)


async def test_second_step_cuts_what_is_left(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    session.durable = trio.Event()
    async with serving(supervisor, short_dir, grace=0.1) as served:
        wire = await served.connect()
        body = b'{"input_id": "x", "eof": true}'
        await wire.send(request("POST", f"{SESSIONS}/{session.id}/inputs", JSON, body))
        await session.until(lambda session: bool(session.commands))
        served.shutdown.set()
        await ended(served)
        assert await wire.closed() in (b"", b"<reset>")


async def test_cancelling_skips_all_grace(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    flood(session)
    before = len(os.listdir("/proc/self/fd"))
    async with serving(supervisor, short_dir, grace=60) as served:
        await streaming(served, session, window=1 << 12)
        await served.connect()
        await trio.testing.wait_all_tasks_blocked(0.01)
        served.cancel.cancel()
        await ended(served)
    assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(short_dir) == []


async def test_listeners_close_only_in_the_second_step(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    async with serving(supervisor, short_dir, two_steps=True) as served:
        served.shutdown.set()
        assert (await served.ask("GET", SESSIONS)).status == 503
        served.close.set()
        await ended(served)
        with pytest.raises(ConnectionRefusedError):
            await served.connect()
        assert os.listdir(short_dir) == []


async def test_nothing_is_served_that_must_not_be(supervisor: FakeSupervisor) -> None:
    config = ApiConfig(listen=[TcpAddress("127.0.0.1", 0)])
    with pytest.raises(InvalidRequest):
        await serve_api(supervisor, config)  # type: ignore[arg-type]


async def test_address_that_is_taken(supervisor: FakeSupervisor, short_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        path = str(short_dir / "s")
        config = ApiConfig(
            listen=[UnixAddress(path), TcpAddress(*taken.getsockname())],
            tokens=StaticTokens.one(TOKEN),
        )
        async with trio.open_nursery() as nursery:
            with pytest.raises(OSError, match="cannot listen on 127") as error:
                await nursery.start(partial(serve_api, supervisor, config))
        assert error.value.errno == errno.EADDRINUSE
    assert os.listdir(short_dir) == []


async def test_many_clients_come_and_go(supervisor: FakeSupervisor, short_dir: Path) -> None:
    """Whatever they leave in the middle of, nothing of it stays."""
    session = supervisor.default.add()
    flood(session)
    targets = [f"{SESSIONS}/{session.id}{end}" for end in ("", "/events", "/events/stream")]
    before = len(os.listdir("/proc/self/fd"))
    async with serving(supervisor, short_dir) as served:

        async def visit(target: str) -> None:
            wire = await served.connect()
            async with wire.stream:
                await wire.send(request("GET", target, AUTH))
                await wire.stream.receive_some(10)

        for _ in range(10):
            async with trio.open_nursery() as nursery:
                for target in targets:
                    nursery.start_soon(visit, target)
        await session.detached()
        served.shutdown.set()
        await ended(served)
    assert len(os.listdir("/proc/self/fd")) == before
