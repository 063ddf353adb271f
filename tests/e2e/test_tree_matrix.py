"""Stopped is proved: every shape of tree, ended in every way, owned in every way.

All shapes, with pipes and with a terminal, run at once in one daemon for each way of ending and of
owning.  When s0d has said that an attempt has ended, none of its processes lives (zombies do not
live), and phase, reason and times are right: at once where everything ends early, after the grace
period where only SIGKILL helps.
"""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.process.detect import detect
from tests.support.client import Client, Event, EventStream
from tests.support.crashable import Crashable, crashable, modes
from tests.support.shapes import CELL, EXIT_CODE, SHAPES, Shape, processes_of

PATIENCE = 90.0
GRACE = 1  # seconds: how long the stubborn are to be waited for
LONG_GRACE = 60  # for all others: whoever waits for it is found out
PROMPT = 30.0  # on the most loaded machine; the half of LONG_GRACE

# What a leader may die of that is asked to end: of a terminal's two signals the kernel delivers
# the one with the lower number first.
_ASKED = {"pipes": {"SIGTERM"}, "pty": {"SIGTERM", "SIGHUP"}}


@pytest.fixture(params=["cgroups", "proc", "nobody"])
def daemon(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Crashable]:
    if request.param == "nobody" and os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    if request.param == "cgroups" and detect().mode != "cgroup":
        pytest.skip("no cgroup can be made on this machine")
    with crashable(short_dir, **modes(request.param)) as daemon:
        yield daemon


@dataclass(frozen=True)
class Cell:
    """One session of the matrix."""

    name: str
    shape: Shape
    io: str
    id: str

    def spec(self, **lifecycle: Any) -> dict[str, Any]:
        grace = GRACE if self.shape.stubborn else LONG_GRACE
        return {
            "command": self.shape.command,
            "cwd": "/",
            "env": {CELL: self.name},
            "io": {"mode": self.io},
            "readiness": {"type": "output", "output": "up"},
            "lifecycle": {"stop_grace_period_seconds": grace, **lifecycle},
        }


class Story:
    """The events of a session, read along."""

    def __init__(self, stream: EventStream) -> None:
        self.events: list[Event] = []
        self._stream = stream

    async def until(self, *types: str) -> dict[str, Any]:
        """Read on until an event of one of `types` has come, and return it."""
        while not (found := [event for event in self.events if event.fields["type"] in types]):
            await self.more()
        return found[-1].fields

    async def more(self) -> None:
        events = await self._stream.receive()
        assert events is not None, self.told()
        self.events += events

    def told(self) -> list[tuple[str, str]]:
        fields = (event.fields for event in self.events)
        return [(f["type"], f.get("reason", "")) for f in fields if f["type"] != "output"]

    def time_of(self, type: str) -> datetime:
        (event,) = [event for event in self.events if event.fields["type"] == type]
        return datetime.fromisoformat(event.fields["occurred_at"])

    def seconds(self, begin: str) -> float:
        """From the event of type `begin` to the end of the attempt."""
        return (self.time_of("attempt.exited") - self.time_of(begin)).total_seconds()


@asynccontextmanager
async def follow(client: Client, session: str) -> AsyncIterator[Story]:
    async with client.events(session) as stream:
        yield Story(stream)


async def view(client: Client, session: str) -> dict[str, Any]:
    return dict((await client.ask("GET", f"/{session}")).data)


async def seen(cell: Cell) -> None:
    """Look until all its processes are seen: in an exec one has no environment to be known by."""
    with trio.fail_after(PATIENCE):
        while True:
            if len(processes_of(cell.name)) >= cell.shape.processes:
                return
            await trio.sleep(0.01)


async def populate(daemon: Crashable, **lifecycle: Any) -> list[Cell]:
    """Every shape with both kinds of descriptors, all in place."""
    cells: list[Cell] = []

    async def place(name: str, io: str) -> None:
        cell = Cell(f"{name}-{io}-{os.urandom(4).hex()}", SHAPES[name], io, "")
        answer = await daemon.client.ask("POST", "", cell.spec(**lifecycle))
        assert answer.status == 201, answer
        cell = Cell(cell.name, cell.shape, cell.io, answer.data["id"])
        async with follow(daemon.client, cell.id) as story:
            await story.until("session.ready")
        if not lifecycle.get("idle_timeout_seconds"):
            await seen(cell)
        cells.append(cell)

    async with trio.open_nursery() as nursery:
        for name, io in itertools.product(SHAPES, ("pipes", "pty")):
            nursery.start_soon(place, name, io)
    return cells


def check_times(cell: Cell, story: Story, begin: str) -> None:
    seconds = story.seconds(begin)
    if cell.shape.stubborn:
        assert seconds >= GRACE, "the grace period is respected"
    assert seconds < PROMPT, "nothing is waited for that has ended"


def check_attempt(attempt: dict[str, Any], reason: str, signals: set[str] | None) -> None:
    assert attempt["reason"] == reason
    assert "pid" not in attempt
    if signals is None:
        assert attempt["exit_code"] == EXIT_CODE
        assert "signal" not in attempt
        return
    assert attempt["signal"] in signals
    assert attempt["exit_code"] == 128 + signal.Signals[attempt["signal"]]


async def every(cells: list[Cell], check: Any, *arguments: Any) -> None:
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for cell in cells:
                nursery.start_soon(check, cell, *arguments)


async def test_stop(daemon: Crashable) -> None:
    await daemon.start()

    async def check(cell: Cell) -> None:
        path = f"/{cell.id}/desired-state"
        answer = await daemon.client.ask("PUT", path, {"state": "stopped"})
        assert processes_of(cell.name) == []
        assert (answer.status, answer.data["phase"]) == (200, "stopped")
        check_attempt(answer.data["attempt"], "desired_state_stopped", _ASKED[cell.io])
        async with follow(daemon.client, cell.id) as story:
            await story.until("session.stopped")
        check_times(cell, story, "attempt.stopping")
        assert story.told()[-4:] == [
            ("session.desired_state", "stopped"),
            ("attempt.stopping", "desired_state_stopped"),
            ("attempt.exited", "desired_state_stopped"),
            ("session.stopped", "desired_state_stopped"),
        ]

    await every(await populate(daemon), check)


async def test_delete(daemon: Crashable) -> None:
    await daemon.start()

    async def check(cell: Cell) -> None:
        async with follow(daemon.client, cell.id) as story, trio.open_nursery() as nursery:
            await story.until("session.ready")  # attached

            async def delete() -> None:
                answer = await daemon.client.ask("DELETE", f"/{cell.id}")
                assert processes_of(cell.name) == []
                assert (answer.status, answer.data) == (200, {"deleted": True})

            nursery.start_soon(delete)
            exited = await story.until("attempt.exited")
            assert processes_of(cell.name) == []
        check_attempt({**exited}, "session_deleted", _ASKED[cell.io])
        check_times(cell, story, "attempt.stopping")
        assert story.told()[-2:] == [
            ("attempt.stopping", "session_deleted"),
            ("attempt.exited", "session_deleted"),
        ]
        assert (await daemon.client.ask("GET", f"/{cell.id}")).status == 404

    await every(await populate(daemon), check)


async def test_natural_exit(daemon: Crashable) -> None:
    await daemon.start()

    async def check(cell: Cell) -> None:
        body = {"input_id": "go", "data_base64": "Z28K"}
        assert (await daemon.client.ask("POST", f"/{cell.id}/inputs", body)).status == 202
        async with follow(daemon.client, cell.id) as story:
            await story.until("attempt.exited")
            assert processes_of(cell.name) == []
        check_times(cell, story, "input.accepted")
        assert story.told()[-2:] == [("input.accepted", ""), ("attempt.exited", "exited")]
        session = await view(daemon.client, cell.id)
        assert session["phase"] == "exited"
        check_attempt(session["attempt"], "exited", None)

    await every(await populate(daemon), check)


async def test_signal(daemon: Crashable) -> None:
    await daemon.start()

    async def check(cell: Cell) -> None:
        body = {"signal": "TERM"}
        assert (await daemon.client.ask("POST", f"/{cell.id}/signals", body)).status == 202
        async with follow(daemon.client, cell.id) as story:
            await story.until("attempt.exited")
            assert processes_of(cell.name) == []
        check_times(cell, story, "signal.sent")
        assert story.told()[-2:] == [("signal.sent", "SIGTERM"), ("attempt.exited", "signaled")]
        session = await view(daemon.client, cell.id)
        assert session["phase"] == "exited"
        check_attempt(session["attempt"], "signaled", {"SIGTERM"})

    await every(await populate(daemon), check)


async def test_idle_timeout(daemon: Crashable) -> None:
    await daemon.start()

    async def check(cell: Cell) -> None:
        async with follow(daemon.client, cell.id) as story:
            await story.until("attempt.exited")
            assert processes_of(cell.name) == []
            await story.until("session.stopped")
        check_times(cell, story, "session.expired")
        assert story.told()[-4:] == [
            ("session.expired", "idle_timeout"),
            ("attempt.stopping", "session_expired"),
            ("attempt.exited", "session_expired"),
            ("session.stopped", "session_expired"),
        ]
        session = await view(daemon.client, cell.id)
        assert session["phase"] == "stopped"
        assert session["spec"]["lifecycle"]["desired_state"] == "stopped"
        check_attempt(session["attempt"], "session_expired", _ASKED[cell.io])

    await every(await populate(daemon, idle_timeout_seconds=1), check)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGKILL])
async def test_end_of_the_daemon(daemon: Crashable, signum: signal.Signals) -> None:
    await daemon.start()
    cells = await populate(daemon, runtime_recovery="stop")
    again = await populate(daemon, runtime_recovery="restart")
    before = {c.id: (await view(daemon.client, c.id))["attempt"]["id"] for c in cells + again}
    old = daemon.processes()
    assert len(old) >= sum(cell.shape.processes for cell in cells + again)
    await trio.to_thread.run_sync(daemon.end, signum)
    if signum is signal.SIGTERM:
        assert daemon.processes() == []
    await daemon.start()
    assert [process for process in old if process.lives] == []

    async def check(cell: Cell) -> None:
        async with follow(daemon.client, cell.id) as story:
            exited = await story.until("attempt.exited")
            assert exited["attempt_id"] == before[cell.id]
            assert exited["reason"] == "runtime_replaced"
            if signum is signal.SIGTERM:
                check_attempt(exited, "runtime_replaced", _ASKED[cell.io])
                check_times(cell, story, "attempt.stopping")
            await (check_stopped(cell, story) if cell in cells else check_restarted(cell, story))

    async def check_stopped(cell: Cell, story: Story) -> None:
        await story.until("session.stopped")
        assert story.told()[-2:] == [
            ("session.desired_state", "stopped"),
            ("session.stopped", "runtime_recovery_policy"),
        ]
        assert (await view(daemon.client, cell.id))["phase"] == "stopped"
        assert processes_of(cell.name) == []

    async def check_restarted(cell: Cell, story: Story) -> None:
        while ("attempt.starting", "runtime_recovered") not in story.told():
            await story.more()
        order = [type for type, _ in story.told() if type in ("attempt.exited", "attempt.starting")]
        assert order == ["attempt.starting", "attempt.exited", "attempt.starting"]
        attempt = (await view(daemon.client, cell.id))["attempt"]
        assert (attempt["number"], attempt.get("reason")) == (2, None)

    await every(cells + again, check)
