"""What a journal can refuse, by whose fault it is: the disk's, or the reader's cursor."""

import errno as _errno


class JournalError(Exception):
    """The disk (or its state) refused: nothing of the failed call happened in memory.

    ``errno`` is the system's number. ``retryable`` says that the same call may succeed later: when
    there is space again, or when the next block of numbers has been reserved.
    """

    def __init__(self, message: str, errno: int = _errno.EIO) -> None:
        super().__init__(message)
        self.errno = errno

    @property
    def retryable(self) -> bool:
        """Whether waiting can help."""
        return self.errno in RETRYABLE


RETRYABLE = frozenset(
    {
        _errno.ENOSPC,
        _errno.EDQUOT,
        _errno.EIO,
        _errno.EMFILE,
        _errno.ENFILE,
        _errno.ENOMEM,
        _errno.EAGAIN,
        _errno.EROFS,
        _errno.ENOENT,
    }
)


class CursorExpired(Exception):
    """The cursor lies before retained history. Go on with ``earliest - 1``."""

    def __init__(self, earliest: int, latest: int) -> None:
        super().__init__(f"cursor is before retained history {earliest}..{latest}")
        self.earliest = earliest
        self.latest = latest


class CursorAhead(Exception):
    """The cursor names a number that has not been given out: it is from another journal."""

    def __init__(self, latest: int) -> None:
        super().__init__(f"cursor is beyond the latest record {latest}")
        self.latest = latest
