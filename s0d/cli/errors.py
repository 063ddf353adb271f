"""What can go wrong on the command line: each becomes one line on stderr and an exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .target import Target


class CliError(Exception):
    """Base: `str(error)` is for a person and says what to do; `exit_code` is for a program."""

    exit_code = 1


class UsageError(CliError):
    """The command line itself makes no sense."""

    exit_code = 2


class Unreachable(CliError):
    """No daemon answers at `target`."""

    def __init__(self, message: str, target: Target) -> None:
        super().__init__(message)
        self.target = target


class ConnectionLost(CliError):
    """The connection broke before the answer was complete: it is open what the daemon did."""


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
        self.code = code
        self.message = message
        self.details = details or {}
        self.retry_after = retry_after


def one_line(text: str) -> str:
    """`text` with control characters escaped: safe on a terminal, and one line in a log."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
