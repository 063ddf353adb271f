"""A daemon killed in the middle of everything, and started again."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.client import Client, Event, Gone
from tests.support.crashable import Crashable, crashable, modes

PATIENCE = 60.0

# Counts for ever, with two children that left its session and ignore every polite signal.
_COUNT = (
    "trap '' TERM HUP; setsid sleep 1000 & setsid sh -c 'sleep 1000; true' & "
    "i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done"
)


@pytest.fixture(params=["cgroups", "proc", "nobody"])
def daemon(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Crashable]:
    if request.param == "nobody" and os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    with crashable(short_dir, **modes(request.param)) as daemon:
        yield daemon


async def create(client: Client, *command: str, **fields: Any) -> str:
    answer = await client.ask("POST", "", {"command": list(command), "cwd": "/", **fields})
    assert answer.status == 201, answer
    return str(answer.data["id"])


async def view(client: Client, session: str) -> dict[str, Any]:
    return dict((await client.ask("GET", f"/{session}")).data)


async def wait_ready(client: Client, session: str, times: int) -> None:
    """Wait until the session has become ready for the `times`th time.

    The daemon serves while it still starts what it has recovered.
    """
    seen = 0
    with trio.fail_after(PATIENCE):
        async with client.events(session) as stream:
            while seen < times:
                events = await stream.receive()
                assert events is not None
                seen += len(told(events, "session.ready"))


def told(events: list[Event], type: str) -> list[Event]:
    return [event for event in events if event.fields["type"] == type]


def output(events: list[Event], attempt: str) -> bytes:
    mine = [e.fields for e in told(events, "output") if e.fields["attempt_id"] == attempt]
    return b"".join(base64.b64decode(fields["data_base64"]) for fields in mine)


class Reader:
    """Reads a session until the daemon is gone."""

    def __init__(self, client: Client, session: str, kind: str) -> None:
        self.events: list[Event] = []
        self._client, self._session, self._kind = client, session, kind
        self._plenty = trio.Event()

    async def run(self) -> None:
        try:
            await self._read()
        except Gone:
            return

    async def wait_plenty(self) -> None:
        await self._plenty.wait()

    async def _read(self) -> None:
        opened = self._client.events if self._kind == "sse" else self._client.websocket
        async with opened(self._session) as stream:
            while (events := await stream.receive()) is not None:
                self.events += [event for event in events if isinstance(event, Event)]
                if len(self.events) >= 30:
                    self._plenty.set()


async def read_until_killed(daemon: Crashable, sessions: list[str]) -> dict[str, dict[int, bytes]]:
    """Kill the daemon while output flows to two readers of each session: what these saw."""
    readers = {s: [Reader(daemon.client, s, kind) for kind in ("sse", "ws")] for s in sessions}
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for reader in [one for some in readers.values() for one in some]:
                nursery.start_soon(reader.run)
            for reader in [one for some in readers.values() for one in some]:
                await reader.wait_plenty()
            await trio.to_thread.run_sync(daemon.kill)
    seen: dict[str, dict[int, bytes]] = {}
    for session, (one, other) in readers.items():
        seen[session] = {e.seq: e.raw for e in one.events}
        for event in other.events:
            assert seen[session].setdefault(event.seq, event.raw) == event.raw
    return seen


async def test_killed_in_the_middle_of_output(daemon: Crashable) -> None:
    await daemon.start()
    client = daemon.client
    # The end of the test waits for the grace period.
    lifecycle = {"stop_grace_period_seconds": 1}
    pty = {"io": {"mode": "pty"}, "lifecycle": lifecycle}
    restarts = await create(client, "sh", "-c", _COUNT, lifecycle=lifecycle)
    terminal = await create(client, "sh", "-c", f"stty raw; {_COUNT}", **pty)
    lifecycle = {**lifecycle, "runtime_recovery": "stop"}
    stops = await create(client, "sh", "-c", _COUNT, lifecycle=lifecycle)
    before = {session: await view(client, session) for session in (restarts, terminal, stops)}

    seen = await read_until_killed(daemon, [restarts, terminal, stops])
    old = daemon.processes()
    assert len(old) >= 9, "leaders and children live on without their daemon"
    await daemon.start()

    assert [process for process in old if process.lives] == []
    for session, was in before.items():
        now = await view(client, session)
        events = await client.history(session)
        by_number = {event.seq: event.raw for event in events}
        assert now["runtime_generation"] == was["runtime_generation"] + 1
        assert now["cursor"]["latest"] >= max(seen[session])
        assert {n: by_number.get(n) for n in seen[session]} == seen[session], "nothing is lost"
        assert len(by_number) == len(events), "no number twice"
        (ended,) = [
            e
            for e in told(events, "attempt.exited")
            if e.fields["attempt_id"] == was["attempt"]["id"]
        ]
        assert ended.fields["reason"] == "runtime_replaced"
        assert ended.seq > max(seen[session]), "a number beyond all that were shown"
        assert ended.fields["runtime_generation"] == now["runtime_generation"]
        lines = output(events, was["attempt"]["id"]).split()
        assert lines[:-1] == [b"%d" % n for n in range(len(lines) - 1)], "every byte once"
    for session in (restarts, terminal):
        await wait_ready(client, session, 2)
        now, events = await view(client, session), await client.history(session)
        assert now["phase"] == "running"
        assert now["attempt"]["number"] == 2
        assert [e.fields["reason"] for e in told(events, "attempt.starting")] == [
            "created",
            "runtime_recovered",
        ]
        assert now["restart_count"] == 0, "a recovery is no restart by policy"
    now, events = await view(client, stops), await client.history(stops)
    assert (now["phase"], now["spec"]["lifecycle"]["desired_state"]) == ("stopped", "stopped")
    assert now["attempt"]["number"] == 1
    assert told(events, "session.stopped")[-1].fields["reason"] == "runtime_recovery_policy"


async def test_sessions_at_rest_stay_as_they_were(daemon: Crashable) -> None:
    await daemon.start()
    client = daemon.client
    exited = await create(client, "sh", "-c", "exit 3")
    failed = await create(client, "/does/not/exist")
    stopped = await create(client, "sleep", "1000")
    await client.ask("PUT", f"/{stopped}/desired-state", {"state": "stopped"})
    deleted = await create(client, "sleep", "1000")
    assert (await client.ask("DELETE", f"/{deleted}")).status == 200
    async with client.events(exited) as stream:
        ended = False
        while not ended:
            events = await stream.receive()
            assert events is not None
            ended = bool(told(events, "attempt.exited"))
    before = {s: await view(client, s) for s in (exited, failed, stopped)}
    daemon.kill()
    await daemon.start()
    for session, was in before.items():
        now = await view(client, session)
        assert now["attempt"] == was["attempt"]
        assert (now["phase"], now["spec"]) == (was["phase"], was["spec"])
    assert (await client.ask("GET", f"/{deleted}")).status == 404
    assert len((await client.ask("GET")).data["sessions"]) == 3


async def test_acknowledged_input_is_known_after_any_number_of_kills(daemon: Crashable) -> None:
    await daemon.start()
    client = daemon.client
    session = await create(client, "cat")
    sent: dict[str, dict[str, Any]] = {}
    for round in range(3):
        bodies = [
            {"input_id": f"{round}-{n}", "data_base64": base64.b64encode(b"x" * n).decode()}
            for n in range(1, 6)
        ]
        await wait_ready(client, session, round + 1)
        for body in bodies:
            answer = await client.ask("POST", f"/{session}/inputs", body)
            assert (answer.status, answer.data["duplicate"]) == (202, False)
            sent[body["input_id"]] = {"body": body, "attempt": answer.data["attempt_id"]}
        daemon.kill()
        await daemon.start()
        for one in sent.values():
            answer = await client.ask("POST", f"/{session}/inputs", one["body"])
            assert (answer.status, answer.data["duplicate"]) == (202, True)
            assert answer.data["attempt_id"] == one["attempt"], "also after that attempt has ended"
            changed = {**one["body"], "data_base64": "AAAA"}
            assert (await client.ask("POST", f"/{session}/inputs", changed)).status == 409
    accepted = told(await client.history(session), "input.accepted")
    assert [e.fields["input_id"] for e in accepted] == list(sent)
    assert (await view(client, session))["runtime_generation"] == 4
