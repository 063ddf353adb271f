"""The tools, by a client from the same package, over both transports, against a real daemon."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio

mcp = pytest.importorskip("mcp", reason="the extra s0d[mcp] is not installed")

from mcp import Client, StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from tests.support.daemon import Daemon  # noqa: E402

LIMIT = 60.0


class Agent:
    """A client of the tools; answers are decoded, errors are looked for."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        assert not result.is_error, result
        return self._decoded(result)

    async def fails(self, tool: str, **arguments: Any) -> Any:
        result = await self.client.call_tool(tool, arguments)
        assert result.is_error, result
        return self._decoded(result)["error"]

    def _decoded(self, result: Any) -> Any:
        (content,) = result.content
        return json.loads(content.text)


@asynccontextmanager
async def over_stdio(daemon: Daemon, mode: str = "auto") -> AsyncIterator[Agent]:
    parameters = StdioServerParameters(
        command=sys.executable,
        args=["-m", "s0d", "mcp"],
        env=daemon.client_environment,
        cwd=daemon.directory,
    )
    async with Client(parameters, mode=mode) as client:
        yield Agent(client)


@asynccontextmanager
async def over_http(daemon: Daemon, mode: str = "auto") -> AsyncIterator[Agent]:
    httpx = pytest.importorskip("httpx2")
    headers = {"Authorization": f"Bearer {daemon.token}"}
    async with httpx.AsyncClient(headers=headers, timeout=LIMIT) as plain:
        transport = streamable_http_client(f"{daemon.url}/mcp", http_client=plain)
        async with Client(transport, mode=mode) as client:
            yield Agent(client)


Connect = Callable[..., AbstractAsyncContextManager[Agent]]
WAYS = pytest.mark.parametrize("connect", [over_stdio, over_http])


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@WAYS
@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_story(connect: Connect, mode: str, shared_daemon: Daemon) -> None:
    """A server is started and waited for, a shell typed into and looked at, both are ended."""
    port = free_port()
    with trio.fail_after(LIMIT):
        async with connect(shared_daemon, mode) as agent:
            names = {tool.name for tool in (await agent.client.list_tools()).tools}
            assert {"session_create", "session_screen", "sandbox_exec"} <= names
            cmd = ["python3", "-u", "-m", "http.server", "--bind", "127.0.0.1", str(port)]
            made = await agent("session_create", name="web", cmd=cmd, replace=True)
            assert made["session"]["name"] == "web"
            assert made["session"]["command"] == cmd
            waited = await agent("session_wait", name="web", port=port, exit=True)
            assert (waited["matched"], waited["port"]) == ("port", port)
            await agent("session_wait", name="web", output="Serving HTTP")
            read = await agent("session_output", name="web")
            assert "Serving HTTP on 127.0.0.1" in read["text"]
            assert (read["phase"], "more" in read) == ("running", False)
            assert (await agent("session_output", name="web", after=read["cursor"]))["text"] == ""

            shell = ["sh", "-i"]
            await agent(
                "session_create", name="shell", cmd=shell, replace=True, env={"PS1": "ready> "}
            )
            await agent("session_wait", name="shell", screen="ready>")
            typed = await agent("session_keys", name="shell", keys=["echo $((6*7))", "Enter"])
            await agent("session_wait", name="shell", output="42", after=typed["cursor"])
            await agent("session_wait", name="shell", screen="^ready>$", regex=True)
            screen = await agent("session_screen", name="shell")
            lines = screen["text"].splitlines()
            assert lines == ["ready> echo $((6*7))", "42", "ready>"]
            assert screen["cursor"] == {"row": 2, "col": 7}

            for name in ("web", "shell"):
                await agent("session_kill", name=name, signal="TERM", grace_ms=500)
                ended = await agent("session_wait", name=name, exit=True)
                assert ended["matched"] == "exit"
            listed = await agent("session_list")
            status = {info["name"]: info["status"] for info in listed["sessions"]}
            assert status == {"web": "KILLED", "shell": "KILLED"}
