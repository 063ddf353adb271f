"""What an attached client is shown: replay, then live, to the last byte and how it ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio
from msgspec import UNSET

from s0d.journal.cursor import Cursor
from s0d.journal.errors import CursorExpired, JournalError
from s0d.journal.record import Record
from s0d.model import event as ev
from s0d.supervisor.named import is_live
from s0d.supervisor.replay import Replay, count_missed
from s0d.wire.attach import Reason, ended_by_itself, frame
from s0d.wire.named import Status, exit_info, exit_of, status_of

from .duplex import Duplex
from .streams import BATCH, Streams, with_more

if TYPE_CHECKING:
    from s0d.supervisor import Session

SEQ_EVERY: Final = 0.5
"""Seconds after which a client is told how far it has come, while output flows."""

End = bytes | Reason | None
"""The last frame, or why there is none; None where the client has left."""

_STATUS: Final = {
    "end": Status.EXITED,
    "fail": Status.FAILED,
    "stop": Status.KILLED,
    "suspend": Status.KILLED,
}


class Transcript:
    """Sends one client what comes from `cursor`; `own` are resizes that the client made."""

    def __init__(
        self,
        session: Session,
        cursor: Cursor,
        replay: Replay,
        duplex: Duplex,
        streams: Streams,
        own: set[int],
    ) -> None:
        self._session = session
        self._cursor = cursor
        self._replay = replay
        self._duplex = duplex
        self._streams = streams
        self._own = own
        self.attempts = False
        """Is the client to be told of each new attempt?"""
        self._live = False
        self._skip = replay.skip
        self._sent = 0  # of the output since the replay's beginning, with what was missed
        self._chunks: list[bytes] = []
        self._seq = replay.start
        self._due = float("inf")  # when the client is to be told how far it has come

    async def send(self) -> End:
        """Everything, to the end of the session, of its journal, or of the application."""
        if self._replay.painted:
            await self._duplex.output([self._replay.painted])
        while True:
            await self._go_live(self._cursor.position)
            if self._cursor.position >= self._session.journal.latest and not is_live(self._session):
                return self._exit()
            end = await self._next()
            if end is not None:
                return end

    async def _next(self) -> End:
        """Wait for more and send it; not longer than until the client is to be told of it."""
        block = None
        try:
            with self._streams.waiting(max(0.0, self._due - trio.current_time())) as wait:
                block = await self._cursor.read(BATCH)
        except CursorExpired:
            await self._miss()
            return None
        except JournalError:
            if self._session.removing:  # its files are going away
                return Reason.DELETED
            raise
        if wait.cancelled_caught:
            if self._streams.stopped:
                return Reason.SHUTDOWN
            await self._tell_seq()
            return None
        if block is None:
            return Reason.DELETED if self._session.removing else Reason.SHUTDOWN
        for each in await with_more(self._cursor, block):
            for record in each.records:
                end = await self._take(record)
                if end is not None:
                    return end
        await self._flush()
        return None

    async def _take(self, record: Record) -> End:
        if record.seq > self._replay.boundary:
            await self._go_live(record.seq - 1)
        end: End = None
        if record.type == ev.OUTPUT:
            self._add(record.fields["data"])
        elif record.type == ev.JOURNAL_GAP and record.fields.get("reason") != "unclean_end":
            await self._flush()
            # How much there was is lost with it.
            await self._duplex.tell(frame("OUTPUT_DROPPED", dropped_bytes=0, seq=record.seq + 1))
        elif self.attempts and record.type == ev.ATTEMPT_STARTING:
            await self._flush()
            await self._duplex.tell(frame("ATTEMPT", attempt_id=record.attempt, seq=record.seq))
        elif self._live and record.type == ev.TERMINAL_RESIZED:
            await self._tell_size(record)
        elif self._live and record.type == ev.ATTEMPT_EXITED:
            end = _exit_of(record)
            if end is not None:
                await self._flush()
        self._seq = record.seq
        return end

    async def _tell_size(self, record: Record) -> None:
        if record.seq in self._own:
            self._own.discard(record.seq)
            return
        await self._flush()
        cols, rows = record.fields["cols"], record.fields["rows"]
        await self._duplex.tell(frame("RESIZED", cols=cols, rows=rows))

    def _add(self, data: bytes) -> None:
        data = data[self._skip :]
        self._skip = 0  # it is of one event
        self._sent += len(data)
        self._chunks.append(data)

    async def _flush(self) -> None:
        if not self._chunks:
            return
        chunks, self._chunks = self._chunks, []
        await self._duplex.output(chunks)
        self._due = min(self._due, trio.current_time() + SEQ_EVERY)
        if trio.current_time() >= self._due:
            await self._tell_seq()

    async def _tell_seq(self) -> None:
        self._due = float("inf")
        await self._duplex.tell(frame("SEQ", seq=self._seq))

    async def _go_live(self, position: int) -> None:
        if not self._live and position >= self._replay.boundary:
            await self._flush()
            self._live = True
            await self._duplex.tell(frame("LIVE", seq=self._replay.boundary))

    async def _miss(self) -> None:
        """Retention has overtaken the client: say what it has missed, and go on from there."""
        replay, meter = self._replay, self._session.meter
        owed = replay.size + meter.total - replay.metered - self._sent
        missed, earliest = await count_missed(self._session, owed)
        self._skip = 0
        self._sent += missed
        self._cursor.position = self._seq = earliest - 1
        if missed:
            await self._duplex.tell(frame("OUTPUT_DROPPED", dropped_bytes=missed, seq=earliest))

    def _exit(self) -> bytes:
        record = self._session.record
        return ended_by_itself(exit_of(record.attempt), status_of(record, attached=True))


def _exit_of(record: Record) -> bytes | None:
    """The frame for an attempt's end that is the session's; None for any other."""
    fields = record.fields
    status = _STATUS.get(fields.get("then", ""))
    if status is None:  # it goes on, or is being deleted
        return None
    if fields.get("reason") == "killed":
        status = Status.KILLED
    code = fields.get("exit_code")
    return ended_by_itself(UNSET if code is None else exit_info(code, fields.get("signal")), status)
