"""Noticing that the machine has slept.

Trio's clock stands still while the machine does, and so does everything that counts running time:
idle time, readiness, delays, backoff, windows and grace.  Lifetimes, leases, hard limits and the
age of events go on; whoever keeps such a time on Trio's clock is told by how much it has come
nearer.
"""

from __future__ import annotations

import errno
import logging
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from functools import partial
from typing import Final

import trio

from s0d.process.libc import cancelable_timer

log = logging.getLogger("s0d.supervisor")

_LEAST: Final = 0.1
"""Seconds: two clocks that are read one after the other are never quite together."""
_LOOK: Final = 20.0
"""Seconds between looks where the kernel does not tell."""


class ClockChanges:
    """The wall clock moved against the monotonic one: somebody set it, or the machine woke.

    Costs nothing while nothing happens.  Raises `OSError` where the kernel cannot tell.
    """

    def __init__(self) -> None:
        self.fd = cancelable_timer()

    def close(self) -> None:
        """Nobody waits any more."""
        os.close(self.fd)

    async def wait(self) -> None:
        """Until the next change, or one since the last wait."""
        while True:
            await trio.lowlevel.wait_readable(self.fd)
            try:
                os.read(self.fd, 8)
            except OSError as error:
                if error.errno == errno.ECANCELED:
                    return
                if error.errno != errno.EAGAIN:
                    raise


def slept() -> float:
    """Seconds that the machine has slept since it was started."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC)


class MachineSleep:
    """How long the machine has slept, as far as it has been told (`watch`)."""

    def __init__(self) -> None:
        self._told = slept()

    def time(self) -> float:
        """Now on Trio's clock, for a time that begins now: sleep that has not been told yet, and
        will be, was before it."""
        return trio.current_time() + slept() - self._told

    async def watch(self, tell: Callable[[float], None]) -> None:
        """Call `tell` with the seconds slept, each time that the machine wakes."""
        try:
            with closing(ClockChanges()) as changes:
                await self._watch(changes.wait, tell)
        except OSError as error:
            log.info("looking every %g s whether the machine has slept: %s", _LOOK, error)
            await self._watch(partial(trio.sleep, _LOOK), tell)

    async def _watch(
        self, wait: Callable[[], Awaitable[None]], tell: Callable[[float], None]
    ) -> None:
        while True:
            await wait()
            now = slept()
            new = now - self._told
            if new >= _LEAST:
                log.info("the machine has slept for %.0f s", new)
                self._told = now
                tell(new)
