"""How long the loop's turns are: what comes in meanwhile waits for the end of one.

Seen from inside the loop, so that nothing ticks for it in a daemon at rest.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import trio

from s0d.model.histogram import Histogram


class _Turns(trio.abc.Instrument):
    def __init__(self, histogram: Histogram) -> None:
        self._observe = histogram.observe
        self._began = time.perf_counter()

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.perf_counter()

    def before_io_wait(self, timeout: float) -> None:
        self._observe(time.perf_counter() - self._began)


@asynccontextmanager
async def observed(histogram: Histogram) -> AsyncIterator[None]:
    """Observe, in seconds, every turn of the loop that runs this."""
    turns = _Turns(histogram)
    trio.lowlevel.add_instrument(turns)
    try:
        yield
    finally:
        trio.lowlevel.remove_instrument(turns)
