"""A sandbox: an identity with a root directory, sessions, and a runtime that comes and goes.

It is also the `Host` of its sessions: it knows the generation, the root directory, the environment
that their processes start from, and whether they may run at all (see `runtime`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial

import msgspec
import trio

from s0d.journal import Journal, JournalError, Syncer
from s0d.model.errors import (
    S0dError,
    SandboxConflict,
    SandboxNotFound,
    StopIncomplete,
    Unavailable,
)
from s0d.model.sandbox import SandboxConfig, SandboxRecord, SandboxStatus
from s0d.model.spec import SessionSpec

from .bounds import Bounds
from .clock import RuntimeClock
from .counts import Counts
from .exec import Execs
from .expiry import Expiry
from .host import ProcessHost
from .launch import Launch, LaunchPlan
from .named import NamedSessions
from .runtime import Runtime, State
from .screens import Screens
from .session import Session
from .sessions import Sessions
from .sleep import MachineSleep
from .snapshots import AT_ONCE
from .storage import Storage
from .store import Store

log = logging.getLogger("s0d.sandbox")


class Sandbox:
    """One sandbox; its tasks run in the nursery that it is given, which is its own.

    `expired` is called when its `hard_ttl` is over: it is to be deleted.
    """

    def __init__(
        self,
        record: SandboxRecord,
        store: Store,
        host: ProcessHost,
        syncer: Syncer,
        nursery: trio.Nursery,
        *,
        root: str,
        expired: Callable[[], None],
    ) -> None:
        self.record = record
        self.root = root
        self.store = store
        self.clock = RuntimeClock()
        self.runtime = Runtime(self, State.ABSENT if record.paused else State.RUNNING)
        self.removed = False
        """Has it been deleted?  Who still holds it has looked it up before."""
        self.screens = Screens()
        self.named = NamedSessions(self)
        self.execs = Execs(self, nursery.start_soon)
        self._storage = Storage(
            lambda: [session.journal for session in self.sessions()], host.bounds.journal_bytes
        )
        self._host = host
        self._nursery = nursery
        self._storing = trio.Lock()
        self._configuring = trio.Lock()
        self._sessions = Sessions(
            store, syncer, self, start=nursery.start_soon, forget=self.screens.forget
        )
        self._expiry = Expiry(self, expired)
        self.snapshots = self._sessions.snapshots
        self.adopt = self._sessions.adopt
        self.touched = self._sessions.touched
        self.remove = self._sessions.remove

    def begin(self) -> None:
        """Start what runs beside the sessions."""
        self._nursery.start_soon(self.screens.run)
        self._nursery.start_soon(self.snapshots.run)
        self._nursery.start_soon(self._sessions.aging_out.run)
        self._nursery.start_soon(self._expiry.run)

    def slept(self, seconds: float) -> None:
        """The machine has slept so long, see `sleep`."""
        self._expiry.slept(seconds)
        self._sessions.aging_out.look()
        for session in self.sessions():
            session.slept(seconds)

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

    @property
    def sleep(self) -> MachineSleep:
        return self._host.sleep

    @property
    def counts(self) -> Counts:
        return self._host.counts

    @property
    def bounds(self) -> Bounds:
        return self._host.bounds

    def storage_grew(self) -> None:
        self._storage.grew()

    def check(self, spec: SessionSpec) -> None:
        if spec.limits:
            self._host.check_limits(spec.limits)

    async def launch(self, plan: LaunchPlan) -> Launch:
        return await self._host.launch(plan, self.id, self.record.config.env_vars)

    def aging(self, journal: Journal, max_age_seconds: int) -> None:
        self._sessions.aging_out.add(journal, max_age_seconds)

    def awake(self) -> AbstractAsyncContextManager[bool]:
        """See `launch.Host.awake`."""
        return self.runtime.awake()

    def attendance(self) -> None:
        self._expiry.note_departure()

    async def see_through(self, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` as a task of the sandbox and wait for it; what it raises is raised here.

        Unlike a shield this holds up nobody: neither a client's connection nor the end of the API.
        """
        if self.removed:
            raise self.gone()
        await see_through(self._nursery, work, self.gone)

    # -- sessions ----------------------------------------------------------------------------

    def session(self, session_id: str) -> Session:
        """Look up a session; `SessionNotFound`."""
        return self._sessions.get(session_id)

    def sessions(self) -> list[Session]:
        """All sessions, oldest first."""
        return self._sessions.all()

    async def create(
        self, spec: SessionSpec, *, idempotency_key: str | None = None
    ) -> tuple[Session, bool]:
        """Make a session and start its first attempt; returns it and whether it is new.

        With a key that is known for the same specification the existing session is returned, for
        another one `SessionConflict` is raised.  Concurrent creations with one key give one
        session.  A command that cannot start still makes a session.  Only a new one needs the
        runtime.
        """
        known = await self._sessions.known(spec, idempotency_key)
        if known is not None:
            return known, False
        async with self.awake():
            return await self._sessions.create(spec, idempotency_key)

    def start(self, session: Session) -> None:
        """Start the task of an adopted session, where there is a runtime for it."""
        if self.runtime.state is State.RUNNING:
            self._nursery.start_soon(session.run)

    # -- suspension --------------------------------------------------------------------------

    @property
    def stopping(self) -> bool:
        """Is it being deleted, or the daemon about to end?"""
        return self.record.deleting or self.runtime.state is State.ENDING

    @property
    def deleting(self) -> bool:
        """Is it being deleted?"""
        return self.record.deleting

    @property
    def suspended(self) -> bool:
        """Is its runtime away, or standing still?  Then what is listed is what was last known."""
        return self.runtime.state in (State.FROZEN, State.ABSENT)

    @property
    def status(self) -> SandboxStatus:
        if self.stopping:
            return SandboxStatus.TERMINATING
        return SandboxStatus.PAUSED if self.suspended else SandboxStatus.RUNNING

    async def wake(self) -> bool:
        """Make the sandbox run; True where it ran already.  Raises `SandboxConflict`."""
        async with self.awake() as was_running:
            return was_running

    async def pause(self, *, memory: bool = False) -> None:
        """Take the runtime away until it is resumed; with `memory` its processes stand still,
        else they end.  Durable on return."""
        await self.see_through(partial(self._pause, memory))

    async def _pause(self, memory: bool) -> None:
        leave = self.runtime.freeze if memory else self.runtime.end
        await leave(then=self._note_pause)

    async def _note_pause(self) -> None:
        if not self.record.paused:
            await self.store_record(paused=True)

    async def resume(self) -> bool:
        """Let it run again; False where it ran already."""
        resumed = False

        async def work() -> None:
            nonlocal resumed
            resumed = await self.runtime.resume()

        await self.see_through(work)
        return resumed

    async def refresh(self, seconds: int | None = None) -> None:
        """Renew the lease: its `ttl` from now on, or `seconds`.  Durable on return."""
        self.check_not_ending()
        lease = self.record.config.ttl if seconds is None else seconds
        await self.store_record(renewed_at_ns=time.time_ns(), lease=lease)
        self._expiry.renew()

    async def configure(self, change: Callable[[SandboxConfig], SandboxConfig]) -> None:
        """Change the configuration; a change of `ttl` renews the lease.  Durable on return."""
        async with self._configuring:  # else one of two changes could take back the other
            self.check_not_ending()
            await self._configure(change(self.record.config))

    async def _configure(self, config: SandboxConfig) -> None:
        changes: dict[str, object] = {"config": config, "updated_at_ns": time.time_ns()}
        renews = config.ttl != self.record.config.ttl
        if renews:
            changes |= {"renewed_at_ns": time.time_ns(), "lease": config.ttl}
        await self.store_record(**changes)
        self._expiry.reconfigure()
        if renews:
            self._expiry.renew()

    async def store_record(self, **changes: object) -> None:
        """Change the record, first on disk.  Raises `Unavailable`, with nothing changed."""
        async with self._storing:  # else who is slower writes what the others have changed back
            changed = msgspec.structs.replace(self.record, **changes)
            try:
                await trio.to_thread.run_sync(self.store.write_marker, changed)
            except OSError as error:
                if self.removed:  # meanwhile
                    raise self.gone() from None
                reason = error.strerror or "the disk refuses"
                raise Unavailable(f"the sandbox cannot be stored: {reason}") from None
            for name, value in changes.items():
                setattr(self.record, name, value)

    # -- the steps of the runtime ------------------------------------------------------------

    def check_not_ending(self) -> None:
        if self.stopping:
            raise self.gone()

    def gone(self) -> S0dError:
        """What is answered where its runtime has ended for good."""
        if self.removed:
            return SandboxNotFound("no such sandbox")
        if self.deleting:
            return SandboxConflict("the sandbox is being deleted")
        return Unavailable("s0d is shutting down")

    def check_wakeable(self) -> None:
        if self.record.paused and not self.record.config.auto_resume:
            raise SandboxConflict("the sandbox is paused and auto_resume is off: resume it first")

    async def begin_generation(self) -> None:
        await self.store_record(
            generation=self.record.generation + 1,
            paused=False,
            renewed_at_ns=time.time_ns(),
            lease=self.record.config.ttl,
        )
        self._expiry.renew()

    async def freeze_sessions(self) -> None:
        self.clock.stop()
        try:
            await self.execs.freeze()
            await self._each(Session.freeze)
        except BaseException:  # a runtime that runs by a clock that does not would never end
            await self.thaw_sessions()
            raise

    async def thaw_sessions(self) -> None:
        self.clock.start()
        await self.execs.thaw()
        await self._each(Session.thaw)

    async def end_sessions(self) -> None:
        await self.execs.end(for_good=False)
        await self._each(_suspend)
        await self._each(Session.wait_parted)
        self.clock.start()

    async def recover_sessions(self) -> None:
        for session in self.sessions():
            if session.revive():
                self._nursery.start_soon(session.run)

    async def _each(self, act: Callable[[Session], Awaitable[None]]) -> None:
        async with trio.open_nursery() as nursery:
            for session in self.sessions():
                nursery.start_soon(act, session)

    # -- the end -----------------------------------------------------------------------------

    async def suspend(self) -> None:
        """End every attempt: the daemon goes away.  What is wanted stays as it is."""
        await self._end_runtime()
        await self._each(_suspend)

    async def clear(self) -> None:
        """End and remove every session: the sandbox is being deleted."""
        try:
            await self.store_record(deleting=True)
        except Unavailable as error:  # on a full disk deleting is what makes room
            log.warning("%s", error.message, extra={"sandbox_id": self.id})
            self.record.deleting = True
        await self._end_runtime()
        try:
            await self._each(Session.delete)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
        await self._sessions.wait_cleared()

    async def _end_runtime(self) -> None:
        """Nothing begins any more; what is being made is there, to be ended with the rest."""
        await self.runtime.close()
        await self.execs.end()
        await self._sessions.wait_made()

    async def close(self) -> None:
        """Write every snapshot and close every journal."""
        await self.snapshots.write_stale()
        limiter = trio.CapacityLimiter(AT_ONCE)
        await self._each(partial(_close, limiter))


def _shutting_down() -> S0dError:
    return Unavailable("s0d is shutting down")


async def see_through(
    nursery: trio.Nursery,
    work: Callable[[], Awaitable[None]],
    gone: Callable[[], S0dError] = _shutting_down,
) -> None:
    """Run `work` as a task of `nursery` and wait for it; what it raises is raised here.

    Where the nursery ends before it, `gone()` is.
    """
    done = trio.Event()
    seen_through = False
    error: Exception | None = None

    async def run() -> None:
        nonlocal error, seen_through
        try:
            await work()
            seen_through = True
        except Exception as failed:
            error = failed
            log.warning("not seen through: %s", failed)  # the caller may have left
        finally:
            done.set()

    try:
        nursery.start_soon(run)
    except RuntimeError:  # it has ended
        raise gone() from None
    await done.wait()
    if not seen_through:
        raise gone() if error is None else error


async def _close(limiter: trio.CapacityLimiter, session: Session) -> None:
    try:
        await trio.to_thread.run_sync(session.journal.close, limiter=limiter)
    except (OSError, JournalError) as error:
        log.warning("journal not closed cleanly: %s", error, extra={"session_id": session.id})


async def _suspend(session: Session) -> None:
    try:
        await session.suspend()
    except StopIncomplete as error:
        log.warning("%s", error.message, extra={"session_id": session.id})
