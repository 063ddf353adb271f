"""Attachments that come back: inputs accepted once, attempts told, sessions by their id."""

from __future__ import annotations

import itertools

import pytest

from tests.support.client import Client
from tests.support.daemon import Daemon
from tests.support.named import Attached, Named

CAT = ("sh", "-c", "stty raw -echo; echo ready; exec cat")
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"again{next(_numbers)}"


async def answers(attached: Attached, count: int) -> list[tuple[int, bool]]:
    frames = [await attached.until("INPUT") for _ in range(count)]
    return [(frame["number"], frame["accepted"]) for frame in frames]


async def test_an_input_is_accepted_once(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with named.attach(name, input_id="mine") as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"one ")
        await attached.send(b"two ")
        assert await answers(attached, 2) == [(1, True), (2, True)]
        await attached.reads(b"two ")
    async with named.attach(name, replay="none", input_id="mine", input_from=2) as (attached, _):
        await attached.send(b"two ")  # as a client does that has not heard of it
        await attached.send(b"three")
        assert await answers(attached, 2) == [(2, True), (3, True)]
        await attached.reads(b"three")
        assert attached.output == b"three"
    await named.kill(name, signal="KILL")


async def test_an_input_that_is_refused_is_answered_too(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with named.attach(name, input_id="mine", role="viewer") as (attached, _):
        await attached.send(b"x")
        assert (await attached.until("ERROR"))["code"] == "forbidden"
    async with named.attach(name, input_id="mine") as (attached, _):
        await attached.send(b"x")
        await attached.until("INPUT")
    async with named.attach(name, input_id="mine") as (attached, _):
        await attached.send(b"other than before")
        assert await answers(attached, 1) == [(1, False)]
        assert (await attached.until("ERROR"))["code"] == "session_conflict"
    await named.kill(name, signal="KILL")


async def test_each_new_attempt_is_told(
    named: Named, supervised: Client, shared_daemon: Daemon, name: str
) -> None:
    spec = {"name": name, "command": list(CAT), "io": {"mode": "pty"}}
    session = (await supervised.ask("POST", "", spec)).data
    async with named.attach(name, attempts=True) as (attached, _):
        first = await attached.until("ATTEMPT")
        assert first["attempt_id"] == session["attempt"]["id"]
        await attached.reads(b"ready")
        again = await supervised.ask(
            "POST", f"/{session['id']}/attempts", {"replace_current": True}
        )
        second = await attached.until("ATTEMPT")
        assert second["attempt_id"] == again.data["attempt"]["id"]
        assert second["seq"] > first["seq"]
    await named.kill(name, signal="KILL")


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ({"input_id": ""}, "input_id: must have 1 to 128 characters"),
        ({"input_id": "x" * 129}, "input_id: must have 1 to 128 characters"),
        ({"input_from": -1}, "input_from: must be from 0"),
        ({"attempts": "yes"}, "attempts"),
    ],
)
async def test_nonsense(named: Named, name: str, start: dict[str, object], message: str) -> None:
    await named.create(name, "true")
    async with named.socket(f"/sessions/{name}/attach") as attached:
        await attached.send({"type": "START", **start})
        error, closed = await attached.rest()
        assert (error["type"], error["code"], closed.code) == ("ERROR", "validation_failed", 1008)
        assert message in error["message"]
