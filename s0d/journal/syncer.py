"""Group sync: one task that makes all journals durable.

A journal with new data is synced within ``interval``, or at once when somebody waits; all who wait
are served by one sync. Journals are synced in parallel, a few at a time, so that a slow file does
not hold up the others. With nothing dirty there is no timer and no system call.
"""

from typing import Protocol

import trio

from s0d.journal.errors import JournalError
from s0d.model.histogram import Histogram

RETRY = 1.0
"""Seconds between two attempts on a failing disk while nobody waits."""


class Member(Protocol):
    """What the syncer needs of a journal."""

    @property
    def syncing(self) -> bool:
        """Whether a round is running; when it ends the journal asks again if need be."""

    async def sync_round(self, limiter: trio.CapacityLimiter) -> None:
        """Run one round. Errors stay in the journal."""

    def abandon_sync(self, error: JournalError) -> None:
        """No round will come."""


class Syncer:
    """Decides when journals are synced. ``parallel``: so many files at once."""

    def __init__(self, interval: float = 0.05, parallel: int = 4) -> None:
        self.interval = interval
        self._limiter = trio.CapacityLimiter(parallel)
        self._urgent: dict[Member, None] = {}
        self._lazy: dict[Member, float] = {}
        self._wake = trio.Event()
        self._armed = float("inf")  # when the task will look anyway
        self._stopped = False
        self.rounds = Histogram()
        """How long the rounds took, in seconds, waiting for their turn included."""

    def request(self, member: Member, *, urgent: bool, delay: float | None = None) -> None:
        """Have a journal synced: at once, or within ``delay`` (default: the interval)."""
        if self._stopped:
            if urgent:
                member.abandon_sync(JournalError("the syncer has stopped"))
        elif urgent:
            self._urgent[member] = None
            self._wake.set()
        elif member not in self._lazy:
            due = trio.current_time() + (self.interval if delay is None else delay)
            self._lazy[member] = due
            if due < self._armed:
                self._wake.set()

    def discard(self, member: Member) -> None:
        """The journal is closed."""
        self._urgent.pop(member, None)
        self._lazy.pop(member, None)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve until cancelled. Whoever then waits gets :class:`JournalError`."""
        try:
            async with trio.open_nursery() as nursery:
                task_status.started()
                while True:
                    await self._until_due()
                    for member in self._take_due():
                        nursery.start_soon(self._round, member)
        finally:
            self._stopped = True
            for member in self._urgent:
                member.abandon_sync(JournalError("the syncer has stopped"))

    async def _round(self, member: Member) -> None:
        began = trio.current_time()
        await member.sync_round(self._limiter)
        self.rounds.observe(trio.current_time() - began)

    async def _until_due(self) -> None:
        # Starting the rounds from the next schedule on lets all who come in this one join.
        await trio.lowlevel.checkpoint()
        while not self._urgent:
            self._wake = trio.Event()
            self._armed = min(self._lazy.values(), default=float("inf"))
            with trio.CancelScope(deadline=self._armed) as scope:
                await self._wake.wait()
            if scope.cancelled_caught:
                return

    def _take_due(self) -> list[Member]:
        now = trio.current_time()
        due = dict(self._urgent)
        due.update((member, None) for member, at in self._lazy.items() if at <= now)
        for member in due:
            self.discard(member)
        return [member for member in due if not member.syncing]
