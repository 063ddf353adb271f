"""`kill -9` on the daemon is an ordinary event: 200 of them here, 10,000 with `--long`.

A round: start the daemon, check everything that clients know (`check`), let clients work
(`workload`), kill it at some moment.  Some lives end in their first milliseconds, some before
anything was checked, a few in order.  The decisions come from a seed that is printed when a round
fails: `--crash-seed SEED` makes them again (the moments between processes are the machine's).
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest
import trio

from tests.support.crashable import Crashable, Survivor, crashable, modes

from .check import Check
from .known import Known
from .workload import Workload

LIFE = 0.4  # seconds of work, at most
START = 0.25  # about what a start takes
STRAY_TIMEOUT = 10.0
MODES = {"cgroups": 80, "proc": 60, "nobody": 60}


@pytest.mark.parametrize("mode", MODES)
async def test_nothing_acknowledged_is_lost_and_no_number_comes_twice(
    mode: str, request: pytest.FixtureRequest, short_dir: Path
) -> None:
    if mode == "nobody" and os.geteuid() != 0:
        pytest.skip("needs root, to be another user")
    seed = request.config.getoption("--crash-seed") or os.urandom(4).hex()
    times = 50 if request.config.getoption("--long") else 1
    rounds = request.config.getoption("--crash-rounds") or MODES[mode] * times
    with crashable(short_dir, **modes(mode)) as daemon:
        siege = Siege(daemon, f"{seed}/{mode}")
        for number in range(rounds):
            try:
                await siege.round(number)
            except BaseException as error:
                error.add_note(f"round {number}: --crash-seed {seed} -k {mode}")
                error.add_note(siege.explain())
                raise
        await siege.finish()
    print(mode, seed, siege.known.counts)


class Siege:
    """One state directory, killed again and again."""

    def __init__(self, daemon: Crashable, seed: str) -> None:
        self.known = Known()
        self._daemon = daemon
        self._seed = seed
        self._old: list[Survivor] = []

    async def round(self, number: int) -> None:
        rng = random.Random(f"{self._seed}/{number}")
        manner = rng.choices(("work", "at once", "starting", "in order"), (80, 6, 10, 4))[0]
        if manner == "starting":
            await self._kill_while_starting(rng)
        else:
            await self._daemon.start()
            self._assert_nothing_survived()
            if manner != "at once":
                await self._check()
                await self._work(rng, signal.SIGTERM if manner == "in order" else signal.SIGKILL)
            else:
                self._daemon.kill()
        self.known.count(manner)
        self._old += self._daemon.processes()
        if manner == "in order":
            assert self._old == [], "left by an orderly end"

    async def finish(self) -> None:
        """One last start, to check what the last kill has left."""
        await self._daemon.start()
        self._assert_nothing_survived()
        await self._check()

    async def _check(self) -> None:
        with trio.fail_after(60):
            await Check(self._daemon.client, self.known).run()
        await self._assert_no_strays()

    async def _work(self, rng: random.Random, signum: int) -> None:
        workload = Workload(self._daemon.client, self.known, rng)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(workload.run)
                await trio.sleep(rng.uniform(0, LIFE))  # not to wait for anything: the moment
                workload.ending = signum == signal.SIGTERM
                code = await trio.to_thread.run_sync(self._daemon.end, signum)
                workload.over = True
        assert code == (0 if signum == signal.SIGTERM else -signum)

    async def _kill_while_starting(self, rng: random.Random) -> None:
        ready = self._daemon.launch()
        try:
            with trio.move_on_after(rng.uniform(0, START)):
                await trio.lowlevel.wait_readable(ready)
        finally:
            os.close(ready)
        self._daemon.kill()

    def _assert_nothing_survived(self) -> None:
        survivors = [old for old in self._old if old.lives]
        assert not survivors, survivors
        self._old = []

    async def _assert_no_strays(self) -> None:
        """Temporary files come and go with each write; none stays."""
        known = set(self.known.sessions)
        before: set[str] = set()
        with trio.move_on_after(STRAY_TIMEOUT):
            # Files tell nobody when they go.
            while before := set(self._daemon.stray_files(known)):  # noqa: ASYNC110
                await trio.sleep(0.01)
        assert not before, f"left in the state directory: {before}"

    def explain(self) -> str:
        lines = [line for line in self._daemon.log() if line.get("level") not in ("INFO", "info")]
        return "\n".join(["log:", *map(str, lines[-20:])])
