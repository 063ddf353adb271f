"""The same short life a thousand times: one outcome each, everything in order, every byte.

The plain run does a part of it; the whole with `--long` (see the numbers at each test).
"""

from __future__ import annotations

import base64
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.client import Answer, Client, Connection, parse_page
from tests.support.crashable import Crashable, crashable, modes
from tests.support.shapes import CELL, processes_of

PATIENCE = 60.0  # seconds for one life
WORKERS = 8
EXITED = "attempt.exited"


@pytest.fixture(scope="module", params=["cgroups", "proc"])
def daemon(request: pytest.FixtureRequest) -> Iterator[Crashable]:
    with (
        tempfile.TemporaryDirectory(prefix="s0d-") as directory,
        crashable(Path(directory), **modes(request.param)) as daemon,
    ):
        trio.run(daemon.start)
        yield daemon


@pytest.fixture
def times(request: pytest.FixtureRequest) -> Callable[[int, int], int]:
    """How often: (in a plain run, with `--long`)."""
    long = bool(request.config.getoption("--long"))
    return lambda plain, whole: whole if long else plain


async def repeat(
    daemon: Crashable, times: int, life: Callable[[Connection, int], Awaitable[None]]
) -> None:
    """Live `times` lives, several at once, each worker on one connection."""
    numbers = iter(range(times))

    async def work() -> None:
        async with daemon.client.connect() as connection:
            for number in numbers:
                with trio.fail_after(PATIENCE):
                    await life(connection, number)

    async with trio.open_nursery() as nursery:
        for _ in range(WORKERS):
            nursery.start_soon(work)


async def create(connection: Connection, *command: str, **fields: Any) -> str:
    answer = await connection.ask("POST", "", {"command": list(command), "cwd": "/", **fields})
    assert answer.status == 201, answer
    return str(answer.data["id"])


async def delete(connection: Connection, session: str) -> None:
    assert (await connection.ask("DELETE", f"/{session}")).status == 200


async def until_exited(client: Client, session: str) -> None:
    async with client.events(session) as stream:
        while (events := await stream.receive()) is not None:
            if any(event.fields["type"] == EXITED for event in events):
                return


async def history(connection: Connection, session: str) -> list[dict[str, Any]]:
    answer = await connection.ask("GET", f"/{session}/events?limit=10000")
    return [event.fields for event in parse_page(answer)]


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["type"], e.get("reason", "")) for e in events if e["type"] != "output"]


def check_stopped(answer: Answer, events: list[dict[str, Any]], cell: str) -> str:
    """One outcome, told once, whoever was first; returns which."""
    assert processes_of(cell) == []
    assert (answer.status, answer.data["phase"]) == (200, "stopped")
    attempt = answer.data["attempt"]
    assert attempt["number"] == 1, "no later attempt"
    kinds = Counter(type for type, _ in told(events))
    assert kinds[EXITED] == kinds["attempt.starting"] == kinds["session.stopped"] == 1
    assert told(events)[-1] == ("session.stopped", "desired_state_stopped")
    exited = next(event for event in events if event["type"] == EXITED)
    assert (exited["reason"], exited["exit_code"]) == (attempt["reason"], attempt["exit_code"])
    outcome = (attempt["reason"], attempt["exit_code"])
    assert outcome in {
        ("exited", 0),
        ("desired_state_stopped", 143),
        ("desired_state_stopped", 0),  # asked to, and yet it ended by itself
    }
    assert ("attempt.stopping" in kinds) >= (attempt["reason"] == "desired_state_stopped")
    return "before" if attempt["reason"] == "exited" else "after"


async def test_stops_that_race_with_the_natural_end(
    daemon: Crashable, times: Callable[[int, int], int]
) -> None:
    """100 stops for each way of owning; 1,000 with `--long`.  Restarts would be seen."""
    outcomes: Counter[str] = Counter()
    restart = {"policy": "always", "initial_backoff_ms": 10_000, "max_backoff_ms": 10_000}

    async def life(connection: Connection, number: int) -> None:
        cell = f"race-{number}-{os.urandom(4).hex()}"
        lifecycle = {"restart": restart}
        command = ("sleep", "0.02")
        session = await create(connection, *command, env={CELL: cell}, lifecycle=lifecycle)
        await trio.sleep(number % 20 * 0.002)  # not to wait for a thing: to hit every moment
        path = f"/{session}/desired-state"
        answer = await connection.ask("PUT", path, {"state": "stopped"})
        outcomes[check_stopped(answer, await history(connection, session), cell)] += 1
        await delete(connection, session)

    await repeat(daemon, times(100, 1000), life)
    assert sum(outcomes.values()) == times(100, 1000)


async def test_runs_of_true(daemon: Crashable, times: Callable[[int, int], int]) -> None:
    """150 runs for each way of owning; 1,000 with `--long`."""

    async def life(connection: Connection, number: int) -> None:
        session = await create(connection, "true", io={"mode": ("pipes", "pty")[number % 2]})
        await until_exited(daemon.client, session)
        events = await history(connection, session)
        assert told(events) == [
            ("session.created", ""),
            ("attempt.starting", "created"),
            ("attempt.started", ""),
            ("session.ready", ""),
            (EXITED, "exited"),
        ]
        assert events[-1]["exit_code"] == 0
        assert [event["seq"] for event in events] == [1, 2, 3, 4, 5]
        await delete(connection, session)

    await repeat(daemon, times(150, 1000), life)


@pytest.mark.parametrize("mode", ["pipes", "pty"])
async def test_every_byte_of_a_program_that_exits_at_once(
    daemon: Crashable, times: Callable[[int, int], int], mode: str
) -> None:
    """40 runs for each way of owning and kind of descriptor; 500 with `--long`."""
    lines = list(itertools.takewhile(lambda n: n < 3000, itertools.count(1000)))
    command = ("seq", str(lines[0]), str(lines[-1]))
    newline = "\r\n" if mode == "pty" else "\n"
    wanted = "".join(f"{n}{newline}" for n in lines) * 2  # 20 KB and more

    async def life(connection: Connection, number: int) -> None:
        script = f"{' '.join(command)}; exec {' '.join(command)}"
        session = await create(connection, "sh", "-c", script, io={"mode": mode})
        await until_exited(daemon.client, session)
        events = await history(connection, session)
        assert (events[-1]["type"], events[-1]["exit_code"]) == (EXITED, 0)
        parts = [base64.b64decode(e["data_base64"]) for e in events if e["type"] == "output"]
        assert b"".join(parts) == wanted.encode()
        await delete(connection, session)

    assert len(wanted) >= 20_000
    await repeat(daemon, times(40, 500), life)
