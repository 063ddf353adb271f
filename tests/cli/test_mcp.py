"""`s0d mcp`: what comes before the first message, and requests that are given up."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

import s0d.mcp as package
from s0d.cli.mcp import _calls, _OverHttp
from s0d.cli.target import Target
from tests.cli.conftest import Done
from tests.cli.fake import FakeServer, failure, success

Run = Callable[..., Done]
LIMIT = 10.0


def over(path: Path) -> Target:
    return Target(url=f"unix:{path}", socket=str(path))


def test_without_the_extra(s0d: Run, fake: FakeServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(package, "transports", raising=False)
    for name in [name for name in sys.modules if name.startswith(("mcp.", "s0d.mcp."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    done = s0d("mcp")
    assert (done.code, done.out) == (1, "")
    assert "pip install 's0d[mcp]'" in done.err
    assert fake.requests == []


def test_no_daemon_is_started_for_another_address(s0d: Run, short_dir: Path) -> None:
    pytest.importorskip("mcp")
    done = s0d("mcp", "--url", f"unix:{short_dir}/none.sock")
    assert (done.code, done.out) == (5, "")
    assert "no daemon answers" in done.err


def test_where_commands_run(short_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the agent's directory on its own machine, unless a sandbox has a root of its own."""
    monkeypatch.chdir(short_dir)
    local, remote = over(short_dir / "sock"), Target(url="http://host:7707", host="host")
    assert _calls(local, None).path == str(short_dir)
    assert _calls(remote, None).path is None
    assert _calls(local, "sb-1").path is None
    assert _calls(local, "sb-1").sandbox_id == "sb-1"


async def test_requests_and_answers(fake: FakeServer, short_dir: Path) -> None:
    daemon = _OverHttp(over(short_dir / "fake.sock"))
    fake.script(success({"a": 1}, 201), failure(409, "session_exists", "taken"))
    status, body = await daemon.ask("POST", "/v1/x?y=1", b'{"b":2}')
    assert (status, json.loads(body)["data"]) == (201, {"a": 1})
    assert (fake.requests[0].method, fake.requests[0].path) == ("POST", "/v1/x?y=1")
    assert fake.requests[0].body == {"b": 2}
    status, body = await daemon.ask("GET", "/v1/x", b"")
    assert (status, json.loads(body)["error"]["code"]) == (409, "session_exists")


async def test_a_daemon_that_is_gone(short_dir: Path) -> None:
    status, body = await _OverHttp(over(short_dir / "none")).ask("GET", "/", b"")
    error = json.loads(body)["error"]
    assert (status, error["code"]) == (503, "unreachable")
    assert "no daemon answers" in error["message"]


async def test_a_connection_that_breaks(short_dir: Path) -> None:
    """It is open what the daemon did: not the same as a daemon that is not there."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(short_dir / "sock"))
        listener.listen()
        answers: list[tuple[int, bytes]] = []
        async with trio.open_nursery() as nursery:

            async def ask() -> None:
                answers.append(await _OverHttp(over(short_dir / "sock")).ask("GET", "/", b""))

            nursery.start_soon(ask)
            accepted, _ = await trio.to_thread.run_sync(listener.accept)
            accepted.close()
    assert json.loads(answers[0][1])["error"]["code"] == "unavailable"


async def test_a_request_that_is_given_up_ends_at_the_daemon(short_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener, trio.fail_after(LIMIT):
        listener.bind(str(short_dir / "sock"))
        listener.listen()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_OverHttp(over(short_dir / "sock")).ask, "POST", "/wait", b"{}")
            accepted, _ = await trio.to_thread.run_sync(listener.accept)
            with accepted:
                assert await trio.to_thread.run_sync(accepted.recv, 4096)
                nursery.cancel_scope.cancel()
                with trio.CancelScope(shield=True):
                    while await trio.to_thread.run_sync(accepted.recv, 4096):
                        pass  # to the end of file


async def test_many_that_wait_leave_threads_for_the_rest(short_dir: Path) -> None:
    """Else the standard streams would stand still, and with them the messages that cancel."""
    daemon = _OverHttp(over(short_dir / "sock"))
    with socket.socket(socket.AF_UNIX) as listener, trio.fail_after(LIMIT):
        listener.bind(str(short_dir / "sock"))
        listener.listen(100)
        async with trio.open_nursery() as nursery:
            for _ in range(60):
                nursery.start_soon(daemon.ask, "POST", "/wait", b"{}")
            accepted = [(await trio.to_thread.run_sync(listener.accept))[0] for _ in range(60)]
            nursery.cancel_scope.cancel()
        for connection in accepted:
            connection.close()
