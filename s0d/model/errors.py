"""What can go wrong, by whose fault it is.

Flat on purpose: a caller catches the one it can do something about, or `S0dError`.  `code` is the
word that clients branch on (wire contract, section 1); `message` is for a person and names the
offending field and bound.  No message holds a token, an environment or a traceback.
"""

from __future__ import annotations

from typing import Any, ClassVar


class S0dError(Exception):
    """Base of every error that is part of the contract."""

    code: ClassVar[str] = "internal_error"

    def __init__(self, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class InvalidRequest(S0dError):
    """The caller sent something that is not valid."""

    code = "invalid_request"


class SessionNotFound(S0dError):
    """There is no such session (or its id has not the form of one)."""

    code = "session_not_found"


class SandboxNotFound(S0dError):
    """There is no such sandbox (or its id has not the form of one)."""

    code = "sandbox_not_found"


class SessionConflict(S0dError):
    """The session's state, or an earlier request, forbids this one."""

    code = "session_conflict"


class SessionExists(S0dError):
    """The name is taken: by a live session, or by an ended one that shall not be replaced."""

    code = "session_exists"


class SessionLive(S0dError):
    """What was asked for is possible only once the session has ended."""

    code = "session_live"


class SandboxConflict(S0dError):
    """The sandbox's state forbids this."""

    code = "sandbox_conflict"


class EventCursorExpired(S0dError):
    """The cursor lies before retained history.

    `earliest` is the first sequence still readable; resume with `earliest - 1`.
    """

    code = "event_cursor_expired"

    def __init__(self, earliest: int, latest: int) -> None:
        super().__init__(
            f"the cursor lies before retained history: go on with after={earliest - 1}",
            {"earliest": earliest, "latest": latest},
        )
        self.earliest = earliest
        self.latest = latest


class InputBufferFull(S0dError):
    """The attempt's input queue has no room; nothing was accepted."""

    code = "input_buffer_full"


class LimitExceeded(S0dError):
    """A configured limit was reached; nothing was done."""

    code = "limit_exceeded"


class Unavailable(S0dError):
    """s0d cannot do this now (starting, stopping, the journal cannot be written): try again."""

    code = "unavailable"


class StopIncomplete(S0dError):
    """A process survived SIGKILL for 5 s; the session stays `stopping`."""

    code = "stop_incomplete"


class StateDirectoryError(S0dError):
    """The state directory cannot be used: held by another daemon, foreign, or unsafe."""

    code = "state_directory"
