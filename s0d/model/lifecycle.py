"""The lifecycle: one table of (phase, event) -> phase, and `apply`, which folds an event in.

A session rests in `stopped`, `exited` or `failed`.  A start takes it through `starting` (there is
an attempt) to `running` (the attempt passed readiness).  `attempt.exited` says in its private
field `then` what the supervisor decided at that very moment, so that the journal alone tells
where the session stands even when the daemon dies before the next event:

=========  ==========================================================================
`then`     the session ...
=========  ==========================================================================
`end`      is finished: `exited`
`restart`  waits for a restart by policy: `pending`, and `session.backoff` follows
`replace`  gets a new attempt at once (replacement, new specification, start): `pending`
`fail`     is finished because of a failure: `failed`, and `session.failed` follows
`stop`     was asked to stop: stays `stopping`, and `session.stopped` follows
`suspend`  lost its runtime: `suspended`, until the next one applies the recovery policy
`delete`   is being deleted: stays `stopping`
=========  ==========================================================================

`session.paused` says in the same way whether the session is frozen with its sandbox (`freeze`:
`paused`, until `session.resumed` gives it the phase back that it had) or lost its runtime while no
attempt ran (`suspend`).

Desired state and observed phase are separate: `session.desired_state`, `session.updated` and
`session.expired` change what is wanted and leave the phase alone.  An event that the table does
not allow is a bug and raises `LifecycleError`; recovery and live operation use the same table.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from . import event as ev
from .event import Event
from .session import RECEIPTS_KEPT, AttemptRecord, Phase, Receipt, SessionRecord
from .spec import DesiredState, SessionSpec


class LifecycleError(Exception):
    """An event that the lifecycle does not allow in this phase: a bug, or foreign data."""


P = Phase
_REST = (P.STOPPED, P.EXITED, P.FAILED)
_WAITING = (P.PENDING, P.BACKOFF, P.SUSPENDED)
FREEZABLE: Final = (P.STARTING, P.RUNNING, P.BACKOFF, P.PENDING)
_LIVE = (P.STARTING, P.RUNNING, P.STOPPING, P.PAUSED)


def _build() -> dict[tuple[Phase, str], Phase]:
    rows: list[tuple[tuple[Phase, ...], str, Phase | None]] = [
        # phases                         event                         next (None: unchanged)
        (_REST + _WAITING, ev.ATTEMPT_STARTING, P.STARTING),
        ((P.PAUSED,), ev.ATTEMPT_STARTING, None),  # a full disk held it up: it starts when thawed
        ((P.STARTING,), ev.ATTEMPT_STARTED, None),
        ((P.STARTING,), ev.SESSION_READY, P.RUNNING),
        ((P.STARTING, P.RUNNING, P.PAUSED), ev.ATTEMPT_STOPPING, P.STOPPING),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>end", P.EXITED),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>restart", P.PENDING),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>replace", P.PENDING),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>fail", P.FAILED),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>stop", P.STOPPING),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>suspend", P.SUSPENDED),
        (_LIVE, f"{ev.ATTEMPT_EXITED}>delete", P.STOPPING),
        ((P.PENDING,), ev.SESSION_BACKOFF, P.BACKOFF),
        ((P.FAILED, P.PENDING, P.STOPPED), ev.SESSION_FAILED, P.FAILED),
        (_REST + _WAITING + (P.STOPPING, P.PAUSED), ev.SESSION_STOPPED, P.STOPPED),
        (FREEZABLE, f"{ev.SESSION_PAUSED}>freeze", P.PAUSED),
        ((P.PENDING, P.BACKOFF, P.PAUSED), f"{ev.SESSION_PAUSED}>suspend", P.SUSPENDED),
        (_LIVE, ev.OUTPUT, None),
        ((P.STARTING, P.RUNNING, P.PAUSED), ev.INPUT_ACCEPTED, None),
        (_LIVE, ev.SIGNAL_SENT, None),
        (_LIVE, ev.TERMINAL_RESIZED, None),
        (tuple(P), ev.SESSION_UPDATED, None),
        (tuple(P), ev.SESSION_DESIRED_STATE, None),
        (tuple(P), ev.SESSION_EXPIRED, None),
        (tuple(P), ev.JOURNAL_GAP, None),
        (tuple(P), ev.JOURNAL_STALLED, None),
    ]
    return {
        (phase, kind): phase if after is None else after
        for phases, kind, after in rows
        for phase in phases
    }


TRANSITIONS: Final = _build()

# The activity that `idle_timeout_seconds` counts from (attachments and reads are none).
ACTIVITY: Final = frozenset({ev.OUTPUT, ev.INPUT_ACCEPTED, ev.SIGNAL_SENT, ev.TERMINAL_RESIZED})


def create(session_id: str, event: Event) -> SessionRecord:
    """The record that a `session.created` event begins."""
    if event.type != ev.SESSION_CREATED:
        raise LifecycleError(f"a session cannot begin with {event.type}")
    spec = msgspec.convert(event.fields["spec"], SessionSpec)
    key = event.fields.get("idempotency_key")
    stopped = spec.lifecycle.desired_state is DesiredState.STOPPED
    return SessionRecord(
        id=session_id,
        spec=spec,
        seq=event.seq,
        phase=P.STOPPED if stopped else P.PENDING,
        generation=event.generation,
        created_at_ns=event.time_ns,
        updated_at_ns=event.time_ns,
        last_activity_ns=event.time_ns,
        idempotency_key=key,
        created_spec=spec if key is not None else None,
    )


def apply(record: SessionRecord, event: Event) -> None:
    """Fold `event` into `record`; `LifecycleError` (and no change) where it is not allowed."""
    kind = event.type
    if kind == ev.OUTPUT:  # the hot path: nothing but activity
        record.last_activity_ns = event.time_ns
        record.seq = event.seq
        return
    phase = next_phase(record.phase, kind, event.fields)
    effect = _EFFECTS.get(kind)
    if effect is not None:
        effect(record, event)
    record.phase = phase
    record.seq = event.seq
    record.generation = max(record.generation, event.generation)
    if kind in ACTIVITY:
        record.last_activity_ns = event.time_ns
    else:
        record.updated_at_ns = event.time_ns


def next_phase(phase: Phase, kind: str, fields: dict[str, Any]) -> Phase:
    """The phase after an event, by the table."""
    if kind in (ev.ATTEMPT_EXITED, ev.SESSION_PAUSED):
        kind = f"{kind}>{fields.get('then')}"
    elif kind == ev.SESSION_RESUMED and phase is P.PAUSED:
        return Phase(fields["phase"])
    try:
        return TRANSITIONS[phase, kind]
    except KeyError:
        raise LifecycleError(f"{kind} is not possible in phase {phase}") from None


# -- what an event changes besides the phase -----------------------------------------------------


def _updated(record: SessionRecord, event: Event) -> None:
    record.spec = msgspec.convert(event.fields["spec"], SessionSpec)
    record.spec_version += 1


def _desired_state(record: SessionRecord, event: Event) -> None:
    record.spec = record.spec.with_desired_state(DesiredState(event.fields["reason"]))
    record.spec_version += 1


def _expired(record: SessionRecord, event: Event) -> None:
    if record.desired is not DesiredState.STOPPED:
        record.spec = record.spec.with_desired_state(DesiredState.STOPPED)
        record.spec_version += 1


def _backoff(record: SessionRecord, event: Event) -> None:
    record.restart_count += 1
    record.next_restart_ns = event.time_ns + event.fields["delay_ms"] * 1_000_000


def _starting(record: SessionRecord, event: Event) -> None:
    record.next_restart_ns = 0
    if record.phase is P.PAUSED:
        record.resumes_as = P.STARTING
    record.attempts = event.fields["number"]
    record.attempt = AttemptRecord(
        id=_attempt_id(event),
        number=record.attempts,
        generation=event.generation,
        rows=event.fields.get("rows", 0),
        cols=event.fields.get("cols", 0),
    )


def _started(record: SessionRecord, event: Event) -> None:
    attempt = _current(record, event)
    attempt.started_at_ns = event.time_ns
    attempt.pid = event.fields["pid"]
    attempt.start_time = event.fields.get("start_time", 0)
    attempt.boot_id = event.fields.get("boot_id", "")


def _exited(record: SessionRecord, event: Event) -> None:
    attempt = _current(record, event)
    attempt.finished_at_ns = event.time_ns
    attempt.pid = None
    record.resumes_as = None
    attempt.exit_code = event.fields.get("exit_code")
    attempt.reason = event.fields.get("reason")
    attempt.signal = event.fields.get("signal")
    attempt.message = event.fields.get("message")


def _stopped(record: SessionRecord, event: Event) -> None:
    record.next_restart_ns = 0
    record.resumes_as = None


def _paused(record: SessionRecord, event: Event) -> None:
    frozen = event.fields["then"] == "freeze"
    record.resumes_as = record.phase if frozen else None
    record.next_restart_ns = 0  # nobody knows when: see `_resumed`


def _resumed(record: SessionRecord, event: Event) -> None:
    record.resumes_as = None
    if "delay_ms" in event.fields:
        record.next_restart_ns = event.time_ns + event.fields["delay_ms"] * 1_000_000


def _input(record: SessionRecord, event: Event) -> None:
    receipts = record.receipts
    attempt = _current(record, event)
    receipts[event.fields["input_id"]] = Receipt(attempt.id, event.fields["digest"])
    if len(receipts) > RECEIPTS_KEPT:
        del receipts[next(iter(receipts))]


def _resized(record: SessionRecord, event: Event) -> None:
    attempt = _current(record, event)
    attempt.rows, attempt.cols = event.fields["rows"], event.fields["cols"]


def _attempt_id(event: Event) -> str:
    if event.attempt is None:
        raise LifecycleError(f"{event.type} without an attempt")
    return event.attempt


def _current(record: SessionRecord, event: Event) -> AttemptRecord:
    if record.attempt is None or record.attempt.id != event.attempt:
        raise LifecycleError(f"{event.type} of an attempt that is not the current one")
    return record.attempt


_EFFECTS: Final[dict[str, Callable[[SessionRecord, Event], None]]] = {
    ev.SESSION_UPDATED: _updated,
    ev.SESSION_DESIRED_STATE: _desired_state,
    ev.SESSION_EXPIRED: _expired,
    ev.SESSION_BACKOFF: _backoff,
    ev.SESSION_STOPPED: _stopped,
    ev.SESSION_PAUSED: _paused,
    ev.SESSION_RESUMED: _resumed,
    ev.ATTEMPT_STARTING: _starting,
    ev.ATTEMPT_STARTED: _started,
    ev.ATTEMPT_EXITED: _exited,
    ev.INPUT_ACCEPTED: _input,
    ev.TERMINAL_RESIZED: _resized,
}
