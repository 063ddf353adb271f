"""Long work leaves room: how often it sleeps, by a clock of the test's own."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest
import trio

from s0d.supervisor import turns as module
from s0d.supervisor.turns import Turns

STEP = 0.0001


class Bench:
    """Work in steps of a tenth of a millisecond, and when it slept."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        monkeypatch.setattr(module, "time", SimpleNamespace(perf_counter=lambda: self.now))
        fake = SimpleNamespace(sleep=self._sleep, lowlevel=trio.lowlevel)
        monkeypatch.setattr(module, "trio", fake)

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(self.now)
        self.now += seconds

    async def work(self, seconds: float) -> int:
        """How often it sleeps in so many seconds of work."""
        self.slept.clear()
        turns = Turns()
        for _ in range(round(seconds / STEP)):
            self.now += STEP
            await turns.rest()
        return len(self.slept)


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(monkeypatch)


async def test_alone_it_sleeps_a_fifth_of_the_time_at_first(bench: Bench) -> None:
    assert 15 <= await bench.work(0.075) <= 20
    assert all(0.0049 < later - earlier < 0.0056 for earlier, later in pairwise(bench.slept))


async def test_what_takes_long_leaves_half_of_the_time(bench: Bench) -> None:
    await bench.work(0.1)
    before = len(bench.slept)
    assert 90 < await bench.work(0.2) - before < 160


async def test_beside_others_it_sleeps_after_each_turn(bench: Bench) -> None:
    async def other() -> None:
        while True:
            await trio.lowlevel.checkpoint()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await bench.work(0.05) >= 80
        nursery.cancel_scope.cancel()


async def test_short_work_gives_no_turn_and_longer_work_does(bench: Bench) -> None:
    ran = False

    async def other() -> None:
        nonlocal ran
        ran = True

    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        assert await bench.work(0.0003) == 0
        assert not ran
        await bench.work(0.0012)  # two turns, since trio runs a batch in any order
        assert ran
