"""When a sandbox's time is up: its lease, its hard limit, and quiet.

Lease and hard limit count on Trio's clock from what wall time had left of them when the sandbox was
opened, and never less than nothing: neither clock set back or forward ends a sandbox early or
keeps it for ever.  They go on while the machine sleeps; quiet is of the running time.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import trio

from s0d.model.errors import S0dError

from .change import Change
from .runtime import State

if TYPE_CHECKING:
    from .sandbox import Sandbox

log = logging.getLogger("s0d.sandbox")

_RETRY = 5.0  # seconds, after a pause that a full disk refused


class Expiry:
    """Watches the times of one sandbox; `expired` is called when the last one has come."""

    def __init__(self, sandbox: Sandbox, expired: Callable[[], None]) -> None:
        self._sandbox = sandbox
        self._expired = expired
        self._change = Change()
        self._departed = 0.0
        record = sandbox.record
        self._created = self._since(record.created_at_ns)
        self._lease_end = _after(self._since(record.renewed_at_ns), record.lease)
        self._hard_end = _after(self._created, record.config.hard_ttl)

    def renew(self) -> None:
        """The lease begins anew."""
        self._lease_end = _after(self._sandbox.sleep.time(), self._sandbox.record.lease)
        self._change.notify()

    def reconfigure(self) -> None:
        """The configuration has changed."""
        self._hard_end = _after(self._created, self._sandbox.record.config.hard_ttl)
        self._change.notify()

    def slept(self, seconds: float) -> None:
        """The machine has slept so long: lease and hard limit have gone on."""
        self._created -= seconds
        self._lease_end -= seconds
        self._hard_end -= seconds
        self._change.notify()

    def note_departure(self) -> None:
        """A client has left: quiet counts from here."""
        self._departed = self._sandbox.clock.time()
        self._change.notify()

    def _since(self, time_ns: int) -> float:
        """A wall-clock time of the past, on Trio's clock."""
        return self._sandbox.sleep.time() - max(0, time.time_ns() - time_ns) / 1e9

    async def run(self) -> None:
        """Pause, suspend and expire the sandbox when it is time."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_hard_limit)
            nursery.start_soon(self._watch_lease)
            nursery.start_soon(self._watch_quiet)

    async def _watch_hard_limit(self) -> None:
        await self._until(lambda: self._hard_end)
        self._expired()

    async def _watch_lease(self) -> None:
        while True:
            await self._until(lambda: self._lease_end)
            self._lease_end = math.inf
            if self._sandbox.runtime.state is State.ENDING:
                return
            try:
                await self._sandbox.pause()
            except S0dError as error:
                log.warning("cannot pause: %s", error, extra={"sandbox_id": self._sandbox.id})
                self._lease_end = trio.current_time() + _RETRY

    async def _until(self, end: Callable[[], float]) -> None:
        """Until Trio's clock comes to `end()`, which `renew` may change."""
        while trio.current_time() < end():
            seen = end()
            await self._change.wait_for(
                lambda seen=seen: end() != seen,  # type: ignore[misc]
                deadline=seen,
            )

    # -- quiet -------------------------------------------------------------------------------

    async def _watch_quiet(self) -> None:
        """Freeze the sandbox after so much quiet; whoever needs it wakes it."""
        sandbox, runtime = self._sandbox, self._sandbox.runtime
        while True:
            await runtime.change.wait_for(lambda: runtime.quiet)
            self._departed = sandbox.clock.time()  # it has just been used
            await self._until(self._suspends_at)
            await runtime.freeze(unless=self._not_quiet)

    def _not_quiet(self) -> bool:
        sandbox = self._sandbox
        if sandbox.stopping or not sandbox.runtime.quiet:
            return True
        return trio.current_time() < self._suspends_at()

    def _suspends_at(self) -> float:
        """On Trio's clock; never with a client attached, at once where it does not run."""
        sandbox = self._sandbox
        if not sandbox.runtime.quiet:
            return -math.inf
        quiet = sandbox.record.config.idle_suspend_seconds
        if not quiet or len(sandbox.execs):
            return math.inf
        sessions = sandbox.sessions()
        if any(session.attachments for session in sessions):
            return math.inf
        since = max([self._departed, *(session.last_activity for session in sessions)])
        return sandbox.clock.deadline(since + quiet)


def _after(begin: float, seconds: int) -> float:
    """When `seconds` after `begin` have passed; 0 for never."""
    return begin + seconds if seconds else math.inf
