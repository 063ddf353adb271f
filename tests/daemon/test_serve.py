"""Embedding: `serve` in somebody else's nursery."""

from __future__ import annotations

import os
import signal
import socket
from pathlib import Path

import httpx
import pytest
import trio

import s0d
from s0d.api.config import TcpAddress, UnixAddress
from s0d.model.parse import parse_spec

TOKEN = "t" * 32


def config(directory: Path) -> s0d.Config:
    return s0d.Config(
        state_dir=directory / "state",
        listen=(UnixAddress(str(directory / "sock")), TcpAddress("127.0.0.1", 0)),
        token=TOKEN,
    )


def descriptors() -> set[str]:
    """What is open, but for what the running loop keeps."""
    found = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            found.add(f"{fd} {os.readlink(f'/proc/self/fd/{fd}')}")
        except FileNotFoundError:
            continue  # the directory itself
    return found


async def test_serves_and_ends_in_order(short_dir: Path) -> None:
    handlers = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)]
    before = descriptors()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(s0d.serve, config(short_dir))
            unix, tcp = serving.addresses
            assert unix == UnixAddress(str(short_dir / "sock"))
            headers = {"Authorization": f"Bearer {TOKEN}"}
            async with httpx.AsyncClient(base_url=f"http://{tcp}", headers=headers) as client:
                answer = await client.post("/api/v1/sessions", json={"command": ["cat"]})
            assert answer.status_code == 201
            (session,) = serving.supervisor.default.sessions()
            assert session.id == answer.json()["data"]["id"]
            pid = session.record.attempt.pid
            serving.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert not (short_dir / "sock").exists()
    assert descriptors() <= before
    assert handlers == [
        signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD)
    ]


async def test_cancelled_it_leaves_no_process_and_no_open_file(short_dir: Path) -> None:
    before = descriptors()
    with trio.fail_after(30):
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(s0d.serve, config(short_dir))
            spec = parse_spec({"command": ["sh", "-c", "sleep 1000 & sleep 1000"]})
            session, _ = await serving.supervisor.default.create(spec)
            pid = session.record.attempt.pid
            assert Path(f"/proc/{pid}").exists()
            nursery.cancel_scope.cancel()
    assert not Path(f"/proc/{pid}").exists()
    assert not (short_dir / "sock").exists()
    assert descriptors() <= before


async def test_an_address_that_is_taken(short_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        taken = TcpAddress(*holder.getsockname())
        wanted = s0d.Config(state_dir=short_dir / "state", listen=(taken,), token=TOKEN)
        with pytest.raises(ExceptionGroup) as caught, trio.fail_after(30):
            await s0d.serve(wanted)
        assert caught.group_contains(OSError, match="cannot listen on")
        optional = s0d.Config(
            state_dir=short_dir / "state",
            listen=(UnixAddress(str(short_dir / "sock")),),
            optional_listen=(taken,),
            token=TOKEN,
        )
        async with trio.open_nursery() as nursery:
            serving = await nursery.start(s0d.serve, optional)
            assert serving.addresses == [UnixAddress(str(short_dir / "sock"))]
            serving.stop()


async def test_the_same_state_directory_twice(short_dir: Path) -> None:
    async with s0d.open_supervisor(short_dir / "state"):
        with pytest.raises(ExceptionGroup) as caught:
            await s0d.serve(config(short_dir))
        assert caught.group_contains(Exception, match=f"in use by process.*{os.getpid()}")
