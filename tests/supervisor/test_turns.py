"""Long work leaves room: for tasks with many steps to go, and for threads."""

from __future__ import annotations

import time

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


async def test_a_thread_that_comes_back_is_not_kept_waiting() -> None:
    """Ten times each; with checkpoints only it takes 40 ms and more."""
    taken: list[float] = []

    def come_and_go() -> None:
        for _ in range(10):
            time.sleep(0.0003)  # gives the interpreter away, and wants it back

    with trio.fail_after(LIMIT):
        for _ in range(20):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(work, 0.09)
                await trio.sleep(0.002)
                began = time.perf_counter()
                await trio.to_thread.run_sync(come_and_go)
                taken.append(time.perf_counter() - began)
                nursery.cancel_scope.cancel()
    assert sorted(taken)[10] < 0.03
