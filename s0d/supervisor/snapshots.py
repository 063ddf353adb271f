"""When session records are written: soon, batched, never on the hot path.

The journal is the truth and is on disk before a command is answered; the record is only a snapshot
that spares the next start the fold, and lets retention remove old segments.  So it may lag: stale
sessions are written together, at most about once a second, in a worker thread.  Where retention
must remove a segment whose control events no snapshot covers yet, the journal asks for one at once
(`checkpoint`).
"""

from __future__ import annotations

import logging
import threading
from typing import Final

import trio

from s0d.journal import JournalError

from .session import Session
from .store import Store, encode_record

log = logging.getLogger("s0d.snapshots")

INTERVAL: Final = 1.0
AT_ONCE: Final = 16
"""So many sessions are written side by side, or closed: what takes the time is the wait for the
device, which serves many as soon as one."""


class Snapshots:
    """Writes the snapshots of one sandbox's sessions."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._stale: dict[str, Session] = {}
        self._woken = trio.Event()
        self._writing = trio.Lock()
        # Between a worker thread and `checkpoint`, which cannot await: it waits for one write.
        self._writers: dict[str, threading.Lock] = {}
        self._limiter = trio.CapacityLimiter(AT_ONCE)

    def stale(self, session: Session) -> None:
        """Something but output was recorded: the snapshot is behind."""
        if not self._stale:
            self._woken.set()
        self._stale[session.id] = session

    def forget(self, session_id: str) -> None:
        """The session is being removed: its files are not ours to write any more."""
        self._stale.pop(session_id, None)
        self._writers.pop(session_id, None)

    def checkpoint(self, session: Session) -> int:
        """Write the snapshot now, blocking; returns the sequence that it covers."""
        seq, data = session.record.seq, encode_record(session.record)
        self._write_unless_older(session, self._writer(session), seq, data)
        return seq

    async def run(self) -> None:
        """Write what is stale, at most once an interval; asleep while nothing is."""
        while True:
            await self._woken.wait()
            await trio.sleep(INTERVAL)
            self._woken = trio.Event()
            await self.write_stale()

    async def write_stale(self) -> None:
        """Write every stale snapshot once; what fails stays stale."""
        async with self._writing:
            batch, self._stale = self._stale, {}
            async with trio.open_nursery() as nursery:
                for session in batch.values():
                    if session.control_seq > session.journal.checkpointed:
                        nursery.start_soon(self._try, session)

    async def _try(self, session: Session) -> None:
        try:
            async with self._limiter:
                await self._write(session)
        except (OSError, JournalError) as error:
            if not session.removing:
                log.warning("cannot write a session record: %s", error)
                self.stale(session)

    async def _write(self, session: Session) -> None:
        seq, data = session.record.seq, encode_record(session.record)
        # A snapshot must not be ahead of the journal that it sums up.
        await session.journal.wait_durable(seq)
        writer = self._writer(session)
        await trio.to_thread.run_sync(self._write_unless_older, session, writer, seq, data)

    def _writer(self, session: Session) -> threading.Lock:
        return self._writers.setdefault(session.id, threading.Lock())

    def _write_unless_older(
        self, session: Session, writer: threading.Lock, seq: int, data: bytes
    ) -> None:
        """Write, unless `checkpoint` has gone ahead: by then retention may have removed the
        events between the two, and an older snapshot could not be brought up to date any more."""
        with writer:
            if seq > session.journal.checkpointed:
                self._store.write_record(session.id, data)
                session.journal.checkpointed = seq
