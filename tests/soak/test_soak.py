"""Sessions come, end, restart, are looked at and left, at random: after it all is as before.

20 s in a plain run, 10 minutes with `--long`; `S0D_TEST_SOAK_SECONDS=3600` for an hour.
"""

from __future__ import annotations

import base64
import contextlib
import os
import random
import resource
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import trio

from tests.support.daemon import Daemon

LONG = float(os.environ.get("S0D_TEST_SOAK_SECONDS", "600"))
WORKERS = 8
MOST = 60  # sessions at once
PATIENCE = 60.0
NEVER = {"restart": {"policy": "never"}, "stop_grace_period_seconds": 1}
AGAIN = {
    "restart": {"policy": "always", "max_restarts": 1000, "initial_backoff_ms": 10},
    "stop_grace_period_seconds": 1,
}
SPECS: list[dict[str, Any]] = [
    {"command": ["true"], "lifecycle": NEVER},
    {"command": ["sh", "-c", "seq 2000; exit 3"], "lifecycle": NEVER},
    {"command": ["cat"], "lifecycle": NEVER},
    {"command": ["cat"], "io": {"mode": "pty"}, "lifecycle": NEVER},
    {"command": ["sh", "-c", "sleep 0.05; exit 1"], "lifecycle": AGAIN},
    {
        "command": ["sh", "-c", "trap '' TERM; sleep 1000 & setsid sleep 1000 & wait"],
        "lifecycle": NEVER,
    },
    {"command": ["/no/such/program"], "lifecycle": NEVER},
    {"command": ["sh", "-c", "while :; do date; sleep 0.01; done"], "lifecycle": AGAIN},
]


class Usage(NamedTuple):
    descriptors: int
    resident: int
    children: int
    zombies: int
    cgroups: int
    threads: int


def usage(daemon: Daemon) -> Usage:
    """What the daemon has; children are all whose parent it is."""
    process = Path(f"/proc/{daemon.pid}")
    children = (process / f"task/{daemon.pid}/children").read_text().split()
    states = []
    for child in children:
        with contextlib.suppress(FileNotFoundError):
            states.append(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0])
    (line,) = (e for e in daemon.log() if e["message"] == "ownership of process trees")
    base = Path(line["base"]) if line["base"] else None
    return Usage(
        len(os.listdir(process / "fd")),
        int((process / "statm").read_text().split()[1]) * resource.getpagesize(),
        len(children),
        states.count("Z"),
        len([p for p in base.iterdir() if p.is_dir()]) if base is not None else 0,
        len(os.listdir(process / "task")),
    )


class Soak:
    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.daemon = daemon
        self.random = random.Random(seed)
        self.sessions: list[str] = []
        self.done: Counter[str] = Counter()
        transport = httpx.AsyncHTTPTransport(uds=str(daemon.socket))
        self.client = httpx.AsyncClient(
            base_url="http://localhost/api/v1", transport=transport, timeout=PATIENCE
        )

    async def run(self, seconds: float) -> None:
        """Everything at random, then none is left."""
        with trio.move_on_after(seconds):
            async with trio.open_nursery() as nursery:
                for _ in range(WORKERS):
                    nursery.start_soon(self._work)
        listed = (await self.client.get("/sessions")).json()["data"]["sessions"]
        async with trio.open_nursery() as nursery:
            for session in listed:
                nursery.start_soon(self._delete, session["id"])
        self.sessions.clear()

    async def _delete(self, session: str) -> None:
        answer = await self.client.delete(f"/sessions/{session}")
        assert answer.status_code in (200, 404), answer.text

    async def _work(self) -> None:
        actions = [
            self.create,
            self.create,
            self.look,
            self.attach,
            self.send,
            self.turn,
            self.remove,
        ]
        while True:
            action = self.random.choice(actions)
            await action()
            self.done[action.__name__] += 1

    def _any(self) -> str | None:
        return self.random.choice(self.sessions) if self.sessions else None

    async def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        answer = await self.client.request(method, path, json=body)
        assert answer.status_code < 500, answer.text
        return answer

    async def create(self) -> None:
        if len(self.sessions) >= MOST:
            await self.remove()
            return
        answer = await self._ask("POST", "/sessions", self.random.choice(SPECS))
        assert answer.status_code == 201, answer.text
        self.sessions.append(answer.json()["data"]["id"])

    async def look(self) -> None:
        if session := self._any():
            await self._ask("GET", f"/sessions/{session}?usage=true")
            await self._ask("GET", f"/sessions/{session}/events?tail=20")
            await self._ask("GET", f"/sessions/{session}/screen")

    async def attach(self) -> None:
        """Read for a while, then leave without a word."""
        if session := self._any():
            with trio.move_on_after(self.random.uniform(0, 0.5)):
                path = f"/sessions/{session}/events/stream"
                async with self.client.stream("GET", path) as stream:
                    async for _ in stream.aiter_bytes():
                        pass

    async def send(self) -> None:
        if session := self._any():
            data = base64.b64encode(self.random.randbytes(100)).decode()
            body = {"input_id": str(self.random.random()), "data_base64": data}
            await self._ask("POST", f"/sessions/{session}/inputs", body)
            signal = self.random.choice(["CONT", "WINCH", "USR1", "KILL"])
            await self._ask("POST", f"/sessions/{session}/signals", {"signal": signal})

    async def turn(self) -> None:
        if session := self._any():
            state = self.random.choice(["running", "stopped"])
            await self._ask("PUT", f"/sessions/{session}/desired-state", {"state": state})
            if self.random.random() < 0.3:
                body = {"replace_current": True}
                await self._ask("POST", f"/sessions/{session}/attempts", body)

    async def remove(self) -> None:
        if session := self._any():
            self.sessions.remove(session)
            await self._ask("DELETE", f"/sessions/{session}")


async def settled(daemon: Daemon, most: int | None = None) -> Usage:
    """Until nothing is under way any more, and no more descriptors are open than `most`."""
    deadline = time.monotonic() + PATIENCE
    while True:
        found = usage(daemon)
        quiet = not found.children and not found.cgroups
        if quiet and (most is None or found.descriptors <= most):
            return found
        assert time.monotonic() < deadline, found
        await trio.sleep(0.2)


# Of a request that is cancelled while its body is sent httpx leaves the generator to the collector.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <async_generator object ByteStream")
@pytest.mark.filterwarnings("ignore:Async generator 'httpx._content.ByteStream:ResourceWarning")
@pytest.mark.parametrize("arguments", [(), ("--no-cgroups",)])
@pytest.mark.parametrize("seconds", [10, pytest.param(LONG, marks=pytest.mark.long)])
async def test_nothing_is_left_over(make_daemon: Any, seconds: float, arguments: Any) -> None:
    daemon: Daemon = make_daemon("--no-access-log", *arguments)
    daemon.start()
    seed = int.from_bytes(os.urandom(4), "big")
    soak = Soak(daemon, seed)
    await soak.run(max(5, seconds / 5))  # caches and threads have their size
    before = await settled(daemon)
    await soak.run(seconds)
    after = await settled(daemon, before.descriptors)
    report = f"seed {seed}: {dict(soak.done)}: {before} -> {after}"
    print(report)
    await soak.client.aclose()
    assert min(soak.done.values()) > seconds / 10, report
    assert (after.zombies, after.children, after.cgroups) == (0, 0, 0), report
    assert after.descriptors <= before.descriptors, report
    assert after.resident < before.resident * 1.25 + (16 << 20), report
    assert [e for e in daemon.log() if e["level"] in ("error", "critical")] == [], report
