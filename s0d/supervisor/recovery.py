"""What a dead daemon left behind: folding its journals, ending its processes.

The journal is the truth: a session's record is its snapshot with the later control events folded
in, or, where there is no usable snapshot, the fold of the whole journal.  One damaged session
never keeps the others from starting.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass

import trio

from s0d.journal import Entry, Journal, JournalError, Limits, Syncer
from s0d.model import event as ev
from s0d.model import lifecycle
from s0d.model.event import Event, draft
from s0d.model.session import ACTIVE, AttemptRecord, Phase, SessionRecord
from s0d.model.spec import DesiredState, LifecycleSpec, RetentionSpec, SessionSpec
from s0d.process.attribution import TreeRecord

from .host import ProcessHost
from .notes import read_notes
from .recorder import first_entry
from .store import Store

log = logging.getLogger("s0d.recovery")


@dataclass
class Found:
    """A session as the last daemon left it."""

    record: SessionRecord
    journal: Journal


def load(store: Store, syncer: Syncer, generation: int) -> list[Found]:
    """Load every session of a sandbox; blocking."""
    found = []
    for session_id in store.session_ids():
        try:
            one = _load(store, session_id, syncer, generation)
        except (ValueError, lifecycle.LifecycleError) as error:
            one = _stand_in(store, session_id, syncer, generation, str(error))
        except (OSError, JournalError) as error:
            _tell(session_id, "cannot be read", error)
            continue
        if one is not None:
            found.append(one)
    return found


def _stand_in(
    store: Store, session_id: str, syncer: Syncer, generation: int, why: str
) -> Found | None:
    """A failed session in place of one that cannot be rebuilt; its files are kept beside it.

    Clients see that it is there and why it cannot be used, and may delete it.
    """
    _tell(session_id, "is damaged and cannot be rebuilt", why)
    try:
        store.set_aside(session_id)
        entries = _damaged_entries(why, generation)
        journal = store.create_journal(session_id, RetentionSpec(), syncer, entries)
        record = _fold(session_id, None, journal)
    except (OSError, JournalError) as error:
        _tell(session_id, "cannot be set aside", error)
        return None
    assert record is not None
    return Found(record, journal)


def _damaged_entries(why: str, generation: int) -> list[Entry]:
    lifecycle_spec = LifecycleSpec(desired_state=DesiredState.STOPPED)
    spec = SessionSpec(command=("unknown",), lifecycle=lifecycle_spec)
    failed = draft(ev.SESSION_FAILED, reason="state_damaged", message=why)
    return [
        first_entry(spec, None, generation),
        Entry(time.time_ns(), generation, None, failed.type, failed.fields),
    ]


def _tell(session_id: str, what: str, why: object) -> None:
    log.error("session %s: %s", what, why, extra={"session_id": session_id})


def _load(store: Store, session_id: str, syncer: Syncer, generation: int) -> Found | None:
    record = _snapshot(store, session_id)
    if not store.has_journal(session_id):
        if record is not None or store.has_remains(session_id):
            raise ValueError("its journal is gone")
        store.discard(session_id)  # the daemon died before there was more than a directory
        return None
    retention = RetentionSpec() if record is None else record.spec.event_retention
    journal = store.open_journal(session_id, retention, syncer, generation)
    try:
        journal.checkpointed = 0 if record is None else record.seq
        record = _fold(session_id, record, journal)
    except BaseException:
        journal.close(clean=False)
        raise
    if record is None or _is_half_deleted(record):
        journal.close(clean=False)
        if record is None and store.has_remains(session_id):
            raise ValueError("nothing is left of its journal")
        store.discard(session_id)
        return None
    retention = record.spec.event_retention
    journal.set_limits(Limits(retention.max_bytes, retention.max_age_seconds))
    if record.phase in ACTIVE:
        journal.reserve()
    return Found(record, journal)


def _snapshot(store: Store, session_id: str) -> SessionRecord | None:
    try:
        return store.read_record(session_id)
    except ValueError as error:
        log.warning(
            "session record is damaged, rebuilding it: %s", error, extra={"session_id": session_id}
        )
        return None


def _is_half_deleted(record: SessionRecord) -> bool:
    """Was its deletion under way, its last attempt already ended for it?

    `attempt.exited` leaves the phase `stopping` for a stop, which has made the desired state
    `stopped` before, and for a deletion (`then` in `s0d.model.lifecycle`).  There is no way back
    from it: who asked gets what they asked for, though they were never answered.
    """
    stopping = record.phase is Phase.STOPPING and record.unfinished is None
    return stopping and record.desired is DesiredState.RUNNING


def _fold(session_id: str, record: SessionRecord | None, journal: Journal) -> SessionRecord | None:
    """The record as of the journal's end.

    None where the creation was never acknowledged: the daemon died before the first event, and
    there is nothing but the numbers that each recovery has skipped.  A first event that is lost
    in any other way is damage: `LifecycleError`.
    """
    for event in journal.replay(0 if record is None else record.seq):
        if record is not None:
            lifecycle.apply(record, event)
        elif not _is_skip(event) or journal.recovery.torn_bytes:
            record = lifecycle.create(session_id, event)
    if record is not None and journal.last_time_ns > record.last_activity_ns:
        # Output is not folded: its last time is all that the record keeps of it.
        record.last_activity_ns = journal.last_time_ns
    return record


def _is_skip(event: Event) -> bool:
    return event.type == ev.JOURNAL_GAP and event.fields.get("reason") == "unclean_end"


async def end_leftovers(found: list[Found], host: ProcessHost) -> None:
    """End what is left of every unfinished attempt: only processes proved to be theirs."""
    async with trio.open_nursery() as nursery:
        for one in found:
            attempt = one.record.unfinished
            if attempt is not None:
                nursery.start_soon(_end_leftover, one.record.id, attempt, host)


async def end_noted(store: Store, host: ProcessHost) -> None:
    """End what is left of commands that were no sessions."""
    for note, record in await trio.to_thread.run_sync(read_notes, store.execs):
        report = await host.end_recorded(record)
        if report.survivors:
            log.error("processes of a former command survive SIGKILL: %s", report.survivors)
        await trio.to_thread.run_sync(note.remove)


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
