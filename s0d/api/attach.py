"""Attaching to a session's terminal over a WebSocket (wire contract, section 4, "Attach").

One task sends output from a cursor, one carries out what the client sends, one waits for another
client to take over, one for the end of the application.  The first of them to end ends all.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import trio
from msgspec import UNSET
from quart import Websocket

from s0d.journal.cursor import Cursor
from s0d.journal.errors import JournalError
from s0d.model.errors import EventCursorExpired, S0dError, SessionConflict, Unavailable
from s0d.model.signals import parse_signal
from s0d.model.spec import IOMode
from s0d.supervisor.named import is_live
from s0d.supervisor.replay import (
    Replay,
    replay_after,
    replay_history,
    replay_none,
    replay_screen,
)
from s0d.wire.attach import AttachStart, Reason, Role, What, accepted, frame

from .call import Call
from .duplex import Duplex, Patience
from .errors import Forbidden
from .transcript import End, Transcript

if TYPE_CHECKING:
    from s0d.supervisor import Sandbox, Session

_ATTEMPTS: Final = 3  # at a beginning that retention does not overtake


async def attach(call: Call, websocket: Websocket) -> None:
    """Serve one attachment until either side leaves; it is admitted or refused at START."""
    await websocket.accept()
    duplex = Duplex(websocket, call.streams)
    try:
        start = await duplex.start(AttachStart)
        if not isinstance(start, AttachStart):
            return await duplex.end(start)
        end = await _serve(call, duplex, start)
    except S0dError as error:
        return await duplex.refuse(error)
    except JournalError as error:
        return await duplex.refuse(Unavailable(f"the journal cannot be used: {error}"))
    if isinstance(end, Reason) or end is None:
        return await duplex.end(end)
    return await duplex.close(end)


async def _serve(call: Call, duplex: Duplex, start: AttachStart) -> End:
    sandbox = call.sandbox
    with ExitStack() as stack:
        async with sandbox.awake():
            session = call.session if call.session_name is None else call.named
            client = _Client(sandbox, session, duplex, start)
            client.take_size(start)
            replay, cursor = await _enter(stack, sandbox, session, start)
        takeover = start.role is Role.TAKEOVER
        lost = stack.enter_context(sandbox.named.seats.seat(session.id, takeover=takeover))
        info = sandbox.named.info(session)
        rows, cols = client.size
        await duplex.tell(
            accepted(
                info,
                replayed=len(replay.painted) or replay.size,
                dropped=replay.dropped,
                cols=cols,
                rows=rows,
                seq=replay.start,
            )
        )
        transcript = Transcript(session, cursor, replay, duplex, call.streams, client.own)
        transcript.attempts = bool(start.attempts)
        return await _first(transcript.send, lambda: duplex.take(client), lambda: _taken_over(lost))


async def _enter(
    stack: ExitStack, sandbox: Sandbox, session: Session, start: AttachStart
) -> tuple[Replay, Cursor]:
    """The replay that was asked for, and the cursor that begins there."""
    for _ in range(_ATTEMPTS):
        replay = await _replay(sandbox, session, start)
        try:
            return replay, stack.enter_context(session.attach(replay.start))
        except EventCursorExpired:
            if start.after is not None:
                raise
    latest = replay_none(session)
    missed = Replay(latest.start, latest.boundary, latest.metered, dropped=True)
    return missed, stack.enter_context(session.attach(missed.start))


async def _replay(sandbox: Sandbox, session: Session, start: AttachStart) -> Replay:
    if start.after is not None:
        return await replay_after(session, start.after)
    if start.replay is What.NONE:
        return replay_none(session)
    if start.replay is What.SCREEN:
        return await replay_screen(session, sandbox.screens)
    return await replay_history(session, start.most)


async def _taken_over(lost: trio.Event) -> Reason:
    await lost.wait()
    return Reason.TAKEOVER


async def _first(*parts: Callable[[], Awaitable[End]]) -> End:
    """What the first of `parts` to end comes to."""
    ends: list[End] = []
    errors: list[Exception] = []
    async with trio.open_nursery() as nursery:

        async def run(part: Callable[[], Awaitable[End]]) -> None:
            try:
                ends.append(await part())
            except Exception as error:
                errors.append(error)
            nursery.cancel_scope.cancel()

        for part in parts:
            nursery.start_soon(run, part)
    if errors:
        raise errors[0]
    return ends[0]


@dataclass
class _Client:
    """What an attached client may do."""

    sandbox: Sandbox
    session: Session
    duplex: Duplex
    start: AttachStart

    def __post_init__(self) -> None:
        self._number = 1 if self.start.input_from is None else self.start.input_from
        self.own: set[int] = set()
        """Its own resizes, of which it need not be told."""
        self._patience = Patience()

    @property
    def size(self) -> tuple[int, int]:
        """Rows and columns of the terminal; 0 where there is none."""
        attempt, spec = self.session.record.attempt, self.session.record.spec.io
        if spec.mode is not IOMode.PTY or spec.terminal is UNSET:
            return 0, 0
        if attempt is None or not attempt.rows:
            return spec.terminal.rows, spec.terminal.cols
        return attempt.rows, attempt.cols

    def take_size(self, start: AttachStart) -> None:
        """Give the terminal the client's size, where it is one to be given."""
        rows, cols = self.size
        wanted = start.rows or rows, start.cols or cols
        if self.start.role is Role.VIEWER or not rows or not is_live(self.session):
            return
        try:
            self._resize(*wanted)
        except (SessionConflict, Unavailable):
            return  # it is ending, about to start, or its disk is full: attaching is what counts

    async def input(self, data: bytes, *, eof: bool = False) -> None:
        self._check_role()
        number, self._number = self._number, self._number + 1
        known = self.start.input_id
        input_id = f"attach-{uuid.uuid4()}" if known is None else f"{known}-{number}"
        try:
            await self._patience.put(lambda: self._put(input_id, data, eof))
        except S0dError:
            if known is not None:  # nor is it to be sent again
                await self.duplex.tell(frame("INPUT", number=number, accepted=False))
            raise
        if known is not None:
            await self.duplex.tell(frame("INPUT", number=number, accepted=True))

    async def _put(self, input_id: str, data: bytes, eof: bool) -> None:
        if self.session.known_input(input_id, data, eof) is not None:
            return
        async with self.sandbox.awake():  # not while it waits: that would hold up a pause
            self.session.accept_input(input_id, data, eof)

    async def resize(self, rows: int, cols: int) -> None:
        self._check_role()
        async with self.sandbox.awake():
            self._resize(rows, cols)

    def _resize(self, rows: int, cols: int) -> None:
        if (rows, cols) != self.size:
            self.own.add(self.session.accept_resize(rows, cols).seq)

    async def signal(self, name: str | int) -> None:
        self._check_role()
        signum = parse_signal(name)
        async with self.sandbox.awake():
            self.session.accept_signal(signum)

    def _check_role(self) -> None:
        if self.start.role is Role.VIEWER:
            raise Forbidden("a viewer only looks: attach as interactive")
