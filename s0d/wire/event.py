"""Events as clients see them: JSON, SSE frames, WebSocket messages.

Output is most of what is ever sent, so it is written by hand around one base64 of its bytes, and
whole blocks are encoded at once: a block of 256 KiB costs a microsecond an event where sending
them one by one costs seventy.  All of it is ASCII: clients split lines at U+0085, U+2028 and
U+2029 too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from s0d.model.event import OUTPUT, PRIVATE_FIELDS, Event

from .envelope import to_json
from .times import rfc3339


class EventView(msgspec.Struct, kw_only=True):
    """Field for field the wire's Event, to be documented and read; `EventEncoder` writes it."""

    seq: int
    session_id: str
    runtime_generation: int
    attempt_id: str | UnsetType = UNSET
    type: str
    stream: str | UnsetType = UNSET
    data_base64: str | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    signal: str | UnsetType = UNSET
    message: str | UnsetType = UNSET
    input_id: str | UnsetType = UNSET
    eof: bool | UnsetType = UNSET
    bytes: int | UnsetType = UNSET
    rows: int | UnsetType = UNSET
    cols: int | UnsetType = UNSET
    delay_ms: int | UnsetType = UNSET
    pid: int | UnsetType = UNSET
    first: int | UnsetType = UNSET
    last: int | UnsetType = UNSET
    cpu_seconds: float | UnsetType = UNSET
    max_resident_bytes: int | UnsetType = UNSET
    resident_bytes: int | UnsetType = UNSET
    processes: int | UnsetType = UNSET
    occurred_at: str


class EventEncoder:
    """Encodes the events of one session."""

    def __init__(self, session_id: str) -> None:
        self._session_id = session_id

    def json(self, event: Event) -> bytes:
        """One event on one line, in the field order of the wire contract."""
        if event.type == OUTPUT:
            return self._output(event)
        fields: dict[str, object] = {
            "seq": event.seq,
            "session_id": self._session_id,
            "runtime_generation": event.generation,
        }
        if event.attempt is not None:
            fields["attempt_id"] = event.attempt
        fields["type"] = event.type
        fields.update((k, v) for k, v in event.fields.items() if k not in PRIVATE_FIELDS)
        fields["occurred_at"] = rfc3339(event.time_ns)
        return to_json(fields)

    def _output(self, event: Event) -> bytes:
        return (
            b'{"seq":%d,"session_id":"%b","runtime_generation":%d,"attempt_id":"%b","type":"output","stream":"%b","data_base64":"%b","occurred_at":"%b"}'
            % (
                event.seq,
                self._session_id.encode(),
                event.generation,
                (event.attempt or "").encode(),
                event.fields["stream"].encode(),
                pybase64.b64encode(event.fields["data"]),
                rfc3339(event.time_ns).encode(),
            )
        )

    def sse(self, events: Iterable[Event]) -> bytes:
        """The frames of `events`, ready to be sent as they are."""
        return b"".join(
            [
                b"id: %d\nevent: %b\ndata: %b\n\n" % (e.seq, e.type.encode(), self.json(e))
                for e in events
            ]
        )

    def message(self, event: Event) -> bytes:
        """The WebSocket message that carries `event`."""
        return b'{"type":"event","event":%b}' % self.json(event)
