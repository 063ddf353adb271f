"""The tools, by a client from the same package, over both transports, against a real daemon."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import trio

mcp = pytest.importorskip("mcp", reason="the extra s0d[mcp] is not installed")

from mcp import Client, StdioServerParameters  # noqa: E402
from mcp.client.streamable_http import streamable_http_client  # noqa: E402

from s0d.mcp.tools import TOOLS  # noqa: E402
from tests.support.daemon import Daemon  # noqa: E402

LIMIT = 60.0


class Agent:
    """A client of the tools; answers are decoded, errors are looked for."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def __call__(self, tool: str, **arguments: Any) -> Any:
        said, failed = await self._call(tool, arguments)
        assert not failed, said
        return said

    async def fails(self, tool: str, **arguments: Any) -> Any:
        said, failed = await self._call(tool, arguments)
        assert failed, said
        return said["error"]

    async def _call(self, tool: str, arguments: dict[str, Any]) -> tuple[Any, bool]:
        result = await self.client.call_tool(tool, arguments)
        (content,) = result.content
        return json.loads(content.text), result.is_error


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
    httpx2 = pytest.importorskip("httpx2")  # the package's own, by another name
    headers = {"Authorization": f"Bearer {daemon.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=LIMIT) as plain:
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
            assert (read["status"], "more" in read) == ("IDLE", False)
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


@WAYS
async def test_commands(connect: Connect, shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with connect(shared_daemon) as agent:
            script = "cat; echo oops >&2; exit 3"
            done = await agent("sandbox_exec", cmd=["sh", "-c", script], stdin="typed\n")
            assert done == {"exit_code": 3, "stdout": "typed\n", "stderr": "oops\n"}
            done = await agent("sandbox_exec", cmd=["sleep", "100"], timeout_s=1)
            assert done["timed_out"] is True
            long = await agent("sandbox_exec", cmd=["seq", "100000"])
            assert long["stdout"].startswith("1\n2\n")
            assert long["stdout"].endswith("99999\n100000\n")
            assert (long["stdout_truncated"], len(long["stdout"]) < 8100) == (True, True)
            error = await agent.fails("sandbox_exec", cmd=["/nowhere/program"])
            assert "/nowhere/program" in error["message"]


@WAYS
async def test_errors_come_with_what_to_do(connect: Connect, shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with connect(shared_daemon) as agent:
            error = await agent.fails("session_output", name="nobody")
            assert error["code"] == "session_not_found"
            assert "session_list" in error["what_to_do"]
            await agent("session_create", name="twice", cmd=["cat"], replace=True)
            error = await agent.fails("session_create", name="twice", cmd=["cat"])
            assert error["code"] == "session_exists"
            error = await agent.fails("session_wait", name="twice", output="never", timeout_ms=1)
            assert error["code"] == "wait_timeout"
            error = await agent.fails("session_create", name="Bad Name", cmd=["cat"])
            assert (error["code"], error["message"][:5]) == ("validation_failed", "name:")
            error = await agent.fails("session_list", sandbox_id="nowhere")
            assert error["code"] == "sandbox_not_found"
            await agent("session_kill", name="twice", signal="KILL")
            await agent("session_wait", name="twice", exit=True)
            error = await agent.fails("session_input", name="twice", text="x")
            assert error["code"] == "session_conflict"
            read = await agent("session_output", name="twice")
            assert (read["text"], read["status"]) == ("", "KILLED")


@WAYS
async def test_calls_do_not_wait_for_one_another(connect: Connect, shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with connect(shared_daemon) as agent, trio.open_nursery() as nursery:
            await agent("session_create", name="slow", cmd=["cat"], replace=True)
            matched: list[Any] = []

            async def wait() -> None:
                matched.append(await agent("session_wait", name="slow", output="now"))

            for _ in range(3):
                nursery.start_soon(wait)
            await agent("session_list")
            assert matched == []
            await agent("session_input", name="slow", text="now\n")
            await agent("session_kill", name="slow", signal="KILL")
    assert [match["matched"] for match in matched] == ["output"] * 3


@WAYS
async def test_a_flood_is_read_page_by_page(connect: Connect, shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with connect(shared_daemon) as agent:
            cmd = ["sh", "-c", "stty -opost; seq 60000"]
            await agent("session_create", name="flood", cmd=cmd, replace=True)
            await agent("session_wait", name="flood", exit=True)
            newest = await agent("session_output", name="flood", max_bytes=100)
            assert newest["text"].endswith("59999\n60000\n")
            assert newest["earlier_left_out"] is True
            texts, cursor, more = [], 0, True
            while more:
                page = await agent("session_output", name="flood", after=cursor, max_bytes=100_000)
                texts.append(page["text"])
                cursor, more = page["cursor"], page.get("more", False)
            assert "".join(texts) == "".join(f"{n}\n" for n in range(1, 60001))
            assert max(map(len, texts)) <= 100_000
            assert page["exit_code"] == 0


async def test_over_stdio_commands_run_where_the_agent_is(shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with over_stdio(shared_daemon) as agent:
            done = await agent("sandbox_exec", cmd=["pwd"])
            assert done["stdout"] == f"{shared_daemon.directory}\n"
            made = await agent("session_create", name="here", cmd=["pwd"], replace=True)
            assert made["session"]["working_dir"] == str(shared_daemon.directory)


async def test_the_agents_end_ends_nothing(shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        async with over_stdio(shared_daemon) as agent:
            await agent("session_create", name="stays", cmd=["cat"], replace=True)
        async with over_http(shared_daemon) as agent:
            await agent("session_input", name="stays", text="still here\n")
            await agent("session_wait", name="stays", output="still here")


async def test_both_ways_have_the_same_tools(shared_daemon: Daemon) -> None:
    with trio.fail_after(LIMIT):
        listed = []
        for connect in (over_stdio, over_http):
            async with connect(shared_daemon) as agent:
                listed.append((await agent.client.list_tools()).tools)
                assert agent.client.server_info.name == "s0d"
        assert listed[0] == listed[1]


async def test_it_starts_a_daemon_where_none_answers(on_demand: dict[str, str]) -> None:
    """As `s0d run` does; the daemon outlives it."""
    command = StdioServerParameters(
        command=sys.executable, args=["-m", "s0d", "mcp"], env=on_demand
    )
    with trio.fail_after(LIMIT):
        for sessions in ([], ["stays"]):
            async with Client(command) as client:
                agent = Agent(client)
                listed = await agent("session_list")
                assert [info["name"] for info in listed["sessions"]] == sessions
                if not sessions:
                    await agent("session_create", name="stays", cmd=["cat"])


async def test_the_readmes_registration(shared_daemon: Daemon) -> None:
    """What an agent program does with it: start the command, speak to it."""
    readme = Path(__file__).parents[2] / "README.md"
    (snippet,) = re.findall(r"^```json\n(.*?)^```$", readme.read_text(), re.MULTILINE | re.DOTALL)
    (registered,) = json.loads(snippet)["mcpServers"].values()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    env = {**shared_daemon.client_environment, "PATH": path}
    command = shutil.which(registered["command"], path=path)
    assert command is not None
    with trio.fail_after(LIMIT):
        parameters = StdioServerParameters(command=command, args=registered["args"], env=env)
        async with Client(parameters) as client:
            assert (await client.list_tools()).tools
    assert {f"`{tool.name}`" for tool in TOOLS} <= set(re.findall("`[a-z_]+`", readme.read_text()))


@pytest.fixture
def raw(shared_daemon: Daemon) -> Iterator[subprocess.Popen[bytes]]:
    """`s0d mcp`, spoken to by hand."""
    with subprocess.Popen(
        [sys.executable, "-m", "s0d", "mcp"],
        env=shared_daemon.client_environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        client = {"name": "test", "version": "1"}
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": client}
        say(process, "initialize", 0, hello)
        assert heard(process)["result"]["serverInfo"]["name"] == "s0d"
        yield process
        process.kill()


def say(process: subprocess.Popen[bytes], method: str, id: int, params: Any) -> None:
    assert process.stdin is not None
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
    process.stdin.write(json.dumps(message).encode() + b"\n")
    process.stdin.flush()


def heard(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def test_the_end_of_input_ends_it_whatever_it_waits_for(raw: subprocess.Popen[bytes]) -> None:
    assert raw.stdin is not None
    create = {"name": "raw", "cmd": ["cat"], "replace": True}
    say(raw, "tools/call", 1, {"name": "session_create", "arguments": create})
    assert heard(raw)["id"] == 1
    raw.stdin.write(b"not JSON\n")
    wait = {"name": "raw", "output": "never", "timeout_ms": 60_000}
    say(raw, "tools/call", 2, {"name": "session_wait", "arguments": wait})
    say(raw, "tools/call", 3, {"name": "session_list", "arguments": {}})
    assert heard(raw)["id"] == 3
    raw.stdin.close()
    assert raw.wait(10) == 0


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_at_once(raw: subprocess.Popen[bytes], signum: int) -> None:
    raw.send_signal(signum)
    assert raw.wait(10) == -signum


async def test_a_sleeping_sandbox(shared_daemon: Daemon) -> None:
    """Looking does not wake it, typing does."""
    headers = {"Authorization": f"Bearer {shared_daemon.token}"}
    url = f"{shared_daemon.url}/api/v1/sandboxes"
    with trio.fail_after(LIMIT):
        async with (
            httpx.AsyncClient(headers=headers) as plain,
            over_http(shared_daemon) as agent,
        ):
            made = await plain.post(url, json={})
            sandbox = made.json()["data"]["sandbox_id"]
            here = {"sandbox_id": sandbox}
            await agent("session_create", name="shell", cmd=["cat"], **here)
            await agent("session_input", name="shell", text="before\n", **here)
            await agent("session_wait", name="shell", screen="before\nbefore", **here)
            await plain.post(f"{url}/{sandbox}/pause", json={"memory": True})
            listed = await agent("session_list", **here)
            assert listed["sandbox_suspended"] is True
            assert [info["status"] for info in listed["sessions"]] == ["IDLE"]
            assert "before" in (await agent("session_output", name="shell", **here))["text"]
            assert "before" in (await agent("session_screen", name="shell", **here))["text"]
            assert (await agent("session_list", **here))["sandbox_suspended"] is True
            await agent("session_input", name="shell", text="after\n", **here)
            await agent("session_wait", name="shell", screen="after\nafter", **here)
            assert (await agent("session_list", **here))["sandbox_suspended"] is False
            await plain.delete(f"{url}/{sandbox}")
