"""The sessions of one sandbox: create them once, find them, delete them.

The sandbox is also the `Host` of its sessions: it knows the generation, the root directory and the
environment that their processes start from.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Final

import trio

from s0d.journal import Journal, JournalError, Record, Syncer
from s0d.model import lifecycle
from s0d.model.errors import (
    LimitExceeded,
    SessionConflict,
    SessionNotFound,
    StopIncomplete,
    Unavailable,
)
from s0d.model.ids import new_session_id
from s0d.model.sandbox import SandboxRecord
from s0d.model.spec import SessionSpec

from .aging import Aging
from .host import ProcessHost
from .launch import Launch, LaunchPlan
from .recorder import first_entry
from .screens import Screens
from .session import Session
from .snapshots import AT_ONCE, Snapshots
from .store import JOURNAL, Store, remove_tree

log = logging.getLogger("s0d.sandbox")

MAX_SESSIONS: Final = 10_000
_READERS_LEAVE: Final = 10.0


class Sandbox:
    """One sandbox; its sessions run as tasks of the nursery that it is given."""

    def __init__(
        self,
        record: SandboxRecord,
        store: Store,
        host: ProcessHost,
        syncer: Syncer,
        nursery: trio.Nursery,
        *,
        root: str,
        env_vars: Mapping[str, str],
    ) -> None:
        self.record = record
        self.root = root
        self.env_vars = dict(env_vars)
        self._store = store
        self._host = host
        self._syncer = syncer
        self._nursery = nursery
        self._sessions: dict[str, Session] = {}
        self._by_key: dict[str, Session] = {}
        self._creating: dict[str, trio.Event] = {}
        self._removing: dict[str, trio.Event] = {}
        self.snapshots = Snapshots(store)
        self.aging_out = Aging()
        self.screens = Screens()
        self.stopping = False
        nursery.start_soon(self.screens.run)

    # -- the host of its sessions ------------------------------------------------------------

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def generation(self) -> int:
        return self.record.generation

    @property
    def boot_id(self) -> str:
        return self._host.boot_id

    def check(self, spec: SessionSpec) -> None:
        if spec.limits:
            self._host.check_limits(spec.limits)

    async def launch(self, plan: LaunchPlan) -> Launch:
        return await self._host.launch(plan, self.id, self.env_vars)

    def touched(self, session_id: str) -> None:
        session = self._sessions.get(session_id)
        if session is not None:
            self.snapshots.stale(session)

    def aging(self, journal: Journal, max_age_seconds: int) -> None:
        self.aging_out.add(journal, max_age_seconds)

    # -- suspension --------------------------------------------------------------------------

    @property
    def suspended(self) -> bool:
        """Is its runtime away, or standing still?  Then what is listed is what was last known."""
        return False

    async def wake(self) -> bool:
        """Make the sandbox run; True where it ran already.

        For whoever needs the processes (attach, create, kill, exec, resume), before they do what
        they came for.  Of several at once one wakes it, and all return when it runs.  Raises
        `SandboxConflict` where the sandbox must not be resumed.
        """
        await trio.lowlevel.checkpoint()
        return True

    # -- sessions ----------------------------------------------------------------------------

    def session(self, session_id: str) -> Session:
        """Look up a session; `SessionNotFound`."""
        session = self._sessions.get(session_id)
        if session is None:
            raise SessionNotFound("no such session")
        return session

    def sessions(self) -> list[Session]:
        """All sessions, oldest first."""
        return sorted(self._sessions.values(), key=lambda s: (s.record.created_at_ns, s.id))

    async def create(
        self, spec: SessionSpec, *, idempotency_key: str | None = None
    ) -> tuple[Session, bool]:
        """Make a session and start its first attempt; returns it and whether it is new.

        With a key that is known for the same specification the existing session is returned, for
        another one `SessionConflict` is raised.  Concurrent creations with one key give one
        session.  A command that cannot start still makes a session.
        """
        if idempotency_key is None:
            return await self._create(spec, None), True
        while (pending := self._creating.get(idempotency_key)) is not None:
            await pending.wait()
        known = self._by_key.get(idempotency_key)
        if known is not None:
            return await self._same(known, spec), False
        self._creating[idempotency_key] = done = trio.Event()
        try:
            return await self._create(spec, idempotency_key), True
        finally:
            del self._creating[idempotency_key]
            done.set()

    async def _same(self, session: Session, spec: SessionSpec) -> Session:
        if session.removing:
            raise SessionConflict("Idempotency-Key: its session is being deleted")
        if session.record.created_spec != spec:
            raise SessionConflict("Idempotency-Key: already used with another specification")
        await session.wait_launched()
        await session.wait_durable(session.journal.latest)
        return session

    async def _create(self, spec: SessionSpec, key: str | None) -> Session:
        self.check(spec)
        if self.stopping:
            raise Unavailable("s0d is shutting down")
        if len(self._sessions) + len(self._creating) >= MAX_SESSIONS:
            raise LimitExceeded(f"at most {MAX_SESSIONS} sessions a sandbox")
        with trio.CancelScope(shield=True):  # all of it or nothing, also when the client leaves
            session = await self._make(spec, key)
        await session.wait_launched()
        return session

    async def _make(self, spec: SessionSpec, key: str | None) -> Session:
        session_id = new_session_id()
        first = first_entry(spec, key, self.generation)
        create = partial(
            self._store.create_session, session_id, spec.event_retention, self._syncer, first
        )
        try:
            journal = await trio.to_thread.run_sync(create)
        except (OSError, JournalError) as error:
            raise Unavailable(f"the session cannot be stored: {error}") from None
        record = lifecycle.create(session_id, Record(1, *first[:5]))
        session = Session(record, journal, self)
        self.adopt(session)
        session.begin()
        self._nursery.start_soon(session.run)
        return session

    def adopt(self, session: Session) -> None:
        """Count `session` among the sandbox's; its task is started by the caller."""
        self._sessions[session.id] = session
        key = session.record.idempotency_key
        if key is not None:
            self._by_key[key] = session
        session.journal.checkpoint = partial(self.snapshots.checkpoint, session)
        self.snapshots.stale(session)
        self.aging(session.journal, session.record.spec.event_retention.max_age_seconds)

    def start(self, session: Session) -> None:
        """Start the task of an adopted session."""
        self._nursery.start_soon(session.run)

    async def see_through(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` as a task of the sandbox and wait for it; what it raises is raised here.

        Unlike a shield this holds up nobody: neither a client's connection nor the end of the API.
        """
        done = trio.Event()
        error: Exception | None = Unavailable("s0d is shutting down")

        async def run() -> None:
            nonlocal error
            try:
                await work()
                error = None
            except Exception as failed:
                error = failed
                log.warning("not seen through: %s", failed)  # the caller may have left
            finally:
                done.set()

        self._nursery.start_soon(run)
        await done.wait()
        if error is not None:
            raise error

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
        self.screens.forget(session.id)
        path = await trio.to_thread.run_sync(self._store.discard, session.id)
        key = session.record.idempotency_key
        if key is not None:
            del self._by_key[key]
        session.journal.relocate(os.path.join(path, JOURNAL))
        self._nursery.start_soon(self._clear, session, path)

    async def _clear(self, session: Session, path: str) -> None:
        """Remove the files of a deleted session when its readers have left."""
        with trio.move_on_after(_READERS_LEAVE):
            await session.wait_for(lambda s: s.attachments == 0)
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(partial(session.journal.close, clean=False))
            await trio.to_thread.run_sync(remove_tree, path)

    # -- the end of the runtime --------------------------------------------------------------

    async def suspend(self) -> None:
        """End every attempt: the runtime goes away.  What is wanted stays as it is."""
        self.stopping = True
        async with trio.open_nursery() as nursery:
            for session in self._sessions.values():
                nursery.start_soon(_suspend, session)

    async def close(self) -> None:
        """Write every snapshot and close every journal."""
        await self.snapshots.write_stale()
        limiter = trio.CapacityLimiter(AT_ONCE)
        async with trio.open_nursery() as nursery:
            for session in self._sessions.values():
                nursery.start_soon(_close, session, limiter)


async def _close(session: Session, limiter: trio.CapacityLimiter) -> None:
    try:
        await trio.to_thread.run_sync(session.journal.close, limiter=limiter)
    except (OSError, JournalError) as error:
        log.warning("journal not closed cleanly: %s", error, extra={"session_id": session.id})


async def _suspend(session: Session) -> None:
    try:
        await session.suspend()
    except StopIncomplete as error:
        log.warning("%s", error.message, extra={"session_id": session.id})
