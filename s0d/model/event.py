"""Events: the facts of a session, in order.

An event is what the journal stores and what every client sees.  Its `fields` are the event's own,
by type, in the names of the wire (output keeps raw bytes under `data`; base64 exists only on the
wire).  Fields that are for recovery alone stand in `PRIVATE_FIELDS` and are never sent.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple, Protocol

SESSION_CREATED: Final = "session.created"
SESSION_UPDATED: Final = "session.updated"
SESSION_DESIRED_STATE: Final = "session.desired_state"
SESSION_READY: Final = "session.ready"
SESSION_BACKOFF: Final = "session.backoff"
SESSION_FAILED: Final = "session.failed"
SESSION_STOPPED: Final = "session.stopped"
SESSION_EXPIRED: Final = "session.expired"
SESSION_PAUSED: Final = "session.paused"
SESSION_RESUMED: Final = "session.resumed"
ATTEMPT_STARTING: Final = "attempt.starting"
ATTEMPT_STARTED: Final = "attempt.started"
ATTEMPT_STOPPING: Final = "attempt.stopping"
ATTEMPT_EXITED: Final = "attempt.exited"
OUTPUT: Final = "output"
INPUT_ACCEPTED: Final = "input.accepted"
SIGNAL_SENT: Final = "signal.sent"
TERMINAL_RESIZED: Final = "terminal.resized"
JOURNAL_GAP: Final = "journal.gap"
JOURNAL_STALLED: Final = "journal.stalled"  # the journal could not be written, and now can again

# Carried for recovery, never shown: the specification itself is in the session's answer, `then`
# is what the lifecycle does next, a digest tells a repeated input from a changed one, the start
# time of a process proves that a PID is still the one we started; what was typed (`typed`) is for
# recordings alone, where the specification has it retained.
PRIVATE_FIELDS: Final = frozenset(
    {
        "spec", "idempotency_key", "then", "phase", "digest", "number", "start_time", "boot_id",
        "typed",
    }
)  # fmt: skip


class Event(Protocol):
    """What `apply` and the wire need of a stored record."""

    @property
    def seq(self) -> int: ...
    @property
    def time_ns(self) -> int: ...
    @property
    def generation(self) -> int: ...
    @property
    def attempt(self) -> str | None: ...
    @property
    def type(self) -> str: ...
    @property
    def fields(self) -> dict[str, Any]: ...


class Draft(NamedTuple):
    """An event that has not been recorded yet: it has no sequence and no time."""

    type: str
    fields: dict[str, Any]


def draft(type: str, **fields: Any) -> Draft:
    """A draft of `fields` that are not None: an absent field is left out, never null."""
    return Draft(type, {name: value for name, value in fields.items() if value is not None})
