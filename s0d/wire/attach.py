"""The frames of an attachment (wire contract, section 4): control as text, bytes as binary."""

from __future__ import annotations

import enum
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from s0d.model.errors import InvalidRequest, S0dError
from s0d.model.parse import INT53, MAX_TERMINAL

from .envelope import to_json
from .named import ExitInfo, SessionInfo, Status, check_size
from .problem import code_of

MAX_START: Final = 64 << 10
START_WITHIN: Final = 10.0
"""Seconds from the upgrade to the first message."""
DEFAULT_REPLAY: Final = 1 << 20
MAX_INPUT_ID: Final = 128


class What(enum.StrEnum):
    """What of the past a client wants to see."""

    HISTORY = "history"
    SCREEN = "screen"
    NONE = "none"


class Role(enum.StrEnum):
    """`viewer` only looks; `takeover` is alone from then on."""

    INTERACTIVE = "interactive"
    VIEWER = "viewer"
    TAKEOVER = "takeover"


class AttachStart(msgspec.Struct):
    """The first message of an attachment.  A size that is absent or 0 is left as it is.

    Extensions, for a client that comes back after a broken connection and must neither lose nor
    repeat anything: with `input_id` each binary frame and each EOF is an input of its own,
    `INPUT_ID-N`, N counting from `input_from` (default 1), and is answered with INPUT; what has
    been accepted before is not accepted twice.  With `attempts` it is told of each new attempt.
    """

    type: str
    cols: int | None = None
    rows: int | None = None
    max_replay_bytes: int | None = None
    replay: What | None = None
    after: int | None = None
    role: Role | None = None
    input_id: str | None = None
    input_from: int | None = None
    attempts: bool | None = None

    def check(self) -> None:
        if self.input_id is not None and not 0 < len(self.input_id) <= MAX_INPUT_ID:
            raise InvalidRequest(f"input_id: must have 1 to {MAX_INPUT_ID} characters")
        check_size(self.cols, self.rows, MAX_TERMINAL)
        numbers = {
            "max_replay_bytes": self.max_replay_bytes,
            "after": self.after,
            "input_from": self.input_from,
        }
        for name, value in numbers.items():
            if value is not None and not 0 <= value <= INT53:
                raise InvalidRequest(f"{name}: must be from 0 to {INT53}")

    @property
    def most(self) -> int:
        """Bytes of history, at most."""
        return DEFAULT_REPLAY if self.max_replay_bytes is None else self.max_replay_bytes


class Control(msgspec.Struct):
    """Any later message of a client."""

    type: str
    cols: int = 0
    rows: int = 0
    signal: str | int = ""

    def check_resize(self) -> None:
        for name, value in (("cols", self.cols), ("rows", self.rows)):
            if not 1 <= value <= MAX_TERMINAL:
                raise InvalidRequest(f"{name}: must be from 1 to {MAX_TERMINAL}, got {value}")


class Reason(enum.StrEnum):
    """Why an attachment ends that did not see the end of its program."""

    DETACHED = "DETACHED"
    TAKEOVER = "TAKEOVER"
    SHUTDOWN = "SHUTDOWN"
    DELETED = "DELETED"


def frame(type: str, **fields: Any) -> bytes:
    return to_json({"type": type, **fields})


def accepted(
    session: SessionInfo | None, *, replayed: int, dropped: bool, cols: int, rows: int, seq: int
) -> bytes:
    """What follows comes after event `seq`.  A transient terminal has no session."""
    fields = {} if session is None else {"session": session}
    return frame(
        "ACCEPTED",
        **fields,
        replayed_bytes=replayed,
        history_dropped=dropped,
        cols=cols,
        rows=rows,
        seq=seq,
    )


def ended_by_itself(exit: ExitInfo | UnsetType, status: Status) -> bytes:
    """EXIT; without `exit_code` where nobody knows it."""
    code = {} if exit is UNSET else {"exit_code": exit.exit_code}
    signal = 0 if exit is UNSET else exit.signal
    return frame("EXIT", **code, signaled=bool(signal), signal=signal, status=status)


def refused(error: S0dError) -> bytes:
    return frame("ERROR", code=code_of(error), message=error.message)
