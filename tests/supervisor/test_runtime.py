"""A sandbox's runtime on a mock clock: transitions one at a time, woken once, quiet and leases."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import trio
import trio.testing

from s0d.model.errors import SandboxConflict
from s0d.supervisor.change import Change
from s0d.supervisor.clock import RuntimeClock
from s0d.supervisor.runtime import Runtime, State


class Steps:
    """Transitions that take a second each, and are noted."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.locked = False
        self.ended = False

    def check_not_ending(self) -> None:
        if self.ended:
            raise SandboxConflict("deleted")

    def check_wakeable(self) -> None:
        if self.locked:
            raise SandboxConflict("not by access")

    async def _step(self, name: str) -> None:
        await trio.sleep(1)
        self.done.append(name)

    async def begin_generation(self) -> None:
        await self._step("generation")

    async def freeze_sessions(self) -> None:
        await self._step("freeze")

    async def thaw_sessions(self) -> None:
        await self._step("thaw")

    async def end_sessions(self) -> None:
        await self._step("end")

    async def recover_sessions(self) -> None:
        await self._step("recover")


@pytest.fixture
def steps() -> Steps:
    return Steps()


async def test_many_who_need_it_wake_it_once(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    await runtime.freeze()
    woken: list[bool] = []

    async def use() -> None:
        async with runtime.awake() as was_running:
            woken.append(was_running)

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(use)
    assert steps.done == ["freeze", "generation", "thaw"]
    assert woken.count(False) == 1
    assert runtime.quiet


async def test_no_transition_begins_while_it_is_held(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    async with trio.open_nursery() as nursery, runtime.awake():
        nursery.start_soon(runtime.end)
        await trio.sleep(10)
        assert (steps.done, runtime.state) == ([], State.RUNNING)
    assert (steps.done, runtime.state) == (["end"], State.ABSENT)


async def test_who_comes_during_a_transition_waits_for_it(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime.freeze)
        await trio.testing.wait_all_tasks_blocked()
        async with runtime.awake() as was_running:
            assert not was_running
            assert runtime.state is State.RUNNING
    assert steps.done == ["freeze", "generation", "thaw"]


async def test_a_frozen_one_can_be_ended_and_an_absent_one_recovers(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    assert await runtime.freeze()
    assert not await runtime.freeze()
    assert await runtime.end()
    assert not await runtime.end()
    assert await runtime.resume()
    assert not await runtime.resume()
    assert steps.done == ["freeze", "end", "generation", "recover"]


async def test_what_must_not_be_woken(steps: Steps, autojump_clock: trio.testing.MockClock) -> None:
    runtime = Runtime(steps, State.ABSENT)
    steps.locked = True
    with pytest.raises(SandboxConflict, match="not by access"):
        async with runtime.awake():
            pass
    assert await runtime.resume(), "but it can be resumed"
    await runtime.close()
    steps.ended = True
    for act in (runtime.resume, runtime.freeze, runtime.end):
        with pytest.raises(SandboxConflict, match="deleted"):
            await act()


async def test_its_end_waits_for_no_transition_that_waits_for_users(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    steps.ended = True

    async def pause(leave: Callable[[], Awaitable[bool]]) -> None:
        with pytest.raises(SandboxConflict, match="deleted"):
            await leave()

    with trio.fail_after(1):
        async with trio.open_nursery() as nursery, runtime.awake():
            nursery.start_soon(pause, runtime.freeze)
            nursery.start_soon(pause, runtime.end)
            await trio.testing.wait_all_tasks_blocked()
            await runtime.close()
    assert (steps.done, runtime.state) == ([], State.ENDING)


async def test_quiet_that_ends_at_the_last_moment_freezes_nothing(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)
    assert not await runtime.freeze(unless=lambda: True)
    assert runtime.state is State.RUNNING


async def test_what_follows_a_transition_comes_before_anybody_wakes_it(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    runtime = Runtime(steps)

    async def note() -> None:
        await steps._step("noted")

    for leave in (runtime.freeze, runtime.end):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(partial(leave, then=note))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(runtime.resume)
    ways = (["freeze", "noted", "generation", "thaw"], ["end", "noted", "generation", "recover"])
    assert steps.done == [*ways[0], *ways[1]]
    await runtime.freeze()
    await runtime.freeze(then=note)
    assert steps.done[-2:] == ["freeze", "noted"], "also where nothing was left to do"


async def test_a_woken_one_that_cannot_begin_a_generation_stays_as_it_is(
    steps: Steps, autojump_clock: trio.testing.MockClock
) -> None:
    async def refuse() -> None:
        raise OSError("full")

    runtime = Runtime(steps)
    await runtime.freeze()
    steps.begin_generation = refuse  # type: ignore[method-assign]
    with pytest.raises(OSError, match="full"):
        await runtime.resume()
    assert runtime.state is State.FROZEN


async def test_the_clock_stands_still(autojump_clock: trio.testing.MockClock) -> None:
    clock, change = RuntimeClock(), Change()
    at = clock.time() + 10
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(clock.wait, change, lambda: False, at)
        await trio.sleep(4)
        clock.stop()
        change.notify()
        assert clock.deadline(at) == math.inf
        await trio.sleep(100)
        assert clock.time() == pytest.approx(at - 6)
        clock.start()
        change.notify()
    assert trio.current_time() - began == pytest.approx(110)


async def test_waiting_by_the_clock_ends_by_trios_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    clock, change = RuntimeClock(), Change()
    clock.stop()
    until = trio.current_time() + 5
    await clock.wait(change, lambda: False, clock.time() + 1, until=until)
    assert trio.current_time() == until
