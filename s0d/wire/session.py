"""A session as clients see it (wire contract, section 2, "Session")."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType

from s0d.model.session import AttemptRecord, Phase, SessionRecord
from s0d.model.spec import SessionSpec

from .times import rfc3339


class Cursor(msgspec.Struct):
    """First and last sequence that can be read; both 0 before the first event."""

    earliest: int
    latest: int


class AttemptView(msgspec.Struct, kw_only=True):
    id: str
    number: int
    runtime_generation: int
    pid: int | UnsetType = UNSET
    started_at: str | UnsetType = UNSET
    finished_at: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    signal: str | UnsetType = UNSET
    message: str | UnsetType = UNSET


class UsageView(msgspec.Struct):
    """What the processes of the running attempt use: CPU time since its start, in seconds."""

    cpu_seconds: float
    resident_bytes: int
    processes: int


class SessionView(msgspec.Struct, kw_only=True):
    """Field for field the wire's Session; an absent field is left out, never null."""

    id: str
    spec: SessionSpec
    spec_version: int
    phase: Phase
    runtime_generation: int
    attempt: AttemptView | UnsetType = UNSET
    restart_count: int
    cursor: Cursor
    created_at: str
    updated_at: str
    last_activity_at: str
    attachments: int | UnsetType = UNSET
    next_restart_at: str | UnsetType = UNSET
    journal_error: str | UnsetType = UNSET
    usage: UsageView | UnsetType = UNSET


def view_attempt(attempt: AttemptRecord) -> AttemptView:
    return AttemptView(
        id=attempt.id,
        number=attempt.number,
        runtime_generation=attempt.generation,
        pid=_given(attempt.pid),
        started_at=_time(attempt.started_at_ns),
        finished_at=_time(attempt.finished_at_ns),
        exit_code=_given(attempt.exit_code),
        reason=attempt.reason or UNSET,
        signal=attempt.signal or UNSET,
        message=attempt.message or UNSET,
    )


def view_session(
    record: SessionRecord,
    *,
    root: str,
    generation: int,
    earliest: int,
    latest: int,
    attachments: int = 0,
    journal_error: str | None = None,
) -> SessionView:
    """The view of `record`; `root` fills in a working directory that was left to the sandbox."""
    spec = record.spec if record.spec.cwd else msgspec.structs.replace(record.spec, cwd=root)
    return SessionView(
        id=record.id,
        spec=spec,
        spec_version=record.spec_version,
        phase=record.phase,
        runtime_generation=generation,
        attempt=view_attempt(record.attempt) if record.attempt else UNSET,
        restart_count=record.restart_count,
        cursor=Cursor(earliest, latest),
        created_at=rfc3339(record.created_at_ns),
        updated_at=rfc3339(record.updated_at_ns),
        last_activity_at=rfc3339(record.last_activity_ns),
        attachments=attachments,
        next_restart_at=_time(record.next_restart_ns),
        journal_error=journal_error or UNSET,
    )


def _time(time_ns: int) -> str | UnsetType:
    return rfc3339(time_ns) if time_ns else UNSET


def _given(value: int | None) -> int | UnsetType:
    return UNSET if value is None else value
