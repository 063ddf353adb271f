"""What a dead daemon left behind: folding its journals, ending its processes.

The journal is the truth: a session's record is its snapshot with the later control events folded
in, or, where there is no usable snapshot, the fold of the whole journal.  One damaged session
never keeps the others from starting.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import trio

from s0d.journal import Journal, JournalError, Limits, Syncer
from s0d.model import lifecycle
from s0d.model.session import AttemptRecord, SessionRecord
from s0d.model.spec import RetentionSpec
from s0d.process.attribution import TreeRecord

from .host import ProcessHost
from .store import Store

log = logging.getLogger("s0d.recovery")


@dataclass
class Found:
    """A session as the last daemon left it."""

    record: SessionRecord
    journal: Journal


def load(store: Store, syncer: Syncer) -> list[Found]:
    """Load every session of a sandbox; blocking."""
    found = []
    for session_id in store.session_ids():
        try:
            one = _load(store, session_id, syncer)
        except (OSError, ValueError, JournalError, lifecycle.LifecycleError) as error:
            log.error(  # noqa: TRY400 - expected damage, the traceback would say nothing
                "session cannot be loaded: %s", error, extra={"session_id": session_id}
            )
        else:
            if one is not None:
                found.append(one)
    return found


def _load(store: Store, session_id: str, syncer: Syncer) -> Found | None:
    record = _snapshot(store, session_id)
    retention = RetentionSpec() if record is None else record.spec.event_retention
    journal = store.open_journal(session_id, retention, syncer)
    try:
        journal.checkpointed = 0 if record is None else record.seq
        record = _fold(session_id, record, journal)
    except BaseException:
        journal.close(clean=False)
        raise
    if record is None:
        # Its creation was never acknowledged: not even the first event reached the disk.
        journal.close(clean=False)
        store.discard(session_id)
        return None
    retention = record.spec.event_retention
    journal.set_limits(Limits(retention.max_bytes, retention.max_age_seconds))
    return Found(record, journal)


def _snapshot(store: Store, session_id: str) -> SessionRecord | None:
    try:
        return store.read_record(session_id)
    except ValueError as error:
        log.warning(
            "session record is damaged, rebuilding it: %s", error, extra={"session_id": session_id}
        )
        return None


def _fold(session_id: str, record: SessionRecord | None, journal: Journal) -> SessionRecord | None:
    for event in journal.replay(0 if record is None else record.seq):
        if record is None:
            record = lifecycle.create(session_id, event)
        else:
            lifecycle.apply(record, event)
    if record is not None and journal.last_time_ns > record.last_activity_ns:
        # Output is not folded: its last time is all that the record keeps of it.
        record.last_activity_ns = journal.last_time_ns
    return record


async def end_leftovers(found: list[Found], host: ProcessHost) -> None:
    """End what is left of every unfinished attempt: only processes proved to be theirs."""
    async with trio.open_nursery() as nursery:
        for one in found:
            attempt = one.record.unfinished
            if attempt is not None:
                nursery.start_soon(_end_leftover, one.record.id, attempt, host)


async def _end_leftover(session_id: str, attempt: AttemptRecord, host: ProcessHost) -> None:
    record = TreeRecord(
        attempt.id, attempt.pid or 0, attempt.start_time, attempt.boot_id or host.boot_id
    )
    report = await host.end_recorded(record)
    if report.survivors:
        log.error(
            "processes of a former attempt survive SIGKILL: %s",
            report.survivors,
            extra={"session_id": session_id, "attempt_id": attempt.id},
        )
