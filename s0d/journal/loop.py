"""Reaching the Trio thread from wherever a blocking method was called."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")


def on_loop(function: Callable[[], T]) -> T:
    """Call it in the Trio thread. Where there is no Trio at all: here, nobody can be waiting."""
    if trio.lowlevel.in_trio_run() or not _in_trio_worker():
        return function()
    return trio.from_thread.run_sync(function)


def call(function: Callable[[], T]) -> T:
    """Call it here: for what the Trio thread does not know of yet."""
    return function()


def wait_on_loop(function: Callable[[], Awaitable[T]]) -> T:
    """Wait for something in the Trio thread, from a worker thread of Trio's.

    Raises ``RuntimeError`` anywhere else: the Trio thread cannot wait for itself.
    """
    return trio.from_thread.run(function)


def _in_trio_worker() -> bool:
    try:
        trio.from_thread.check_cancelled()
    except RuntimeError:
        return False
    except trio.Cancelled:
        return True
    return True
