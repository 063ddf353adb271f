"""What an attempt's processes use is told while it runs and at its end."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.process.detect import detect
from tests.support.crashable import Crashable, crashable, modes

PATIENCE = 60.0


@pytest.fixture(params=["cgroups", "proc"])
def daemon(request: pytest.FixtureRequest, short_dir: Path) -> Iterator[Crashable]:
    if request.param == "cgroups" and detect().mode != "cgroup":
        pytest.skip("no cgroup can be made on this machine")
    with crashable(short_dir, **modes(request.param)) as daemon:
        yield daemon


async def test_usage_of_a_tree(daemon: Crashable) -> None:
    await daemon.start()
    client = daemon.client
    burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done"
    script = f"setsid sleep 1000 & {burn}; echo burnt; read line"
    spec: dict[str, Any] = {
        "command": ["sh", "-c", script],
        "cwd": "/",
        "readiness": {"type": "output", "output": "burnt"},
        "lifecycle": {"stop_grace_period_seconds": 20},
    }
    session = (await client.ask("POST", "", spec)).data["id"]
    with trio.fail_after(PATIENCE):
        async with client.events(session) as stream:
            while not any(
                e.fields["type"] == "session.ready" for e in await stream.receive() or []
            ):
                pass
    assert "usage" not in (await client.ask("GET", f"/{session}")).data
    used = (await client.ask("GET", f"/{session}?usage=true")).data["usage"]
    assert used["processes"] == 2
    assert used["resident_bytes"] > 100_000
    assert used["cpu_seconds"] >= 0.05
    stopped = await client.ask("PUT", f"/{session}/desired-state", {"state": "stopped"})
    assert stopped.data["phase"] == "stopped"
    assert "usage" not in (await client.ask("GET", f"/{session}?usage=true")).data
    exited = await end_of(daemon, session)
    assert exited["cpu_seconds"] >= used["cpu_seconds"]
    assert exited["processes"] == 2
    assert exited["resident_bytes"] > 100_000
    assert "max_resident_bytes" not in exited  # what is below the daemon's own is not known


async def end_of(daemon: Crashable, session: str) -> dict[str, Any]:
    history = await daemon.client.history(session)
    (exited,) = (e.fields for e in history if e.fields["type"] == "attempt.exited")
    return exited


@pytest.mark.parametrize("nested", [False, True])
async def test_the_most_that_was_resident_is_told_at_the_end(
    daemon: Crashable, nested: bool
) -> None:
    """Of the leader, or of a process that it waited for."""
    await daemon.start()
    size = 400_000_000
    command = [sys.executable, "-c", f"b'x' * {size}"]
    if nested:
        command = ["sh", "-c", '"$@"; exit 3', "sh", *command]
    session = (await daemon.client.ask("POST", "", {"command": command, "cwd": "/"})).data["id"]
    waited = await daemon.client.ask("POST", f"/{session}/wait", {"for": {"exit": True}})
    assert waited.status == 200
    exited = await end_of(daemon, session)
    assert exited["exit_code"] == (3 if nested else 0)
    assert size < exited["max_resident_bytes"] < 2 * size
    assert (exited["processes"], exited["resident_bytes"]) == (0, 0)
