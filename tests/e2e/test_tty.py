"""Transient terminals over real WebSockets, with real children (wire contract, section 4)."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.support.client import Client
from tests.support.daemon import Daemon
from tests.support.leftovers import processes_with
from tests.support.named import PATIENCE, Attached, Closed, Named

CAT = ["sh", "-c", "stty raw -echo; echo ready; exec cat"]


@pytest.fixture
def mark(request: pytest.FixtureRequest) -> str:
    """A variable in the environment of this test's processes alone."""
    return f"{abs(hash(request.node.nodeid))}"


@asynccontextmanager
async def terminal(named: Named, *cmd: str, **start: Any) -> AsyncIterator[tuple[Attached, Any]]:
    async with named.socket("/exec") as attached:
        await attached.send({"type": "START", "cmd": cmd, **start})
        accepted = await attached.receive()
        assert isinstance(accepted, dict), accepted
        assert accepted["type"] == "ACCEPTED", accepted
        assert await attached.receive() == {"type": "LIVE", "seq": 0}
        yield attached, accepted


async def gone(mark: str) -> None:
    with trio.fail_after(PATIENCE):
        while processes_with(f"MARK={mark}"):  # noqa: ASYNC110  (nobody tells)
            await trio.sleep(0.01)


async def test_a_terminal_of_the_size_environment_and_directory_asked_for(
    named: Named, shared_daemon: Daemon
) -> None:
    script = 'stty size; echo "$A $TERM"; pwd; exit 3'
    start = {"cols": 100, "rows": 30, "env": {"A": "b"}, "path": "/tmp"}
    async with terminal(named, "sh", "-c", script, **start) as (attached, accepted):
        assert accepted == {
            "type": "ACCEPTED",
            "replayed_bytes": 0,
            "history_dropped": False,
            "cols": 100,
            "rows": 30,
            "seq": 0,
        }
        exited, closed = await attached.rest()
        assert attached.output == b"30 100\r\nb xterm-256color\r\n/tmp\r\n"
    assert exited == {
        "type": "EXIT",
        "exit_code": 3,
        "signaled": False,
        "signal": 0,
        "status": "EXITED",
    }
    assert closed == Closed(1000, "")
    assert (await Client(shared_daemon.socket).ask("GET")).data["sessions"] == []
    assert await named.names() == []


async def test_input_signals_resizes_and_pings(named: Named) -> None:
    script = (
        "trap 'stty size' WINCH; stty -echo; echo ready; while read line; do echo \"<$line>\"; done"
    )
    async with terminal(named, "bash", "-c", script) as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"one\n")
        await attached.reads(b"<one>")
        await attached.send({"type": "RESIZE", "cols": 60, "rows": 20})
        await attached.send(b"two\n")
        await attached.reads(b"20 60")
        await attached.send({"type": "PING"})
        await attached.until("PONG")
        await attached.send({"type": "NONSENSE"})
        assert (await attached.until("ERROR"))["code"] == "validation_failed"
        await attached.send({"type": "EOF"})
        assert (await attached.until("EXIT"))["exit_code"] == 0
    async with terminal(named, "sleep", "1000") as (attached, _):
        await attached.send({"type": "SIGNAL", "signal": "INT"})
        exited = await attached.until("EXIT")
        assert (exited["exit_code"], exited["signaled"], exited["signal"]) == (130, True, 2)


async def test_every_byte_comes_before_the_exit(named: Named) -> None:
    script = "stty raw -echo; head -c 4000000 /dev/zero | tr '\\0' x; printf end"
    async with terminal(named, "sh", "-c", script) as (attached, _):
        await attached.until("EXIT")
        assert attached.output == b"x" * 4_000_000 + b"end"


async def test_a_flood_waits_for_its_client(named: Named, mark: str) -> None:
    """And leaves nothing behind when that hangs up without having read it."""
    env = {"MARK": mark}
    async with terminal(named, "yes", env=env) as (attached, _):
        await attached.reads(b"y\r\n")
    await gone(mark)


async def test_input_larger_than_the_queue_waits(named: Named) -> None:
    data = bytes(range(256)) * 12_000
    script = f"stty raw -echo; echo ready; head -c {len(data)} | sha256sum"
    async with terminal(named, "sh", "-c", script) as (attached, _):
        await attached.reads(b"ready")
        for at in range(0, len(data), 300_000):
            await attached.send(data[at : at + 300_000])
        await attached.reads(hashlib.sha256(data).hexdigest().encode())


@pytest.mark.parametrize("way", ["detach", "hang_up", "cut"])
async def test_it_ends_with_its_connection(named: Named, mark: str, way: str) -> None:
    script = "trap '' TERM HUP; setsid sleep 1000 & echo ready; while :; do sleep 1000; done"
    async with terminal(named, "sh", "-c", script, env={"MARK": mark}) as (attached, _):
        await attached.reads(b"ready")
        assert processes_with(f"MARK={mark}")
        if way == "detach":
            await attached.send({"type": "DETACH"})
            frames = await attached.rest()
            assert frames == [{"type": "ENDED", "reason": "DETACHED"}, Closed(1000, "")]
        elif way == "hang_up":
            await attached.hang_up()
    await gone(mark)


@pytest.mark.parametrize(
    ("first", "code", "says"),
    [
        (b"bytes", "validation_failed", "START"),
        ({"type": "START"}, "validation_failed", "cmd"),
        ({"type": "START", "cmd": []}, "validation_failed", "cmd"),
        ({"type": "START", "cmd": ["/no/such"]}, "validation_failed", "/no/such"),
        ({"type": "START", "cmd": ["true"], "path": "/no/such"}, "validation_failed", "/no/such"),
        ({"type": "START", "cmd": ["true"], "cols": 513}, "validation_failed", "cols"),
        ({"type": "START", "cmd": ["x" * (64 << 10)]}, "request_too_large", "START"),
    ],
)
async def test_a_start_that_is_not_valid_is_refused(
    named: Named, first: Any, code: str, says: str
) -> None:
    async with named.socket("/exec") as attached:
        await attached.send(first)
        error, closed = await attached.rest()
    assert (error["type"], error["code"], closed.code) == ("ERROR", code, 1008)
    assert says in error["message"]


async def test_a_shutdown_ends_it(daemon: Daemon, mark: str) -> None:
    named = Named(daemon.socket)
    script = "trap '' TERM HUP; echo ready; while :; do sleep 1000; done"
    async with (
        terminal(named, "sh", "-c", script, env={"MARK": mark}) as (attached, _),
        trio.open_nursery() as nursery,
    ):
        await attached.reads(b"ready")
        nursery.start_soon(trio.to_thread.run_sync, daemon.stop)
        frames = await attached.rest()
        assert frames == [{"type": "ENDED", "reason": "SHUTDOWN"}, Closed(1001, "")]
    assert processes_with(f"MARK={mark}") == []


async def fill(attached: Attached) -> None:
    """Wait until the daemon waits for this client to read."""
    waiting = 0
    while (before := waiting) < 64 << 10 or waiting != attached.waiting():
        await trio.sleep(0.05)
        waiting = attached.waiting()
        assert waiting >= before


async def ping(attached: Attached) -> None:
    """Ask for answers, which nobody reads, until the daemon takes no more questions."""
    stuck = False
    while not stuck:
        with trio.move_on_after(0.5) as sending:
            await attached.send({"type": "PING"})
        stuck = sending.cancelled_caught


@pytest.mark.parametrize(
    ("end", "command", "stick"),
    [
        ("pause", "yes", fill),
        ("pause", "sleep 1000", ping),
        ("delete", "yes | head -c 9999999", fill),
        ("hard_ttl", "yes", fill),
    ],
)
async def test_a_client_that_does_not_read_holds_up_no_end(
    shared_daemon: Daemon,
    mark: str,
    end: str,
    command: str,
    stick: Callable[[Attached], Awaitable[None]],
) -> None:
    sandbox = f"sbx-{mark}"
    config = {"hard_ttl": 3} if end == "hard_ttl" else {}
    named = Named(shared_daemon.socket, f"/v1/sandbox/{sandbox}")
    await named.ask("POST", "/api/v1/sandboxes", {"id": sandbox, "config": config}, prefix="")
    path = f"/api/v1/sandboxes/{sandbox}"
    start = {"env": {"MARK": mark}}
    async with terminal(named, "sh", "-c", f"stty raw; {command}", **start) as (attached, _):
        await stick(attached)
        if end == "pause":
            assert (await named.ask("POST", f"{path}/pause", prefix="")).json["data"]["paused"]
        elif end == "delete":
            assert (await named.ask("DELETE", path, prefix="")).status == 202
        else:
            with trio.fail_after(PATIENCE):
                while (await named.ask("GET", path, prefix="")).status == 200:  # noqa: ASYNC110
                    await trio.sleep(0.05)
        assert processes_with(f"MARK={mark}") == []
    await named.ask("DELETE", path, prefix="")


@pytest.mark.parametrize("path", ["/exec", "/sessions/a/attach"])
async def test_a_sandbox_that_goes_before_the_start(
    shared_daemon: Daemon, mark: str, path: str
) -> None:
    sandbox = f"sbx-{mark}"
    named = Named(shared_daemon.socket, f"/v1/sandbox/{sandbox}")
    await named.ask("POST", "/api/v1/sandboxes", {"id": sandbox}, prefix="")
    async with named.socket(path) as attached:
        await named.ask("DELETE", f"/api/v1/sandboxes/{sandbox}", prefix="")
        await attached.send({"type": "START", "cmd": ["true"]})
        error, closed = await attached.rest()
    assert (error["code"], closed.code) == ("sandbox_not_found", 1008)


async def test_a_pause_of_the_runtime_ends_it(daemon: Daemon) -> None:
    named = Named(daemon.socket)
    async with terminal(named, *CAT) as (attached, _):
        await attached.reads(b"ready")
        await named.ask("POST", "/api/v1/sandboxes/local/pause", prefix="")
        exited = await attached.until("EXIT")
        assert (exited["signal"], exited["status"]) == (9, "KILLED")
    async with terminal(named, *CAT) as (attached, _):  # and another one wakes it
        await attached.reads(b"ready")
