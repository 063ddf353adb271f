"""What can go wrong with a process, by whose fault it is."""

from __future__ import annotations

import enum
import os


class SpawnErrorKind(enum.StrEnum):
    """Why a program could not be started."""

    NOT_FOUND = "not_found"
    ACCESS_DENIED = "access_denied"
    BAD_FORMAT = "bad_format"
    IS_DIRECTORY = "is_directory"
    INTERPRETER = "interpreter"
    CWD_NOT_FOUND = "cwd_not_found"
    CWD_NOT_DIRECTORY = "cwd_not_directory"
    CWD_DENIED = "cwd_denied"
    TOO_LONG = "too_long"
    INVALID = "invalid"
    LIMIT = "limit"
    IDENTITY = "identity"
    CGROUP = "cgroup"
    RESOURCES = "resources"
    SYSTEM = "system"


class SpawnError(Exception):
    """The program could not be started; nothing of the attempt exists.

    `path` is the path at fault (empty when none is), `errno` the system's own number (0 when
    the request was refused before the system was asked), `message` one line for a person.
    """

    def __init__(self, kind: SpawnErrorKind, path: str, errno: int, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.path = path
        self.errno = errno
        self.message = message


def system_error(kind: SpawnErrorKind, path: str, errno: int, what: str = "") -> SpawnError:
    """A SpawnError in the usual form: what, path, the system's own words."""
    parts = [part for part in (what, path, os.strerror(errno)) if part]
    return SpawnError(kind, path, errno, ": ".join(parts))


class InputError(Exception):
    """Input was not taken; nothing of it was queued."""


class InputFull(InputError):
    """The queue holds as many bytes as it may; try again when some are written."""


class InputClosed(InputError):
    """Standard input is at its end: `eof` was sent, the child closed it, or the process ended."""


class InputRefused(InputError):
    """The terminal has no end-of-file character (`stty eof undef`), so `eof` cannot be sent."""


class LimitUnavailable(Exception):
    """A cgroup limit was asked for whose controller is not delegated here."""
