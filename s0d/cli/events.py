"""Events as they arrive: SSE frames, and following a session across broken connections."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import msgspec

from .client import Client
from .errors import ApiError
from .following import Following
from .http import Response


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


class Follower(Following[Event]):
    """Yields the events of one session, each once.

    `seq` is the last sequence that was yielded: the place to go on from.
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
        super().__init__(notice)
        self.seq = after
        self._client = client
        self._session = session
        self._last_event_id = last_event_id

    def _open(self) -> Response:
        last_event_id, self._last_event_id = self._last_event_id, None
        return self._client.stream(self._session, self.seq, last_event_id)

    def _parse(self, chunks: Iterable[bytes]) -> Iterator[Event]:
        for event in parse_sse(chunks):
            self.seq = event.seq
            yield event

    def _refused(self, error: ApiError) -> None:
        if error.code == "event_cursor_expired":
            earliest = error.details["earliest"]
            self.notice(f"fell behind: events before {earliest} are no longer retained")
            self.seq = earliest - 1
        else:
            super()._refused(error)
