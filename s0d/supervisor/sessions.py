"""The sessions of a sandbox: made once, found, removed with their files."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from s0d.journal import Journal, JournalError, Record, Syncer
from s0d.model import lifecycle
from s0d.model.errors import LimitExceeded, SessionConflict, SessionNotFound, Unavailable
from s0d.model.ids import new_session_id
from s0d.model.spec import SessionSpec

from .aging import Aging
from .change import Change
from .recorder import first_entry
from .session import Session
from .snapshots import Snapshots
from .store import JOURNAL, Store, remove_tree

if TYPE_CHECKING:
    from .launch import Host

_READERS_LEAVE: Final = 10.0


class Sessions:
    """The table of one sandbox; `start` runs a session's task, `host` is what it runs on."""

    def __init__(
        self,
        store: Store,
        syncer: Syncer,
        host: Host,
        *,
        start: Callable[..., None],
        forget: Callable[[str], None],
    ) -> None:
        self.snapshots = Snapshots(store)
        self.aging_out = Aging()
        self._store = store
        self._syncer = syncer
        self._host = host
        self._start = start
        self._forget = forget
        self._sessions: dict[str, Session] = {}
        self._by_key: dict[str, Session] = {}
        self._creating: dict[str, trio.Event] = {}
        self._removing: dict[str, trio.Event] = {}
        self._making = 0
        self._made = Change()
        self._clearing = 0
        self._cleared = Change()

    def get(self, session_id: str) -> Session:
        """Look up a session; `SessionNotFound`."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound("no such session")
        return session

    def all(self) -> list[Session]:
        """All sessions, oldest first."""
        return sorted(self._sessions.values(), key=lambda s: (s.record.created_at_ns, s.id))

    def touched(self, session_id: str) -> None:
        """The session's record has changed."""
        session = self._sessions.get(session_id)
        if session is not None:
            self.snapshots.stale(session)

    def adopt(self, session: Session) -> None:
        """Count `session` among the sandbox's; its task is started by the caller."""
        self._sessions[session.id] = session
        key = session.record.idempotency_key
        if key is not None:
            self._by_key[key] = session
        session.journal.checkpoint = partial(self.snapshots.checkpoint, session)
        self.snapshots.stale(session)
        self.aging_out.add(session.journal, session.record.spec.event_retention.max_age_seconds)

    # -- creation ----------------------------------------------------------------------------

    async def create(self, spec: SessionSpec, key: str | None) -> tuple[Session, bool]:
        """See `Sandbox.create`."""
        if key is None:
            return await self._create(spec, None), True
        known = await self.known(spec, key)  # again: it may have been made before the wake-up
        if known is not None:
            return known, False
        self._creating[key] = done = trio.Event()
        try:
            return await self._create(spec, key), True
        finally:
            del self._creating[key]
            done.set()

    async def known(self, spec: SessionSpec, key: str | None) -> Session | None:
        """The session that was made with this key; None where there is none, nor one on its way.

        `SessionConflict` where that was for another specification.
        """
        if key is None:
            return None
        while (pending := self._creating.get(key)) is not None:
            await pending.wait()
        known = self._by_key.get(key)
        return None if known is None else await _same(known, spec)

    async def _create(self, spec: SessionSpec, key: str | None) -> Session:
        self._host.check(spec)
        most = self._host.bounds.sessions
        if len(self._sessions) + self._making >= most:
            raise LimitExceeded(f"at most {most} sessions a sandbox")
        self._host.check_not_ending()  # it may have waited for another creation
        self._making += 1
        try:
            with trio.CancelScope(shield=True):  # all of it or nothing, also when the client leaves
                session = await self._make(spec, key)
        finally:
            self._making -= 1
            self._made.notify()
        await session.wait_launched()
        return session

    async def _make(self, spec: SessionSpec, key: str | None) -> Session:
        session_id = new_session_id()
        first = first_entry(spec, key, self._host.generation)
        create = partial(
            self._store.create_session, session_id, spec.event_retention, self._syncer, first
        )
        try:
            journal: Journal = await trio.to_thread.run_sync(create)
        except (OSError, JournalError) as error:
            raise Unavailable(f"the session cannot be stored: {error}") from None
        record = lifecycle.create(session_id, Record(1, *first[:5]))
        self._host.counts.control(first.type, first.fields)
        session = Session(record, journal, self._host)
        self.adopt(session)
        session.begin()
        self._start(session.run)
        return session

    async def wait_made(self) -> None:
        """Until what is being made is there, or could not be made."""
        await self._made.wait_for(lambda: not self._making)

    # -- removal -----------------------------------------------------------------------------

    async def remove(self, session_id: str) -> None:
        """Remove identity, journal and key of a session that has ended (`Session.delete`).

        Its files go when its readers have left, or after 10 s.
        """
        # Out of the table in the same stretch of code as the look into it: of several callers
        # one removes, the others wait for it.
        while (removal := self._removing.get(session_id)) is not None:
            await removal.wait()
        session = self._sessions.pop(session_id, None)
        if session is None:
            return
        self._removing[session_id] = done = trio.Event()
        try:
            with trio.CancelScope(shield=True):
                await self._discard(session)
        except OSError as error:
            self._sessions[session_id] = session
            raise Unavailable(f"the session's files cannot be removed: {error}") from None
        finally:
            del self._removing[session_id]
            done.set()

    async def _discard(self, session: Session) -> None:
        self.snapshots.forget(session.id)
        self.aging_out.discard(session.journal)
        self._forget(session.id)
        path = await trio.to_thread.run_sync(self._store.discard, session.id)
        key = session.record.idempotency_key
        if key is not None:
            del self._by_key[key]
        session.journal.relocate(os.path.join(path, JOURNAL))
        self._clearing += 1
        self._start(self._clear, session, path)

    async def _clear(self, session: Session, path: str) -> None:
        """Remove the files of a deleted session when its readers have left."""
        with trio.move_on_after(_READERS_LEAVE):
            await session.wait_for(lambda s: s.attachments == 0)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(session.journal.close, clean=False))
            await trio.to_thread.run_sync(remove_tree, path)
        self._clearing -= 1
        self._cleared.notify()

    async def wait_cleared(self) -> None:
        """Until the files of all removed sessions are gone."""
        await self._cleared.wait_for(lambda: not self._clearing)


async def _same(session: Session, spec: SessionSpec) -> Session:
    """The session of a key that is known already."""
    if session.removing:
        raise SessionConflict("Idempotency-Key: its session is being deleted")
    if session.record.created_spec != spec:
        raise SessionConflict("Idempotency-Key: already used with another specification")
    await session.wait_launched()
    await session.wait_durable(session.journal.latest)
    return session
