"""`/mcp`: behind the gate like every route, as much as the caller's token allows, and no more."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.api.auth import Principal, StaticTokens, Verb
from s0d.supervisor import Supervisor, open_supervisor
from tests.api.harness import JSON, Answer, Served, request, serving
from tests.support.leftovers import wait_gone
from tests.support.sessions import lives

pytest.importorskip("mcp", reason="the extra s0d[mcp] is not installed")

LIMIT = 30.0
ACCEPT = {**JSON, "Accept": "application/json, text/event-stream"}
TOKENS = StaticTokens(
    [
        ("all", Principal("all")),
        ("viewer", Principal("viewer", Verb.READ)),
        ("elsewhere", Principal("elsewhere", Verb.ADMIN, frozenset({"other"}))),
    ]
)


def message(method: str, **params: Any) -> Any:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


def calling(tool: str, **arguments: Any) -> Any:
    return message("tools/call", name=tool, arguments=arguments)


async def post(served: Served, body: Any, headers: Mapping[str, str] = ACCEPT) -> Answer:
    return await served.ask("POST", "/mcp", dict(headers), body)


def told(answer: Answer) -> tuple[Any, bool]:
    """What a tool said, and whether it is an error."""
    assert answer.status == 200, answer
    result = answer.json["result"]
    (content,) = result["content"]
    return json.loads(content["text"]), result.get("isError", False)


@asynccontextmanager
async def real(directory: Path, **settings: Any) -> AsyncIterator[tuple[Supervisor, Served]]:
    with trio.fail_after(LIMIT):
        async with (
            open_supervisor(directory / "state") as supervisor,
            serving(supervisor, directory, **settings) as served,
        ):
            yield supervisor, served


# -- the edge ------------------------------------------------------------------------------------


async def test_a_client_of_the_first_kind(served: Served) -> None:
    """The handshake of older clients; nothing is kept between its requests."""
    hello = {"name": "test", "version": "1"}
    opened = await post(
        served,
        message("initialize", protocolVersion="2025-06-18", capabilities={}, clientInfo=hello),
    )
    assert opened.json["result"]["serverInfo"]["name"] == "s0d"
    assert "session_create" in opened.json["result"]["instructions"]
    assert "mcp-session-id" not in opened.headers
    listed = await post(served, message("tools/list"))
    names = [tool["name"] for tool in listed.json["result"]["tools"]]
    assert "session_create" in names
    assert opened.headers["content-type"] == "application/json"


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no"}])
async def test_without_a_token(served: Served, headers: dict[str, str]) -> None:
    for method in ("POST", "GET", "DELETE"):
        answer = await served.ask(method, "/mcp", {**ACCEPT, "Authorization": "", **headers})
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_a_web_page_cannot_reach_it(served: Served) -> None:
    for origin in ("https://evil.example", "null"):
        answer = await post(served, message("tools/list"), {**ACCEPT, "Origin": origin})
        assert (answer.status, answer.code) == (403, "forbidden")
    wire = await served.connect()
    body = json.dumps(message("tools/list")).encode()
    await wire.send(request("POST", "/mcp", ACCEPT, body, host="evil.example"))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (421, "misdirected_request")


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "HEAD", "OPTIONS"])
async def test_it_takes_nothing_but_post(served: Served, method: str) -> None:
    answer = await served.ask(method, "/mcp")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize("path", ["/mcp/", "/mcp/x", "/api/v1/mcp", "/mcpx"])
async def test_other_paths_are_none(served: Served, path: str) -> None:
    answer = await served.ask("POST", path, ACCEPT, message("tools/list"))
    assert (answer.status, answer.code) == (404, "not_found")


async def test_bodies_that_are_not_taken(served: Served) -> None:
    text = await served.ask("POST", "/mcp", {**ACCEPT, "Content-Type": "text/plain"}, b"{}")
    assert (text.status, text.code) == (415, "unsupported_media_type")
    bad = await served.ask("POST", "/mcp", ACCEPT, b"{")
    assert bad.status == 400
    assert bad.json["error"]["code"] == -32700
    unknown = await post(served, message("nonsense"))
    assert unknown.json["error"]["code"] == -32601


async def test_a_body_is_bounded_and_timed(supervisor: Any, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, max_body=1000, body_timeout=0.2) as served:
        wire = await served.connect()
        await wire.send(request("POST", "/mcp", {**ACCEPT, "Transfer-Encoding": "chunked"}))
        await wire.send(b"400\r\n" + b" " * 1024 + b"\r\n")
        answer = await wire.answer()
        assert (answer.status, answer.code) == (413, "request_too_large")
        wire = await served.connect()
        await wire.send(request("POST", "/mcp", {**ACCEPT, "Content-Length": "10"}))
        answer = await wire.answer()
        assert (answer.status, answer.code) == (408, "request_timeout")


async def test_bodies_have_one_budget(supervisor: Any, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, max_bodies=1000) as served:
        answer = await served.ask("POST", "/mcp", ACCEPT, b" " * 1001)
        assert (answer.status, answer.code) == (429, "limit_exceeded")
        for _ in range(20):  # what was taken is given back
            assert (await post(served, message("tools/list"))).status == 200


async def test_ids_of_requests(served: Served) -> None:
    answer = await post(served, message("tools/list"), {**ACCEPT, "X-Request-Id": "mine"})
    assert answer.headers["x-request-id"] == "mine"


async def test_without_the_extra(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith(("mcp", "s0d.mcp"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    answer = await post(served, message("tools/list"))
    assert (answer.status, answer.code) == (404, "not_found")
    assert "pip install 's0d[mcp]'" in answer.json["error"]["message"]
    assert (await served.ask("GET", "/api/v1/sessions")).data == {"sessions": []}


def test_a_daemon_does_not_pay_for_it_before_it_is_asked() -> None:
    code = (
        "import sys, s0d.api.app, s0d.api.server, s0d.daemon.standalone\n"
        "print({'mcp', 'mcp_types', 'pydantic', 'starlette', 's0d.mcp'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "set()\n")


# -- what a token may do -------------------------------------------------------------------------


def with_token(token: str) -> dict[str, str]:
    return {**ACCEPT, "Authorization": f"Bearer {token}"}


async def test_a_viewers_token_reads(short_dir: Path) -> None:
    async with real(short_dir, tokens=TOKENS) as (_, served):
        made = calling("session_create", name="a", cmd=["cat"])
        _, failed = told(await post(served, made, with_token("all")))
        assert not failed
        viewer = with_token("viewer")
        for body in (calling("session_list"), calling("session_output", name="a")):
            _, failed = told(await post(served, body, viewer))
            assert not failed
        for body in (
            calling("session_create", name="b", cmd=["cat"]),
            calling("session_kill", name="a"),
            calling("session_input", name="a", text="x"),
            calling("session_keys", name="a", keys=["x"]),
        ):
            error, failed = told(await post(served, body, viewer))
            assert (failed, error["error"]["code"]) == (True, "forbidden")
        listed, _ = told(await post(served, calling("session_list"), viewer))
        assert [(one["name"], one["status"]) for one in listed["sessions"]] == [("a", "IDLE")]


async def test_a_token_of_another_sandbox(short_dir: Path) -> None:
    """What it does not cover does not exist to the named surface, and is forbidden to the other."""
    async with real(short_dir, tokens=TOKENS) as (supervisor, served):
        body = calling("session_create", name="a", cmd=["cat"])
        _, failed = told(await post(served, body, with_token("all")))
        assert not failed
        elsewhere = with_token("elsewhere")
        for tool, more in (
            ("session_list", {}),
            ("session_list", {"sandbox_id": supervisor.default.id}),
            ("session_output", {"name": "a"}),
            ("session_output", {"name": "a", "sandbox_id": supervisor.default.id}),
            ("session_kill", {"name": "a"}),
        ):
            error, failed = told(await post(served, calling(tool, **more), elsewhere))
            assert failed, tool
            assert error["error"]["code"] in ("forbidden", "sandbox_not_found")


async def test_a_peer_of_the_unix_socket(short_dir: Path) -> None:
    async with real(short_dir) as (_, served):
        headers = {name: value for name, value in ACCEPT.items() if name != "Authorization"}
        body = json.dumps(calling("session_create", name="a", cmd=["cat"])).encode()
        answer = await served.ask("POST", "/mcp", headers, body, unix=True)
        made, failed = told(answer)
        assert (failed, made["session"]["name"]) == (False, "a")


# -- a tool's life -------------------------------------------------------------------------------


async def test_a_client_that_leaves_ends_its_tool(short_dir: Path) -> None:
    """And one that stays gets the answer, while others are served."""
    async with real(short_dir) as (supervisor, served):
        await post(served, calling("session_create", name="a", cmd=["cat"]))
        [session] = supervisor.default.sessions()
        wait = calling("session_wait", name="a", output="word", timeout_ms=20_000)
        body = json.dumps(wait).encode()
        leaving, staying = await served.connect(), await served.connect()
        for wire in (leaving, staying):
            await wire.send(request("POST", "/mcp", ACCEPT, body))
        with trio.fail_after(LIMIT):
            while session.journal.tail.readers < 2:
                await trio.lowlevel.checkpoint()
        await leaving.stream.aclose()
        with trio.fail_after(LIMIT):
            while session.journal.tail.readers > 1:
                await trio.lowlevel.checkpoint()
        _, failed = told(await post(served, calling("session_input", name="a", text="word\n")))
        assert not failed
        matched, failed = told(await staying.answer())
        assert (failed, matched["matched"]) == (False, "output")
        assert session.journal.tail.readers == 0


async def test_a_client_that_leaves_ends_its_command(short_dir: Path) -> None:
    async with real(short_dir) as (_, served):
        fifo = short_dir / "fifo"
        os.mkfifo(fifo)
        command = ["sh", "-c", f"echo $$ > {fifo}; exec sleep 100"]
        body = json.dumps(calling("sandbox_exec", cmd=command)).encode()
        wire = await served.connect()
        await wire.send(request("POST", "/mcp", ACCEPT, body))
        pid = int(await trio.to_thread.run_sync(fifo.read_text))
        assert lives(pid)
        await wire.stream.aclose()
        await trio.to_thread.run_sync(wait_gone, pid)


async def test_a_shutdown_ends_what_waits(short_dir: Path) -> None:
    async with real(short_dir, two_steps=True) as (_, served):
        await post(served, calling("session_create", name="a", cmd=["cat"]))
        wait = calling("session_wait", name="a", exit=True, timeout_ms=20_000)
        wire = await served.connect()
        await wire.send(request("POST", "/mcp", ACCEPT, json.dumps(wait).encode()))
        answered = await post(served, calling("session_list"))
        assert told(answered)[1] is False
        served.shutdown.set()
        error, failed = told(await wire.answer())
        assert (failed, error["error"]["code"]) == (True, "unavailable")
        refused = await post(served, calling("session_list"))
        assert (refused.status, refused.code) == (503, "unavailable")
