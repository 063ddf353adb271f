"""What an attempt's processes use is told while it runs, and its CPU time at its end."""

from __future__ import annotations

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
    (exited,) = (
        event.fields
        for event in await client.history(session)
        if event.fields["type"] == "attempt.exited"
    )
    assert exited["cpu_seconds"] >= used["cpu_seconds"]
