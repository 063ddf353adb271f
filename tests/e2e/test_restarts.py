"""Attempt 1,000 behaves like attempt 1, nothing is leaked on the way, and rest costs nothing."""

from __future__ import annotations

import base64
import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio

from s0d.process.detect import detect
from s0d.process.proc import PAGE_SIZE, list_pids, read_stat
from tests.support.client import Client, EventStream
from tests.support.crashable import Crashable, crashable, modes

PATIENCE = 120.0
SESSIONS = 8  # restart at the same time


@pytest.fixture(params=["cgroups", "proc"])
def daemon(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Crashable]:
    if request.param == "cgroups" and detect().mode != "cgroup":
        pytest.skip("no cgroup can be made on this machine")
    with crashable(short_dir, **modes(request.param)) as daemon:
        yield daemon


class Held(NamedTuple):
    """What a daemon holds at a moment when none of its sessions runs.

    Not its threads: Trio lets idle workers go after 10 s.
    """

    descriptors: dict[str, int]
    children: int
    cgroups: int


def held(daemon: Crashable, home: str | None) -> Held:
    assert daemon.pid is not None
    stats = [found for pid in list_pids() if (found := read_stat(pid)) is not None]
    children = sum(found.ppid == daemon.pid for found in stats)  # zombies too
    cgroups = sum(entry.is_dir() for entry in os.scandir(home)) if home else 0
    return Held(descriptors(daemon.pid), children, cgroups)


def descriptors(pid: int) -> dict[str, int]:
    """How many of each kind: sockets, pipes, files by directory."""
    kinds: dict[str, int] = {}
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile
            target = os.readlink(entry)
            kind = target.partition(":")[0] if ":" in target else os.path.dirname(target)
            kinds[kind] = kinds.get(kind, 0) + 1
    return kinds


def resident(daemon: Crashable) -> int:
    assert daemon.pid is not None
    stat = read_stat(daemon.pid)
    assert stat is not None
    return stat.resident_pages * PAGE_SIZE


def home_of(daemon: Crashable) -> str | None:
    """The daemon's part of the cgroup hierarchy, as it says in its log."""
    lines = [line for line in daemon.log() if line["message"] == "ownership of process trees"]
    return lines[-1]["base"] or None


async def restart(client: Client, session: str, times: int) -> None:
    """Attempt after attempt, each to its end."""
    async with client.connect() as connection, client.events(session) as stream:
        attempt = (await connection.ask("GET", f"/{session}")).data["attempt"]["id"]
        await until_exited(stream, attempt)
        for _ in range(times):
            answer = await connection.ask("POST", f"/{session}/attempts")
            assert answer.status == 201, answer
            await until_exited(stream, answer.data["attempt"]["id"])


async def until_exited(stream: EventStream, attempt: str) -> None:
    ended = False
    while not ended:
        events = await stream.receive()
        assert events is not None
        ended = any(
            event.fields["type"] == "attempt.exited" and event.fields["attempt_id"] == attempt
            for event in events
        )


async def settled(daemon: Crashable, home: str | None) -> Held:
    """What is held once streams are closed and worker threads have done."""
    last = held(daemon, home)
    with trio.fail_after(PATIENCE):
        while True:
            await trio.sleep(0.2)  # rest is nothing that could be waited for
            now = held(daemon, home)
            if now == last:
                return now
            last = now


@pytest.mark.parametrize("mode", ["pipes", "pty"])
async def test_restarts_leak_nothing(
    daemon: Crashable, mode: str, request: pytest.FixtureRequest
) -> None:
    """80 restarts for each way and kind; 10,000 in all with `--long`."""
    long = request.config.getoption("--long")
    times = (2500 if long else 80) // SESSIONS
    # What is made once is there after a few; the newest MiB that readers share fills up later.
    warm_up = 400 if long else 5
    await daemon.start()
    client, home = daemon.client, home_of(daemon)
    # A child and a grandchild that outlives it for a moment, output on both descriptors.
    script = "sleep 0.01 & echo out; echo err >&2; ls -l /proc/self/fd | wc -l; ulimit -a | md5sum"
    spec = {"command": ["sh", "-c", script], "cwd": "/", "io": {"mode": mode}}
    retention = {"event_retention": {"max_bytes": 262144}}
    sessions = [
        (await client.ask("POST", "", {**spec, **retention})).data["id"] for _ in range(SESSIONS)
    ]

    async def all_restart(times: int) -> None:
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(restart, client, session, times)

    with trio.fail_after(PATIENCE * 20):
        await all_restart(warm_up)
        before, memory = await settled(daemon, home), resident(daemon)
        await all_restart(times)
    after = await settled(daemon, home)
    assert after == before
    assert (after.children, after.cgroups) == (0, 0)
    assert resident(daemon) - memory < (4 << 20) + times * SESSIONS * 200, "bytes a restart"
    for session in sessions:
        said = await outputs(client, session)
        assert len(said) >= 5
        assert len(set(said)) == 1, "every attempt finds the same"


async def outputs(client: Client, session: str) -> list[bytes]:
    """What each attempt has written that is retained whole."""
    by_attempt: dict[str, list[str]] = {}
    started: set[str] = set()
    for event in await client.history(session):
        attempt = event.fields.get("attempt_id", "")
        if event.fields["type"] == "attempt.starting":
            started.add(attempt)
        elif event.fields["type"] == "output" and attempt in started:
            # The two streams may come in either order.
            by_attempt.setdefault(attempt, []).append(event.fields["data_base64"])

    return [
        b"".join(sorted(b"".join(map(base64.b64decode, parts)).splitlines(keepends=True)))
        for parts in by_attempt.values()
    ]


class Spent(NamedTuple):
    """CPU time in seconds, and how often threads have gone to sleep of their own accord."""

    cpu: float
    sleeps: int


def spent(pid: int) -> dict[str, Spent]:
    """By thread: the scheduler's own count of nanoseconds (schedstat), and of sleeps."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended
            cpu = int((task / "schedstat").read_text().split()[0]) / 1e9
            lines = (task / "status").read_text().splitlines()
            (sleeps,) = (li.split()[1] for li in lines if li.startswith("voluntary_ctxt"))
            found[task.name] = Spent(cpu, int(sleeps))
    return found


def between(before: dict[str, Spent], after: dict[str, Spent]) -> Spent:
    """What the threads that are still there have spent; an idle worker that has ended is none."""
    pairs = [(before.get(task, Spent(0.0, 0)), spent) for task, spent in after.items()]
    return Spent(
        sum(now.cpu - then.cpu for then, now in pairs),
        sum(now.sleeps - then.sleeps for then, now in pairs),
    )


async def idle(daemon: Crashable, sessions: int, seconds: float) -> Spent:
    """What the daemon spends while nothing happens in that many sessions."""
    spec: dict[str, Any] = {"command": ["sleep", "100000"], "cwd": "/"}
    await daemon.start()

    async def create(times: int) -> None:
        async with daemon.client.connect() as connection:
            for _ in range(times):
                assert (await connection.ask("POST", "", spec)).status == 201

    with trio.fail_after(PATIENCE * 5):
        async with trio.open_nursery() as nursery:
            for _ in range(SESSIONS):
                nursery.start_soon(create, sessions // SESSIONS)
    assert daemon.pid is not None
    await at_rest(daemon.pid)
    before = spent(daemon.pid)
    await trio.sleep(seconds)  # the passing of time is what is measured
    return between(before, spent(daemon.pid))


async def at_rest(pid: int) -> None:
    """Wait until a second has passed in which no thread did anything: snapshots are written."""
    with trio.fail_after(PATIENCE):
        while True:
            before = spent(pid)
            await trio.sleep(1.1)
            if between(before, spent(pid)).sleeps == 0:
                return


async def test_idle_sessions_cost_nothing(daemon: Crashable) -> None:
    """Not one wake-up in 3 s: no timer ticks for its own sake."""
    used = await idle(daemon, 304, 3)
    assert used.sleeps == 0
    assert used.cpu < 3 * 0.001


@pytest.mark.long
async def test_a_thousand_idle_sessions(daemon: Crashable) -> None:
    used = await idle(daemon, 1000, 30)
    assert used.cpu < 30 * 0.001, used
