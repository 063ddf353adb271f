"""Events, input, signals and resizes over one WebSocket (wire contract, section 2, "WebSocket").

Three tasks: one sends events from a cursor; one takes requests, in order, and hands each to the
supervisor at once, whatever the first is doing; one waits until they are durable and answers, in
order.  A command is accepted synchronously, so order of arrival is order of acceptance.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import trio
from quart import Websocket

from s0d.journal.cursor import Cursor
from s0d.journal.errors import CursorExpired
from s0d.model.errors import InvalidRequest, S0dError
from s0d.model.signals import parse_signal
from s0d.wire.envelope import to_json
from s0d.wire.event import EventEncoder
from s0d.wire.requests import InputBody, ResizeBody, SignalBody, decode

from .call import Call
from .streams import BATCH, Streams, websocket_frames, with_more
from .workarounds import FRAMES, Frames

if TYPE_CHECKING:
    from s0d.journal.record import Block
    from s0d.supervisor import Accepted, Sandbox, Session

log = logging.getLogger(__name__)

MAX_PENDING: Final = 256  # answers that wait for durability; beyond, the client's bytes wait

_NORMAL, _GOING_AWAY, _NO_BINARY, _POLICY = 1000, 1001, 1003, 1008


class Envelope(msgspec.Struct):
    """What all requests have in common."""

    type: str
    request_id: str | None = None


@dataclass(frozen=True)
class _Answer:
    """What a request comes to once event `seq` is durable (None: nothing to wait for)."""

    request_id: str | None
    seq: int | None = None
    error: S0dError | None = None


async def attend(call: Call, websocket: Websocket) -> None:
    """Serve one attachment until either side leaves.  Refused cursors raise before the upgrade."""
    with call.session.attach(call.after) as cursor:
        await websocket.accept()
        attachment = _Attachment(call.sandbox, call.session, cursor, websocket, call.streams)
        code, reason = await attachment.run()
        await websocket.close(code, reason)


class _Attachment:
    def __init__(
        self,
        sandbox: Sandbox,
        session: Session,
        cursor: Cursor,
        websocket: Websocket,
        streams: Streams,
    ) -> None:
        self._sandbox = sandbox
        self._session = session
        self._cursor = cursor
        self._websocket = websocket
        self._streams = streams
        self._encoder = EventEncoder(session.id)
        self._framed = FRAMES in cast(dict[str, Any], websocket.scope).get("extensions", {})
        self._close = (_NORMAL, "")

    async def run(self) -> tuple[int, str]:
        """Everything, until one of the ends is reached; how to close."""
        send, receive = trio.open_memory_channel[_Answer](MAX_PENDING)
        async with trio.open_nursery() as nursery:

            async def ends(part: Callable[[], Any]) -> None:
                self._close = await part()
                nursery.cancel_scope.cancel()

            nursery.start_soon(ends, self._send_events)
            nursery.start_soon(ends, lambda: self._take_requests(send))
            nursery.start_soon(self._send_answers, receive)
        return self._close

    # -- events --------------------------------------------------------------------------------

    async def _send_events(self) -> tuple[int, str]:
        while True:
            try:
                with self._streams.waiting() as wait:
                    block = await self._cursor.read(BATCH)
            except CursorExpired:
                return _POLICY, "event_cursor_expired"
            if wait.cancelled_caught:
                return _GOING_AWAY, "s0d is shutting down"
            if block is None:
                return self._ended()
            for each in await self._together(block):
                await self._websocket.send(each)

    def _ended(self) -> tuple[int, str]:
        if self._session.removing:
            what = "sandbox" if self._sandbox.deleting else "session"
            return _NORMAL, f"{what} deleted"
        return _GOING_AWAY, "s0d is shutting down"

    async def _together(self, block: Block) -> list[Any]:
        """What to send for `block` and what else is there: one write where the server can."""
        blocks = await with_more(self._cursor, block)
        if self._framed:
            return [Frames(b"".join([websocket_frames(b, self._encoder) for b in blocks]))]
        messages = [self._encoder.message(r) for b in blocks for r in b.records]
        return [message.decode("ascii") for message in messages]

    # -- requests ------------------------------------------------------------------------------

    async def _take_requests(self, answers: trio.MemorySendChannel[_Answer]) -> tuple[int, str]:
        while True:
            try:
                message = await self._websocket.receive()
            except trio.EndOfChannel:
                return _NORMAL, ""  # the client has left
            if not isinstance(message, str):
                return _NO_BINARY, "text messages only"
            await answers.send(await self._accept(message))

    async def _accept(self, message: str) -> _Answer:
        """Hand one request to the supervisor; what it is answered with later."""
        request_id = None
        try:
            data = message.encode()
            envelope = decode(data, Envelope)
            request_id = envelope.request_id
            return _Answer(request_id, (await self._dispatch(envelope.type, data)).seq)
        except S0dError as error:
            return _Answer(request_id, error=error)
        except UnicodeEncodeError:
            return _Answer(None, error=InvalidRequest("the message must be valid Unicode"))

    async def _dispatch(self, type: str, data: bytes) -> Accepted:
        session = self._session
        if type == "input":
            sent = decode(data, InputBody)
            sent.check()
            given = sent.input_id, sent.data(), bool(sent.eof), sent.expected_attempt_id
            known = session.known_input(*given)
            if known is not None:
                return known
            accept = partial(session.accept_input, *given)
        elif type == "signal":
            asked = decode(data, SignalBody)
            signum = parse_signal(asked.signal)
            accept = partial(session.accept_signal, signum, asked.expected_attempt_id)
        elif type == "resize":
            size = decode(data, ResizeBody)
            size.check()
            accept = partial(session.accept_resize, size.rows, size.cols, size.expected_attempt_id)
        else:
            raise InvalidRequest("type: must be one of input, signal, resize")
        async with self._sandbox.awake():
            return accept()

    async def _send_answers(self, answers: trio.MemoryReceiveChannel[_Answer]) -> None:
        async for answer in answers:
            error = answer.error
            if answer.seq is not None:
                try:
                    await self._session.wait_durable(answer.seq)
                except S0dError as failed:
                    error = failed
            await self._websocket.send(_message(answer.request_id, error).decode("ascii"))


def _message(request_id: str | None, error: S0dError | None) -> bytes:
    fields: dict[str, str] = {"type": "ack" if error is None else "error"}
    if request_id is not None:
        fields["request_id"] = request_id
    if error is not None:
        fields |= {"error": error.message, "code": error.code}
    return to_json(fields)
