"""What can go wrong on the command line: each becomes one line on stderr and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .target import Target


_EXIT_CODES = {404: 3, 408: 124, 409: 4}
"""By the status of an answer; 124 is what timeout(1) exits with."""


class CliError(Exception):
    """Base: `str(error)` is for a person and says what to do; `exit_code` is for a program."""

    exit_code = 1


class UsageError(CliError):
    """The command line itself makes no sense."""

    exit_code = 2


class NotFound(CliError):
    """Nothing is called so."""

    exit_code = 3


class TimedOut(CliError):
    """What was waited for did not come in time."""

    exit_code = 124


class Unreachable(CliError):
    """No daemon answers at `target`."""

    exit_code = 5

    def __init__(self, message: str, target: Target) -> None:
        super().__init__(message)
        self.target = target


class ConnectionLost(CliError):
    """The connection broke before the answer was complete: it is open what the daemon did."""

    exit_code = 5


class ApiError(CliError):
    """The daemon refused: `code` is the word of the wire contract."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        details: dict[str, Any] | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(f"{message} ({code})")
        self.status = status
        self.exit_code = _EXIT_CODES.get(status, 1)
        self.code = code
        self.message = message
        self.details = details or {}
        self.target: Target | None = None
        """The daemon that refused."""
        self.retry_after = retry_after


def one_line(text: str) -> str:
    """`text` with control characters escaped: safe on a terminal, and one line in a log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
