"""Long work leaves room: for tasks with many steps to go, and for threads."""

from __future__ import annotations

import time

import pytest
import trio

from s0d.supervisor.turns import Turns

LIMIT = 30.0


async def work(seconds: float) -> int:
    """Work in steps of a tenth of a millisecond for so long; how many of them there were."""
    turns, steps = Turns(), 0
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        stop = time.perf_counter() + 0.0001
        while time.perf_counter() < stop:
            pass
        steps += 1
        await turns.rest()
    return steps


async def test_alone_it_goes_on_most_of_the_time() -> None:
    before = time.thread_time()
    await work(0.09)
    assert time.thread_time() - before > 0.03


async def test_a_task_of_many_steps_is_through_before_the_work_is() -> None:
    """A dozen steps with waits between them, as an input has them; the work goes on for long."""
    through = trio.Event()

    async def other() -> None:
        for _ in range(12):
            await trio.lowlevel.checkpoint()
            await trio.to_thread.run_sync(time.sleep, 0)
        through.set()

    with trio.fail_after(LIMIT):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, 20)
            nursery.start_soon(other)
            await through.wait()
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize("rounds", [20])
async def test_a_thread_that_comes_back_is_not_kept_waiting(rounds: int) -> None:
    """Half of the hops take less than a tenth of what the work takes, which sees none of them."""
    taken: list[float] = []

    def thread() -> float:
        began = time.perf_counter()
        time.sleep(0.001)  # gives the interpreter away, and wants it back
        return time.perf_counter() - began

    with trio.fail_after(LIMIT):
        for _ in range(rounds):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, 0.2)
                await trio.sleep(0.01)
                taken.append(await trio.to_thread.run_sync(thread))
                nursery.cancel_scope.cancel()
    assert sorted(taken)[rounds // 2] < 0.02
