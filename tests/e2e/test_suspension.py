"""Idle suspension and waking, as the named sessions' surface sees it (wire contract, section 4)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from tests.support.client import Client
from tests.support.daemon import Daemon
from tests.support.named import PATIENCE, Named

BOX = "/api/v1/sandboxes/local"
CAT = ("sh", "-c", "stty raw -echo; echo ready; exec cat")


async def configure(named: Named, **config: Any) -> None:
    answer = await named.ask("PUT", BOX, {"config": config}, prefix="")
    assert answer.status == 200, answer


async def pause(named: Named, *, memory: bool = True) -> None:
    answer = await named.ask("POST", f"{BOX}/pause", {"memory": memory}, prefix="")
    assert json.loads(answer.body)["data"]["paused"] is True, answer


async def resumes(named: Named) -> bool:
    """Was it suspended?  It runs afterwards."""
    return not (await named.ask("POST", "/resume")).json["already_running"]


async def suspended(named: Named) -> bool:
    return bool((await named.ask("GET", "/sessions")).json["sandbox_suspended"])


async def until_suspended(named: Named) -> None:
    """Asking does not wake it, so asking is how to wait."""
    with trio.fail_after(PATIENCE):
        while not await suspended(named):  # noqa: ASYNC110  (nobody tells)
            await trio.sleep(0.02)


@asynccontextmanager
async def session(daemon: Daemon) -> AsyncIterator[Named]:
    """A daemon with one quiet session, `one`, of which the output has been read."""
    named = Named(daemon.socket)
    await named.create("one", *CAT)
    async with named.attach("one") as (attached, _):
        await attached.reads(b"ready")
    yield named
    await resumes(named)
    await named.kill("one", signal="KILL")


async def test_every_way_to_use_it_wakes_it_and_a_look_does_not(daemon: Daemon) -> None:
    async with session(daemon) as named:
        for method, path, body in (
            ("POST", "/sessions", {"name": "two", "cmd": ["true"]}),
            ("POST", "/sessions/two/kill", None),
            ("POST", "/exec", {"cmd": ["true"]}),
        ):
            await pause(named)
            before = await named.get("one")
            assert await suspended(named)
            assert (await named.ask("GET", "/sessions/one")).session == before
            assert await suspended(named)
            answer = await named.ask(method, path, body)
            # What had ended stays as it is, so that its kill needs nothing of the sandbox; but the
            # contract has every kill wake it.
            assert answer.status in (200, 201), answer
            assert not await suspended(named), (method, path)
            assert (await named.get("one"))["status"] == "IDLE"
        await pause(named)
        assert await resumes(named)
        assert not await resumes(named)
        await pause(named)
        async with named.socket("/exec") as terminal:
            assert await suspended(named)
            await terminal.send({"type": "START", "cmd": ["echo", "awake"]})
            await terminal.reads(b"awake")


async def test_many_wakers_at_once_wake_it_once(daemon: Daemon) -> None:
    async with session(daemon) as named:
        generation = await _generation(named)
        await pause(named)
        answers = []

        async def execute(number: int) -> None:
            answer = await named.ask("POST", "/exec", {"cmd": ["echo", str(number)]})
            answers.append(answer.json["stdout"])

        async with trio.open_nursery() as nursery:
            for number in range(10):
                nursery.start_soon(execute, number)
        assert sorted(answers) == [f"{number}\n" for number in range(10)]
        assert await _generation(named) == generation + 1


async def _generation(named: Named) -> int:
    answer = await named.ask("GET", BOX, prefix="")
    return int(json.loads(answer.body)["data"]["runtime_generation"])


async def test_a_paused_sandbox_that_must_be_resumed_says_so(daemon: Daemon) -> None:
    async with session(daemon) as named:
        await configure(named, auto_resume=False)
        await pause(named)
        for path, body in (
            ("/sessions", {"name": "two", "cmd": ["true"]}),
            ("/sessions/one/kill", None),
            ("/exec", {"cmd": ["true"]}),
        ):
            assert (await named.ask("POST", path, body)).code == (409, "sandbox_conflict")
        for path, first in (
            ("/sessions/one/attach", {"type": "START"}),
            ("/exec", {"type": "START", "cmd": ["true"]}),
        ):
            async with named.socket(path) as attached:
                await attached.send(first)
                error, closed = await attached.rest()
                assert (error["code"], closed.code) == ("sandbox_conflict", 1008)
        assert await suspended(named)
        assert await resumes(named)


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("auto_resume", [True, False])
async def test_a_retry_is_answered_and_wakes_nothing(
    daemon: Daemon, memory: bool, auto_resume: bool
) -> None:
    named, client = Named(daemon.socket), Client(daemon.socket)
    await configure(named, auto_resume=auto_resume)
    spec = {"command": ["cat"]}
    made = (await client.ask("POST", "", spec, "key")).data["id"]
    sent = {"input_id": "1", "data_base64": "eA=="}
    other = {"input_id": "1", "data_base64": "eQ=="}
    first = (await client.ask("POST", f"/{made}/inputs", sent)).data
    assert not first["duplicate"]
    await pause(named, memory=memory)
    again = await client.ask("POST", f"/{made}/inputs", sent)
    assert (again.status, again.data) == (202, first | {"duplicate": True})
    refused = await client.ask("POST", f"/{made}/inputs", other)
    assert (refused.status, refused.error["code"]) == (409, "session_conflict")
    answer = await client.ask("POST", "", spec, "key")
    assert (answer.status, answer.data["id"]) == (200, made)
    refused = await client.ask("POST", "", {"command": ["true"]}, "key")
    assert (refused.status, refused.error["code"]) == (409, "session_conflict")
    async with client.websocket(made, after=answer.data["cursor"]["latest"]) as websocket:
        await websocket.send({"type": "input", "request_id": "a", **sent})
        assert await websocket.receive() == [{"type": "ack", "request_id": "a"}]
        await websocket.send({"type": "input", "request_id": "b", **other})
        message = (await websocket.receive() or [{}])[0]
        assert isinstance(message, dict)
        assert message["code"] == "session_conflict"
    assert await suspended(named)
    new = await client.ask("POST", f"/{made}/inputs", sent | {"input_id": "2"})
    assert await suspended(named) is not auto_resume
    if not auto_resume:
        assert new.error["code"] == "sandbox_conflict"
    elif memory:  # else it is still being started again
        assert new.status == 202


async def test_quiet_suspends_it_unless_somebody_is_there(daemon: Daemon) -> None:
    async with session(daemon) as named:
        await configure(named, idle_suspend_seconds=1)
        async with named.attach("one") as (attached, _):
            # Longer than the quiet that it takes: nothing else shows that something does not come.
            await trio.sleep(1.5)
            assert not await suspended(named)
            await attached.send(b"still awake")
            await attached.reads(b"still awake")
        await until_suspended(named)
        assert (await named.get("one"))["status"] == "IDLE"
        async with named.attach("one") as (attached, _):
            await attached.reads(b"still awake")  # the same session, with its replay
            await attached.send(b"awake again")
            await attached.reads(b"awake again")


async def test_a_wait_keeps_nothing_awake_and_goes_on(daemon: Daemon) -> None:
    async with session(daemon) as named:
        client = Client(daemon.socket)
        made = (await client.ask("GET", "?name=one")).data["sessions"][0]["id"]
        await configure(named, idle_suspend_seconds=1)
        matched = []

        async def wait() -> None:
            body = {"for": {"output": "typed"}, "timeout_ms": int(PATIENCE * 1000)}
            matched.append((await client.ask("POST", f"/{made}/wait", body)).data["matched"])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await until_suspended(named)
            assert matched == []
            await client.ask("POST", f"/{made}/keys", {"keys": [{"text": "typed"}]})
        assert matched == ["output"]


async def test_a_command_that_runs_keeps_it_awake(daemon: Daemon) -> None:
    async with session(daemon) as named:
        await configure(named, idle_suspend_seconds=1)
        answer = await named.ask("POST", "/exec", {"cmd": ["sh", "-c", "sleep 1.6; echo done"]})
        assert answer.json["stdout"] == "done\n"
        await until_suspended(named)


async def test_output_keeps_it_awake(daemon: Daemon) -> None:
    async with session(daemon) as named:
        await configure(named, idle_suspend_seconds=1)
        ticks = "for i in 1 2 3 4 5 6 7 8; do echo tick; sleep 0.2; done; exec sleep 1000"
        await named.create("two", "sh", "-c", ticks)
        await trio.sleep(1.5)
        assert not await suspended(named)
        await until_suspended(named)


async def test_freezing_and_waking_under_load_loses_no_byte(
    daemon: Daemon, request: pytest.FixtureRequest
) -> None:
    rounds = 100 if request.config.getoption("--long") else 10
    async with session(daemon) as named:
        count = "stty raw; n=0; while :; do n=$((n+1)); echo $n; done"
        await named.create("two", "bash", "-c", count)
        async with named.attach("two", max_replay_bytes=1 << 30) as (attached, _):
            for _ in range(rounds):
                seen = len(attached.output)
                while len(attached.output) < seen + 10_000:
                    await attached.receive()
                await pause(named)
                assert await resumes(named)
            await named.kill("two", signal="KILL")
            await attached.until("EXIT")
        numbers = attached.output.split(b"\n")
        last = numbers.pop()  # it was killed within a line, or between two
        assert numbers == [b"%d" % number for number in range(1, len(numbers) + 1)]
        assert (b"%d" % (len(numbers) + 1)).startswith(last)


@pytest.mark.parametrize("size", [(1, 1), (512, 512)])
async def test_the_size_of_a_frozen_terminal_is_that_of_its_client(
    daemon: Daemon, size: tuple[int, int]
) -> None:
    async with session(daemon) as named:
        await pause(named)
        cols, rows = size
        async with named.attach("one", cols=cols, rows=rows) as (_, accepted):
            assert (accepted["cols"], accepted["rows"]) == size
