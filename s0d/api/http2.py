"""HTTP/2, which only TLS offers: Hypercorn's protocol with the streams of `workarounds`.

For REST and SSE: a WebSocket needs HTTP/1.1 here (RFC 8441 is not offered).
"""

from __future__ import annotations

from typing import Any

import h2.errors
import h2.events
import h2.settings
from hypercorn.events import Closed, Event
from hypercorn.protocol.events import Request
from hypercorn.protocol.h2 import H2Protocol as HypercornH2Protocol
from hypercorn.protocol.h2 import StreamBuffer
from hypercorn.utils import filter_pseudo_headers

from .workarounds import HTTPStream


class H2Protocol(HypercornH2Protocol):
    """One connection."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.connection.local_settings[h2.settings.SettingCodes.ENABLE_CONNECT_PROTOCOL] = 0

    async def handle(self, event: Event) -> None:
        await super().handle(event)
        if isinstance(event, Closed):
            # Nothing is sent any more: whoever waits for that, or is about to, waits for ever.
            for buffer in list(self.stream_buffers.values()):
                await buffer.close()

    async def _create_stream(self, request: h2.events.RequestReceived) -> None:
        pseudo = {name: value for name, value in request.headers if name.startswith(b":")}
        method, target = pseudo.get(b":method"), pseudo.get(b":path")
        number = request.stream_id
        if method in (None, b"CONNECT") or not target:
            self.connection.reset_stream(number, h2.errors.ErrorCodes.REFUSED_STREAM)
            return
        stream = HTTPStream(
            self.app,
            self.config,
            self.context,
            self.task_group,
            self.ssl,
            self.client,
            self.server,
            self.stream_send,
            number,
        )
        self.streams[number] = stream
        self.stream_buffers[number] = StreamBuffer(self.context.event_class)
        self.priority.insert_stream(number)
        self.priority.block(number)
        await stream.handle(
            Request(
                stream_id=number,
                headers=filter_pseudo_headers(request.headers),
                http_version="2",
                method=method.decode("latin-1").upper(),
                raw_path=target,
                state=self.connection_state,
            )
        )
        self.keep_alive_requests += 1

    async def _priority_updated(self, event: h2.events.PriorityUpdated) -> None:
        """Not listened to (RFC 9113 has given priorities up): no tree for a client to grow."""

    async def _handle_events(self, events: list[h2.events.Event]) -> None:
        """Data of a stream that was refused, or has been answered, has nobody to go to."""
        known = [e for e in events if not self._is_stray(e)]
        await super()._handle_events(known)

    def _is_stray(self, event: h2.events.Event) -> bool:
        if not isinstance(event, h2.events.DataReceived) or event.stream_id in self.streams:
            return False
        if event.flow_controlled_length:
            self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        return True
