"""A stream followed across broken connections and restarts of the daemon."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from .errors import ApiError, CliError, ConnectionLost, Unreachable
from .http import Response

T = TypeVar("T")

# How long to look for a daemon that went away: a restart takes seconds, a stop its grace periods.
PATIENCE = 60.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class SessionGone(CliError):
    """The session was deleted while it was followed."""


class Following(ABC, Generic[T]):
    """Yields what a stream brings, over as many connections as it takes.

    `notice` is told, in a few words, when something happens that a person should know.  A refusal
    of the first connection, and a daemon that is not there at first, are the caller's errors.
    """

    def __init__(self, notice: Callable[[str], None] = lambda text: None) -> None:
        self.notice = notice
        self._lost_at: float | None = None
        self._told = False

    @abstractmethod
    def _open(self) -> Response:
        """The stream, from where the last one broke off."""

    @abstractmethod
    def _parse(self, chunks: Iterable[bytes]) -> Iterator[T]:
        """What the stream brings; an unfinished frame is nothing."""

    def __iter__(self) -> Iterator[T]:
        """Until the caller leaves; `SessionGone` when the session is deleted."""
        pause = FIRST_PAUSE
        connected = False
        while True:
            try:
                for item in self._connection():
                    connected, pause = True, FIRST_PAUSE
                    yield item
            except (Unreachable, ConnectionLost) as error:
                if not connected and isinstance(error, Unreachable):
                    raise
                self._be_patient(error)
            except ApiError as error:
                if connected:
                    self._refused(error)
                elif not self._passes(error):
                    raise
            connected = True
            time.sleep(pause)  # nothing to wait for: the daemon may not even be running
            pause = min(2 * pause, LONGEST_PAUSE)

    def _connection(self) -> Iterator[T]:
        with self._open() as response:
            yield from self._parse(self._alive(response.chunks()))

    def _alive(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Every byte, also of a comment, proves that the daemon is there."""
        for chunk in chunks:
            self._lost_at, self._told = None, False
            yield chunk

    def _refused(self, error: ApiError) -> None:
        """An answer instead of the stream that was there: go on, or say that it is over."""
        if error.code == "session_not_found":
            raise SessionGone("the session was deleted") from None
        if not self._passes(error):
            raise error

    def _passes(self, error: ApiError) -> bool:
        """Is it worth another try?  Then it has been waited for; raises when that took too long."""
        if error.status not in (429, 503):
            return False
        self._be_patient(error)
        return True

    def _be_patient(self, error: CliError) -> None:
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
        if now - self._lost_at > PATIENCE:
            raise error
        if now - self._lost_at > 1 and not self._told:
            self._told = True
            self.notice("lost the daemon, trying to reconnect")
