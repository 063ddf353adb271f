"""Named sessions as clients see them (wire contract, section 4): what they send and what they get.

Times are Unix nanoseconds.  A size of 0 stands for an absent one.
"""

from __future__ import annotations

import enum
import re
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from s0d.model.errors import InvalidRequest
from s0d.model.parse import parse_spec
from s0d.model.session import AttemptRecord, Phase, SessionRecord
from s0d.model.signals import parse_signal
from s0d.model.spec import SessionSpec

MAX_SIZE: Final = 512
MAX_GRACE_MS: Final = 60_000
DEFAULT_ROWS, DEFAULT_COLS = 24, 80
_KILL_SIGNALS: Final = ("TERM", "KILL", "INT", "HUP")
NAME: Final = "[a-z][a-z0-9-]{0,31}"
_NAME = re.compile(NAME)
# What a specification calls them, and what a client of this surface does.
_SENT_AS: Final = {"command": "cmd", "cwd": "path"}


class Status(enum.StrEnum):
    """Where a named session stands; the last three are terminal."""

    STARTING = "STARTING"
    IDLE = "IDLE"
    ATTACHED = "ATTACHED"
    EXITED = "EXITED"
    KILLED = "KILLED"
    FAILED = "FAILED"

    @property
    def terminal(self) -> bool:
        return self in (Status.EXITED, Status.KILLED, Status.FAILED)


class ExitInfo(msgspec.Struct):
    """How it ended; `signal` is a number, 0 where none ended it."""

    exit_code: int
    signaled: bool
    signal: int


class SessionInfo(msgspec.Struct, kw_only=True):
    name: str
    command: tuple[str, ...]
    working_dir: str
    status: Status
    attached: bool
    started_at_unix_nanos: int
    last_activity_unix_nanos: int
    ended_at_unix_nanos: int | UnsetType = UNSET
    exit: ExitInfo | UnsetType = UNSET


class NamedSession(msgspec.Struct):
    session: SessionInfo


class NamedList(msgspec.Struct):
    sessions: list[SessionInfo]
    sandbox_suspended: bool


class Resumed(msgspec.Struct):
    sandbox_id: str
    already_running: bool


class CreateBody(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    cmd: list[str]
    env: dict[str, str] | None = None
    path: str | None = None
    cols: int | None = None
    rows: int | None = None
    replace: bool | None = None

    def check(self) -> None:
        if not is_name(self.name):
            raise InvalidRequest("name: must match ^[a-z][a-z0-9-]{0,31}$")
        check_size(self.cols, self.rows)

    def spec(self) -> SessionSpec:
        """A terminal session that never runs again by itself."""
        return spec_of(
            {
                "name": self.name,
                "command": self.cmd,
                "env": self.env,
                "cwd": self.path,
                "io": {
                    "mode": "pty",
                    "terminal": {
                        "rows": self.rows or DEFAULT_ROWS,
                        "cols": self.cols or DEFAULT_COLS,
                    },
                },
                "lifecycle": {"restart": {"policy": "never"}, "runtime_recovery": "stop"},
            }
        )


class KillBody(msgspec.Struct):
    signal: str | None = None
    grace_ms: int | None = None

    @property
    def signum(self) -> int:
        return parse_signal(self.signal or "TERM")

    @property
    def grace(self) -> float:
        """Seconds from the signal to SIGKILL."""
        return (5000 if self.grace_ms is None else self.grace_ms) / 1000

    def check(self) -> None:
        if self.signal and self.signal not in _KILL_SIGNALS:
            raise InvalidRequest(f"signal: must be one of {', '.join(_KILL_SIGNALS)}")
        if self.grace_ms is not None and not 0 <= self.grace_ms <= MAX_GRACE_MS:
            raise InvalidRequest(f"grace_ms: must be from 0 to {MAX_GRACE_MS}")


class NoBody(msgspec.Struct):
    """A body in which nothing is looked for."""


def is_name(text: str) -> bool:
    """Can a session be reached by this name?"""
    return _NAME.fullmatch(text) is not None


def check_size(cols: int | None, rows: int | None, most: int = MAX_SIZE) -> None:
    for name, value in (("cols", cols), ("rows", rows)):
        if value and not 1 <= value <= most:
            raise InvalidRequest(f"{name}: must be from 1 to {most}, got {value}")


def spec_of(sent: dict[str, object]) -> SessionSpec:
    """A specification of what was sent; errors name the fields as this surface does."""
    try:
        return parse_spec(sent)
    except InvalidRequest as error:
        field = re.match(r"[a-z]+", error.message)
        known = _SENT_AS.get(field[0]) if field else None
        if field is None or known is None:
            raise
        raise InvalidRequest(known + error.message[field.end() :]) from None


# -- what a session is on this surface -----------------------------------------------------------

_LIVE: Final = frozenset({Phase.RUNNING, Phase.STOPPING, Phase.BACKOFF, Phase.PAUSED})


def status_of(record: SessionRecord, *, attached: bool) -> Status:
    reason = record.attempt.reason if record.attempt is not None else None
    return status_from(record.phase, reason, attached=attached)


def status_from(phase: Phase, reason: str | None, *, attached: bool) -> Status:
    """From the phase and what the last attempt ended of."""
    if phase in (Phase.PENDING, Phase.STARTING):
        return Status.STARTING
    if phase in _LIVE:
        return Status.ATTACHED if attached else Status.IDLE
    if phase is Phase.FAILED:
        return Status.FAILED
    return Status.EXITED if phase is Phase.EXITED and reason != "killed" else Status.KILLED


def exit_info(exit_code: int, signal: str | None) -> ExitInfo:
    """From what an `attempt.exited` event says: the code is 128+N where signal N ended it."""
    number = max(0, exit_code - 128) if signal else 0
    return ExitInfo(exit_code, bool(number), number)


def exit_of(attempt: AttemptRecord | None) -> ExitInfo | UnsetType:
    """Unset where nothing was started, or nobody was there to take its exit code."""
    if attempt is None or attempt.exit_code is None:
        return UNSET
    return exit_info(attempt.exit_code, attempt.signal)


def view_named(record: SessionRecord, *, root: str, attached: bool) -> SessionInfo:
    """The session as this surface shows it; `root` stands for an unset working directory."""
    status, attempt = status_of(record, attached=attached), record.attempt
    info = SessionInfo(
        name=record.spec.name or "",
        command=record.spec.command,
        working_dir=record.spec.cwd or root,
        status=status,
        attached=attached,
        started_at_unix_nanos=(attempt and attempt.started_at_ns) or record.created_at_ns,
        last_activity_unix_nanos=record.last_activity_ns,
    )
    if status.terminal:
        ended = attempt.finished_at_ns if attempt is not None else 0
        info.ended_at_unix_nanos = ended or record.updated_at_ns
        info.exit = exit_of(attempt)
    return info
