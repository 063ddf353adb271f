"""A session: what callers can see of it and ask of it.

Commands may be called by any task.  They return when what they promise is durable; they raise
`S0dError`s, and then nothing has happened.  What moves is the actor (see `actor`).
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from s0d.journal import Cursor, CursorAhead, CursorExpired, Journal, JournalError, Limits
from s0d.model import event as ev
from s0d.model.errors import (
    EventCursorExpired,
    InvalidRequest,
    LimitExceeded,
    SessionConflict,
    SessionNotFound,
    StopIncomplete,
    Unavailable,
)
from s0d.model.event import draft
from s0d.model.session import Phase, SessionRecord
from s0d.model.spec import DesiredState, SessionSpec
from s0d.process.tree import Usage
from s0d.wire.session import SessionView, view_session

from .actor import Actor
from .attachment import Attachment
from .attempt import Attempt, StopOrder
from .commands import Commands
from .continuity import Continuity
from .launch import Host
from .meter import OutputMeter

_ENDED: Final = frozenset({Phase.STOPPED, Phase.EXITED, Phase.FAILED, Phase.SUSPENDED})


class Session:
    """A session of a sandbox; `run` is the task that realizes it."""

    def __init__(self, record: SessionRecord, journal: Journal, host: Host) -> None:
        self.id = record.id
        self.record = record
        self.journal = journal
        self.attachments = 0
        self.watching: set[Cursor] = set()
        self._host = host
        self._actor = Actor(record, journal, host)
        self.run = self._actor.run
        self.slept = self._actor.slept
        self._continuity = Continuity(self._actor)
        self.recover = self._continuity.recover
        commands = Commands(record, journal, host, self._actor)
        self.input, self.accept_input = commands.input, commands.accept_input
        self.known_input = commands.known_input
        self.signal, self.accept_signal = commands.signal, commands.accept_signal
        self.resize, self.accept_resize = commands.resize, commands.accept_resize

    # -- what is seen ------------------------------------------------------------------------

    @property
    def phase(self) -> Phase:
        return self.record.phase

    @property
    def control_seq(self) -> int:
        """The last event that is not output: what a snapshot has to cover."""
        return self._actor.recorder.control_seq

    @property
    def meter(self) -> OutputMeter:
        """How much output it has written."""
        return self._actor.recorder.meter

    @property
    def journal_error(self) -> str | None:
        """Why the journal cannot be written at the moment."""
        return self._actor.recorder.error

    @property
    def queued_input(self) -> int:
        """Bytes of input that were accepted and not yet written to the process."""
        launch = None if self._actor.attempt is None else self._actor.attempt.launch
        return 0 if launch is None else launch.input.pending

    @property
    def lag(self) -> int:
        """How many events the slowest of those who look on is behind."""
        return max((self.journal.latest - cursor.position for cursor in self.watching), default=0)

    def view(self) -> SessionView:
        """The session as clients see it."""
        return view_session(
            self.record,
            root=self._host.root,
            generation=self._host.generation,
            earliest=self.journal.earliest,
            latest=self.journal.latest,
            attachments=self.attachments,
            journal_error=self.journal_error,
        )

    async def usage(self) -> Usage | None:
        """What the current attempt's processes use; None where none runs."""
        attempt = self._actor.attempt
        if attempt is None or attempt.launch is None:
            return None
        return await attempt.launch.usage()

    def cursor(self, after: int | None = None) -> Cursor:
        """A cursor into the journal, for reading pages: a context manager.

        `after` absent means from the earliest retained event.  Raises `EventCursorExpired` below
        retained history, `InvalidRequest` beyond the latest sequence.
        """
        if self._actor.removed:
            raise SessionNotFound("no such session")
        try:
            return self.journal.cursor(after)
        except CursorExpired as error:
            raise EventCursorExpired(error.earliest, error.latest) from None
        except CursorAhead as error:
            message = f"after: must not be beyond the latest sequence ({error.latest})"
            raise InvalidRequest(message) from None

    def attach(self, after: int | None = None) -> Attachment:
        """A cursor that counts as an attachment while it is open; `LimitExceeded`."""
        bounds, counts = self._host.bounds, self._host.counts
        if self.attachments >= bounds.attachments:
            raise LimitExceeded(f"at most {bounds.attachments} attachments a session")
        if counts.attached >= bounds.all_attachments:
            raise LimitExceeded(f"at most {bounds.all_attachments} attachments in all")
        return Attachment(self, self.cursor(after), counts)

    def detached(self) -> None:
        """An attachment has been closed."""
        self.attachments -= 1
        self._actor.change.notify()
        self._host.attendance()

    @property
    def last_activity(self) -> float:
        """When it last was active, on the runtime's clock."""
        return self._actor.recorder.last_activity

    async def wait_for(self, condition: Callable[[Session], bool]) -> None:
        """Wait until `condition(session)` holds; it is looked at after every event but output."""
        await self._actor.change.wait_for(lambda: condition(self))

    @property
    def removing(self) -> bool:
        """Is it being deleted?"""
        return self._actor.removing

    async def wait_durable(self, seq: int) -> None:
        """Wait until event `seq` is on disk; `Unavailable` where that failed or takes too long."""
        await self._actor.recorder.wait_durable(seq)

    # -- lifecycle commands ------------------------------------------------------------------

    def begin(self) -> None:
        """Start the first attempt of a session that was just created, where it shall run."""
        if self.record.desired is DesiredState.RUNNING:
            self._actor.request_start("created")

    async def wait_launched(self) -> None:
        """Wait until a requested attempt has its process, or could not be started."""
        await self._actor.wait_launched()

    async def start(self) -> None:
        """Want it running; a new attempt at once where none runs."""
        async with self._host.awake():
            await self._start()

    async def _start(self) -> None:
        await self._prepare()
        self._check_startable(self.record.spec)
        starts = self._actor.attempt is None or self._actor.ending
        self._want(DesiredState.RUNNING)
        if starts:
            self._actor.request_start("desired_state_running")
        await self._actor.wait_launched()
        await self.wait_durable(self.journal.latest)  # the attempt that is shown too

    async def create_attempt(self, *, replace_current: bool = False) -> None:
        """A new attempt; the running one is replaced where that is asked for."""
        async with self._host.awake():
            await self._create_attempt(replace_current)

    async def _create_attempt(self, replace_current: bool) -> None:
        await self._prepare()
        self._check_startable(self.record.spec)
        if self._actor.attempt is not None and not replace_current and not self._actor.ending:
            raise SessionConflict("an attempt is running: set replace_current to replace it")
        self._want(DesiredState.RUNNING)
        self._actor.request_start("attempt_created")
        self._actor.order_stop("attempt_replaced")
        await self._actor.wait_launched()
        await self.wait_durable(self.journal.latest)

    async def stop(self) -> None:
        """Want it stopped; returns when every process of it has ended.

        Raises `StopIncomplete` where a process survives SIGKILL for 5 s.
        """
        await self._prepare()
        self._actor.check_present()
        self._want(DesiredState.STOPPED)
        await self._stopped()

    async def _stopped(self) -> None:
        self._actor.cancel_start()
        attempt = self._actor.order_stop("desired_state_stopped")
        if attempt is not None:
            await self._wait_ended(attempt)
        elif self.phase is not Phase.STOPPED:
            self._actor.command(draft(ev.SESSION_STOPPED, reason="desired_state_stopped"))
        await self.wait_durable(self.journal.latest)

    async def kill(self, signum: int, grace: float) -> None:
        """End it for good: `signum` to every process, SIGKILL after `grace` seconds (0: at once).

        Desired state `stopped`, as by `stop`, but returns when the signal has been sent.  What
        rests already stays as it is.
        """
        if self.phase not in _ENDED:
            async with self._host.awake():
                await self._kill(signum, grace)

    async def _kill(self, signum: int, grace: float) -> None:
        await self._prepare()
        self._actor.check_present()
        await self._actor.wait_launched()
        self._actor.check_present()
        if self.phase in _ENDED:
            return
        self._want(DesiredState.STOPPED)
        self._actor.cancel_start()
        order = StopOrder("killed", 0.0 if signum == signal.SIGKILL else grace, signum)
        attempt = self._actor.order_kill(order)
        if attempt is not None:
            await self._wait_told(attempt)
        elif self.phase is not Phase.STOPPED:
            self._actor.command(draft(ev.SESSION_STOPPED, reason="desired_state_stopped"))
        await self.wait_durable(self.journal.latest)

    async def _wait_told(self, attempt: Attempt) -> None:
        """Wait until the order in force has been carried out as far as its first signal."""
        if attempt.order is not None and attempt.order.grace > 0:
            await self._actor.change.wait_for(
                lambda: attempt.ended or attempt.proved or attempt.told is attempt.order
            )
        else:
            await self._wait_ended(attempt)

    async def update(self, spec: SessionSpec) -> None:
        """Replace the whole specification.

        A change of what runs replaces a running attempt, and starts one where none runs; any other
        change touches no attempt.
        """
        if spec.lifecycle.desired_state is DesiredState.RUNNING:
            async with self._host.awake():
                await self._update(spec)
        else:
            await self._update(spec)

    async def _update(self, spec: SessionSpec) -> None:
        await self._prepare()
        self._actor.check_present()
        old = self.record.spec
        if spec == old:
            return await self.wait_durable(self.journal.latest)
        self._host.check(spec)
        wanted = spec.lifecycle.desired_state is DesiredState.RUNNING
        was_wanted = old.lifecycle.desired_state is DesiredState.RUNNING
        changed = not spec.runs_the_same(old, self._host.root)
        if wanted and (changed or not was_wanted):
            self._check_startable(spec)
        self._actor.command(draft(ev.SESSION_UPDATED, spec=msgspec.to_builtins(spec)))
        self._set_limits(spec)
        if not wanted:
            return await self._stopped()
        if not was_wanted:
            return await self._start()
        if changed:
            self._actor.request_start("spec_updated")
            self._actor.order_stop("spec_replaced")
            await self._actor.wait_launched()
        return await self.wait_durable(self.journal.latest)

    async def delete(self) -> None:
        """End every process of it, then remove its identity, its journal and its key.

        Attached readers receive everything through `attempt.exited` and end.  Of several callers
        at once each waits, and one removes.  It goes on where a caller leaves: there is no way
        back, and a session that is being deleted can be neither read nor used.
        """
        self._actor.removing = True
        self._actor.cancel_start()
        attempt = self._actor.order_stop("session_deleted")
        await self._host.see_through(partial(self._remove, attempt))

    async def _remove(self, attempt: Attempt | None) -> None:
        if attempt is not None:
            await self._wait_ended(attempt)
        self._actor.removed = True
        self._actor.recorder.abandon()
        self.journal.end()
        self._actor.change.notify()
        await self._host.remove(self.id)

    # -- the runtime's coming and going ------------------------------------------------------

    async def suspend(self) -> None:
        """The runtime goes away: end the attempt, leave what is wanted as it is."""
        self._actor.suspending = True
        self._actor.cancel_start()
        attempt = self._actor.order_stop("runtime_replaced")
        if attempt is not None:
            await self._wait_ended(attempt)

    async def wait_parted(self) -> None:
        """After `suspend`: until the session's task has ended.  One without an attempt that was
        about to start is `suspended` too."""
        await self._continuity.wait_parted()
        self._continuity.note_suspension()

    def revive(self) -> bool:
        """A new runtime is there: the session's recovery applies; whether to start `run` for it."""
        return self._continuity.revive()

    def lose_runtime(self) -> None:
        """Opened in a paused sandbox: there is no runtime to recover in yet."""
        self._continuity.lose_runtime()

    async def freeze(self) -> None:
        """The sandbox is frozen (its clock stands still already): so is the attempt."""
        await self._continuity.freeze()

    async def thaw(self) -> None:
        """The sandbox goes on (so does its clock)."""
        await self._continuity.thaw()

    # -- pieces ------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        try:
            await self._actor.recorder.prepare()
        except JournalError as error:
            raise Unavailable(f"the journal cannot be written: {error}") from None

    def _want(self, state: DesiredState) -> None:
        if self.record.desired is not state:
            self._actor.command(draft(ev.SESSION_DESIRED_STATE, reason=str(state)))

    def _check_startable(self, spec: SessionSpec) -> None:
        self._actor.check_present()
        if self._actor.suspending:
            raise Unavailable("the runtime is shutting down")
        if self._actor.outlived(spec.lifecycle.max_lifetime_seconds):
            raise SessionConflict("max_lifetime_seconds is over: the session cannot be started")

    async def _wait_ended(self, attempt: Attempt) -> None:
        """Wait until the attempt's end is recorded; on a full disk, until it is proved."""
        recorder = self._actor.recorder

        def ended() -> bool:
            return attempt.ended or (attempt.proved and recorder.error is not None)

        await self._actor.change.wait_for(lambda: ended() or bool(attempt.survivors))
        if not ended():
            pids = ", ".join(map(str, attempt.survivors))
            raise StopIncomplete(f"processes survived SIGKILL: {pids}")

    def _set_limits(self, spec: SessionSpec) -> None:
        retention = spec.event_retention
        self.journal.set_limits(Limits(retention.max_bytes, retention.max_age_seconds))
        self._host.aging(self.journal, retention.max_age_seconds)
