"""The record of a session: what the fold of its events amounts to.

`SessionRecord` is changed only by `lifecycle.apply`.  It is stored as `session.json`, a snapshot
together with the sequence it reflects; the journal is the truth.
"""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from .spec import DesiredState, SessionSpec

RECEIPTS_KEPT: Final = 1024


class Phase(enum.StrEnum):
    PENDING = "pending"
    STARTING = "starting"
    RUNNING = "running"
    BACKOFF = "backoff"
    STOPPING = "stopping"
    STOPPED = "stopped"
    EXITED = "exited"
    FAILED = "failed"
    PAUSED = "paused"
    SUSPENDED = "suspended"


# Phases from which a replaced runtime goes on by the session's recovery policy.
ACTIVE: Final = frozenset(
    {
        Phase.PENDING,
        Phase.STARTING,
        Phase.RUNNING,
        Phase.BACKOFF,
        Phase.STOPPING,
        Phase.PAUSED,
        Phase.SUSPENDED,
    }
)


class AttemptRecord(msgspec.Struct, omit_defaults=True):
    """One operating-system process that realizes the session.

    `start_time` (clock ticks after boot) together with `boot_id` proves that `pid` is still the
    process that we started.  Times are Unix nanoseconds; zero stands for "not yet".  `rows` and
    `cols` are the terminal's present size, 0 where there is none.
    """

    id: str
    number: int
    generation: int
    started_at_ns: int = 0
    finished_at_ns: int = 0
    pid: int | None = None
    start_time: int = 0
    boot_id: str = ""
    exit_code: int | None = None
    reason: str | None = None
    signal: str | None = None
    message: str | None = None
    rows: int = 0
    cols: int = 0

    @property
    def finished(self) -> bool:
        return self.finished_at_ns != 0


class Receipt(msgspec.Struct, array_like=True, frozen=True):
    """Proof that an input was accepted: by which attempt, and a digest of its bytes and EOF."""

    attempt_id: str
    digest: str


class SessionRecord(msgspec.Struct, omit_defaults=True):
    """Everything that survives a restart, except the events themselves.

    `seq` is the last event folded in.  `created_spec` is kept where an idempotency key asks for
    comparison with the specification that the session was created with.
    """

    id: str
    spec: SessionSpec
    seq: int = 0
    phase: Phase = Phase.PENDING
    generation: int = 0
    spec_version: int = 1
    restart_count: int = 0
    attempts: int = 0
    created_at_ns: int = 0
    updated_at_ns: int = 0
    last_activity_ns: int = 0
    attempt: AttemptRecord | None = None
    idempotency_key: str | None = None
    created_spec: SessionSpec | None = None
    next_restart_ns: int = 0
    resumes_as: Phase | None = None
    receipts: dict[str, Receipt] = {}

    @property
    def desired(self) -> DesiredState:
        return self.spec.lifecycle.desired_state

    @property
    def unfinished(self) -> AttemptRecord | None:
        """The attempt whose end has not been recorded, if there is one."""
        return None if self.attempt is None or self.attempt.finished else self.attempt

    def expires_at_ns(self) -> int | None:
        """When the session's lifetime ends (Unix ns), None without a limit."""
        seconds = self.spec.lifecycle.max_lifetime_seconds
        return self.created_at_ns + seconds * 10**9 if seconds else None
