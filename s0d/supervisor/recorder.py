"""The recorder: append, apply, publish, in one stretch of code without an await.

The only place where events are made and wall time is stamped.  What the journal refuses (a full
disk) is not applied either: memory never runs ahead of disk.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
import trio

from s0d.journal import Entry, Journal, JournalError
from s0d.model import event as ev
from s0d.model import lifecycle
from s0d.model.errors import Unavailable
from s0d.model.event import Draft, draft
from s0d.model.session import SessionRecord
from s0d.model.spec import SessionSpec

from .clock import RuntimeClock
from .counts import Counts
from .meter import OutputMeter

_FIRST_RETRY: Final = 0.05
_LONGEST_RETRY: Final = 2.0
DURABLE_WITHIN: Final = 30.0  # seconds that a caller waits for the disk


def _nothing() -> None:
    pass


def first_entry(spec: SessionSpec, idempotency_key: str | None, generation: int) -> Entry:
    """The event that a session begins with: all that is needed to make its record again."""
    created = draft(
        ev.SESSION_CREATED, spec=msgspec.to_builtins(spec), idempotency_key=idempotency_key
    )
    return Entry(time.time_ns(), generation, None, created.type, created.fields)


class Recorder:
    """Writes the events of one session and keeps its record their fold.

    `generation` is asked at each event: a session outlives runtimes.  `on_control` is called after
    every batch that holds more than output (waiters look at the record again).
    """

    def __init__(
        self,
        record: SessionRecord,
        journal: Journal,
        *,
        generation: Callable[[], int],
        on_control: Callable[[], None],
        on_segment: Callable[[], None] = _nothing,
        clock: RuntimeClock,
        counts: Counts | None = None,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._record = record
        self._journal = journal
        self._generation = generation
        self._on_control = on_control
        self._on_segment = on_segment
        self._segment = journal.newest_segment
        self._clock = clock
        self._counts = Counts() if counts is None else counts
        self._now_ns = now_ns
        self.control_seq = record.seq
        self.error: str | None = None
        self.abandoned = False
        self.meter = OutputMeter(journal.latest)
        self._stalled = 0
        self.last_activity = clock.time()
        self._preparing = trio.Lock()

    def record(self, *drafts: Draft, attempt: str | None = None) -> int:
        """Record `drafts` as one batch and return the last sequence.

        `attempt` is the attempt that the events belong to, by default the current one.  Raises
        `LifecycleError` (a bug) or `JournalError`, and then nothing has happened.
        """
        self._check(drafts)
        if attempt is None and self._record.attempt is not None:
            attempt = self._record.attempt.id
        now, generation = self._now_ns(), self._generation()
        block = self._journal.append(
            [Entry(now, generation, attempt, d.type, d.fields) for d in drafts]
        )
        for record in block.records:
            lifecycle.apply(self._record, record)
            self._counts.control(record.type, record.fields)
            if record.type in lifecycle.ACTIVITY:
                self.last_activity = self._clock.time()
        self.control_seq = block.last
        if not self._stalled:  # else it took of the room that is kept for control events
            self.error = None
        self._on_control()
        self._look_at_segment()
        return block.last

    def output(self, stream: str, chunks: Sequence[bytes]) -> int:
        """Record output of the current attempt, one event a chunk."""
        attempt = self._record.attempt
        if attempt is None:
            raise lifecycle.LifecycleError("output without an attempt")
        now, generation = self._now_ns(), self._generation()
        block = self._journal.append(
            [
                Entry(now, generation, attempt.id, ev.OUTPUT, {"stream": stream, "data": c}, True)
                for c in chunks
            ]
        )
        lifecycle.apply(self._record, block.records[-1])
        before = self.meter.total
        self.meter.wrote(block.records, self._journal)
        self._counts.output(len(block.records), self.meter.total - before)
        self.last_activity = self._clock.time()
        self._look_at_segment()
        return block.last

    def _look_at_segment(self) -> None:
        if self._journal.newest_segment != self._segment:
            self._segment = self._journal.newest_segment
            self._on_segment()

    async def wait_durable(self, seq: int) -> None:
        """Wait until event `seq` is on disk; `Unavailable` where that failed or takes too long."""
        try:
            with trio.fail_after(DURABLE_WITHIN):
                await self._journal.wait_durable(seq)
        except JournalError as error:
            raise Unavailable(f"the journal cannot be written: {error}") from None
        except trio.TooSlowError:
            raise Unavailable(f"the disk did not answer within {DURABLE_WITHIN:g} s") from None

    async def insist(self, store: Callable[[], int]) -> int:
        """Call `store` until the journal takes it, waiting longer each time.

        For what has already happened and must be told: output, and the end of an attempt.  Its
        caller is the child's pump or the session's actor, which have nothing better to do; the
        session shows the error meanwhile, and an event tells of it afterwards.  Once the session
        is `abandon`ed nothing is stored any more.
        """
        try:
            await self.prepare()
            return store()
        except JournalError as refusal:
            error = str(refusal)
        began = trio.current_time()
        self._stalled += 1
        try:
            seq = await self._retry(store, error)
        finally:
            self._stalled -= 1
        if not self.abandoned:
            self.error = None
            self._tell_stall(error, trio.current_time() - began)
        return seq

    async def _retry(self, store: Callable[[], int], error: str) -> int:
        delay = _FIRST_RETRY
        while not self.abandoned:
            self.error = error
            self._on_control()
            await trio.sleep(delay)
            delay = min(2 * delay, _LONGEST_RETRY)
            try:
                await self.prepare()
                return store()
            except JournalError as refusal:
                error = str(refusal)
        return self._record.seq

    def _tell_stall(self, error: str, seconds: float) -> None:
        told = draft(ev.JOURNAL_STALLED, reason=error, delay_ms=round(seconds * 1000))
        try:
            self.record(told)
        except JournalError as again:
            self.error = str(again)

    def abandon(self) -> None:
        """The session is being deleted: what could not be stored goes with it."""
        self.abandoned = True

    async def prepare(self) -> None:
        """Make a journal writable that was only read since it was opened; else do nothing.

        Sessions at rest are never written to, so that a start does not pay for them.
        """
        if not self._journal.dormant:
            return
        async with self._preparing:
            if self._journal.dormant:
                await self._journal.wait_writable()

    def _check(self, drafts: Sequence[Draft]) -> None:
        phase = self._record.phase
        for each in drafts:
            phase = lifecycle.next_phase(phase, each.type, each.fields)
