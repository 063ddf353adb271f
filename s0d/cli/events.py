"""Events as they arrive: SSE frames, and following a session across broken connections."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator

import msgspec

from .client import Client
from .errors import ApiError, CliError, ConnectionLost, Unreachable

# How long to look for a daemon that went away: a restart takes seconds, a stop its grace periods.
PATIENCE = 60.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0


class Event(msgspec.Struct, kw_only=True):
    """What the command line reads of an event; `raw` is the JSON line it came in."""

    seq: int
    type: str
    attempt_id: str | None = None
    stream: str | None = None
    data_base64: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    signal: str | None = None
    message: str | None = None
    input_id: str | None = None
    bytes: int | None = None
    rows: int | None = None
    cols: int | None = None
    pid: int | None = None
    occurred_at: str = ""
    raw: msgspec.Raw = msgspec.Raw()


_decoder = msgspec.json.Decoder(Event)


def parse_sse(chunks: Iterable[bytes]) -> Iterator[Event]:
    """The events of a stream.  Comments are passed over; an unfinished frame is no event."""
    rest = b""
    for chunk in chunks:
        *frames, rest = (rest + chunk).split(b"\n\n")
        for frame in frames:
            event = _event(frame)
            if event is not None:
                yield event


def _event(frame: bytes) -> Event | None:
    _, found, rest = (b"\n" + frame).partition(b"\ndata: ")
    if not found:
        return None
    data = rest.partition(b"\n")[0]
    event = _decoder.decode(data)
    event.raw = msgspec.Raw(data)
    return event


class SessionGone(CliError):
    """The session was deleted while it was followed."""


class Follower:
    """Yields the events of one session, each once, over as many connections as it takes.

    `seq` is the last sequence that was yielded: the place to go on from.  `notice` is told, in a
    few words, when something happens that a person should know.
    """

    def __init__(
        self,
        client: Client,
        session: str,
        after: int | None = None,
        *,
        last_event_id: int | None = None,
        notice: Callable[[str], None] = lambda text: None,
    ) -> None:
        self.seq = after
        self._client = client
        self._session = session
        self._last_event_id = last_event_id
        self._notice = notice
        self._lost_at: float | None = None
        self._told = False

    def __iter__(self) -> Iterator[Event]:
        """Until the caller leaves; `SessionGone` when the session is deleted."""
        pause = _FIRST_PAUSE
        connected = False
        while True:
            try:
                for event in self._connection():
                    connected, pause, self.seq = True, _FIRST_PAUSE, event.seq
                    yield event
            except (Unreachable, ConnectionLost) as error:
                if not connected and isinstance(error, Unreachable):
                    raise
                self._be_patient(error)
            except ApiError as error:
                self._refused(error, connected)
            connected = True
            time.sleep(pause)  # nothing to wait for: the daemon may not even be running
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _connection(self) -> Iterator[Event]:
        last_event_id, self._last_event_id = self._last_event_id, None
        with self._client.stream(self._session, self.seq, last_event_id) as response:
            yield from parse_sse(self._alive(response.chunks()))

    def _alive(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Every byte, also of a comment, proves that the daemon is there."""
        for chunk in chunks:
            self._lost_at, self._told = None, False
            yield chunk

    def _refused(self, error: ApiError, connected: bool) -> None:
        """An answer instead of a stream: go on, or say that it is over."""
        if error.code == "event_cursor_expired" and connected:
            earliest = error.details["earliest"]
            self._notice(f"fell behind: events before {earliest} are no longer retained")
            self.seq = earliest - 1
        elif error.code == "session_not_found" and connected:
            raise SessionGone("the session was deleted") from None
        elif error.status in (429, 503):
            self._be_patient(error)
        else:
            raise error

    def _be_patient(self, error: CliError) -> None:
        now = time.monotonic()
        if self._lost_at is None:
            self._lost_at = now
        if now - self._lost_at > PATIENCE:
            raise error
        if now - self._lost_at > 1 and not self._told:
            self._told = True
            self._notice("lost the daemon, trying to reconnect")
