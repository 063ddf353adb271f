"""The session actor: one task that realizes what is wanted, one attempt at a time.

Commands (see `session`) change what is wanted and wake the actor; the actor waits, runs an attempt,
takes its outcome, decides, and waits again.  Between two awaits everything is one stretch of code,
so there is no lock: a command that finds an attempt running finds it running.

=================  ==========================================================================
what is wanted     where it stands
=================  ==========================================================================
desired state      `record.desired`, durable
a start            `start_reason`: why the next attempt starts, until the actor takes it
an end             the attempt's stop order
a removal          `removing`
a new runtime      `suspending`: the daemon stops, the sandbox pauses
=================  ==========================================================================
"""

from __future__ import annotations

import logging
import math
import time
from functools import partial

import trio

from s0d.journal import Journal, JournalError
from s0d.model import event as ev
from s0d.model.errors import SessionConflict, SessionNotFound, Unavailable
from s0d.model.event import Draft, draft
from s0d.model.ids import new_attempt_id
from s0d.model.restart import GiveUp, RestartIn, RestartWindow
from s0d.model.session import Phase, SessionRecord
from s0d.model.signals import parse_signal
from s0d.model.spec import DesiredState, LimitsSpec
from s0d.process.pty import TerminalSize

from .attempt import Attempt, Outcome, StopOrder
from .change import Change
from .continuity import record_recovery, record_resumption
from .launch import Host, LaunchPlan
from .recorder import Recorder

log = logging.getLogger("s0d.session")

_AFTER_BUG = 1.0  # seconds: a bug that comes at once again must not fill the log
_AT_REST = frozenset({Phase.STOPPED, Phase.EXITED, Phase.FAILED})


class Actor:
    """The moving part of a session; `run` is its task."""

    def __init__(self, record: SessionRecord, journal: Journal, host: Host) -> None:
        self.record = record
        self.attempt: Attempt | None = None
        self.start_reason: str | None = None
        self.removing = False
        self.removed = False
        self.suspending = False
        self.recovering = False
        self.change = Change()
        self.recorder = Recorder(
            record,
            journal,
            generation=lambda: host.generation,
            on_control=self._on_control,
            on_segment=lambda: host.storage_grew(),
            clock=host.clock,
            counts=host.counts,
        )
        self._host = host
        self._clock = host.clock
        self.realizing = False
        self.scope = trio.CancelScope()
        self._window = RestartWindow()
        self._retry_at = math.inf
        self._stop_reason = "desired_state_stopped"  # or that it expired, until the next start
        # Lifetimes count on Trio's clock; what passed before this start of the daemon, on the
        # wall clock, is never negative however that was set.
        age = max(0, time.time_ns() - record.created_at_ns) / 1e9
        self._born = host.sleep.time() - age

    # -- what commands use -------------------------------------------------------------------

    @property
    def frozen(self) -> bool:
        """Does its runtime stand still?"""
        return self._clock.stopped

    @property
    def ending(self) -> bool:
        """Is the current attempt about to end with nothing asked for after it?"""
        attempt = self.attempt
        if attempt is None or self.start_reason is not None:
            return False
        return attempt.order is not None or attempt.status is not None

    def check_present(self) -> None:
        """Raise what a command on it is refused with, where it is going away or coming back."""
        if self.removed:
            raise SessionNotFound("no such session")
        if self.removing:
            raise SessionConflict("the session is being deleted")
        if self.recovering:
            raise Unavailable("the session is being recovered")

    def command(self, *drafts: Draft) -> int:
        """Record what a client asked for; `Unavailable` where the journal refuses it."""
        try:
            return self.recorder.record(*drafts)
        except JournalError as error:
            self.recorder.error = str(error)
            raise Unavailable(f"the journal cannot be written: {error}") from None

    def request_start(self, reason: str, *, manual: bool = True) -> None:
        """Start an attempt as soon as none runs; a manual start begins a fresh restart window."""
        self._stop_reason = "desired_state_stopped"
        if manual:
            self._window.clear()
        self.start_reason = reason
        self._retry_at = math.inf
        self.change.notify()

    def cancel_start(self) -> None:
        """Neither a requested start nor a scheduled restart is wanted any more."""
        self.start_reason = None
        self._retry_at = math.inf
        self.change.notify()

    def order_stop(self, reason: str) -> Attempt | None:
        """End the current attempt, if there is one, within the session's grace period."""
        if self.attempt is not None:
            grace = float(self.record.spec.lifecycle.stop_grace_period_seconds)
            self.attempt.order_stop(StopOrder(reason, grace))
        return self.attempt

    def order_kill(self, order: StopOrder) -> Attempt | None:
        """End the current attempt, if there is one, no later than a stop under way would."""
        if self.attempt is not None:
            self.attempt.order_kill(order)
        return self.attempt

    async def wait_launched(self) -> None:
        """Wait until a requested attempt has its process, or could not be started."""
        await self.change.wait_for(self._launched)

    def _launched(self) -> bool:
        attempt = self.attempt
        if self.suspending or self.removed or self._start_stalls:
            return True
        if self._clock.stopped:  # what has not begun waits for the clock: see `_wait`, `_outcome`
            return attempt is None or attempt.unborn or attempt.launched
        return self.start_reason is None and (attempt is None or attempt.launched)

    @property
    def _start_stalls(self) -> bool:
        """Is there an attempt that a full disk keeps from being started?"""
        attempt = self.attempt
        return attempt is not None and attempt.unborn and self.recorder.error is not None

    @property
    def backoff_ms(self) -> int:
        """What is left of the backoff; 0 where a start has come before its end, or it is over."""
        left = self._retry_at - self._clock.time()
        return max(0, round(left * 1000)) if math.isfinite(left) else 0

    @property
    def lifetime_over(self) -> bool:
        seconds = self.record.spec.lifecycle.max_lifetime_seconds
        return self.outlived(seconds)

    def outlived(self, seconds: int) -> bool:
        """Is the session older than a lifetime of `seconds` (0: no limit)?"""
        return seconds > 0 and trio.current_time() >= self._born + seconds

    def slept(self, seconds: float) -> None:
        """The machine has slept so long: the lifetime has gone on."""
        self._born -= seconds
        self.change.notify()

    # -- the task ----------------------------------------------------------------------------

    async def run(self) -> None:
        """Returns when the session is removed or its runtime goes away."""
        self.realizing = True
        try:
            with self.scope:
                while not (self.removed or self.suspending):
                    await self._step_safely()
        finally:
            self.realizing = False
            self.change.notify()

    async def _step_safely(self) -> None:
        try:
            await self._step()
        except Exception:
            # One broken session never takes down the others: it says so and stays.
            log.exception("internal error", extra={"session_id": self.record.id})
            self._fail_internally()
            await trio.sleep(_AFTER_BUG)

    async def _step(self) -> None:
        if self.recovering:
            await self.recorder.insist(partial(record_recovery, self))
            self.recovering = False
        elif self.start_reason is None or self._clock.stopped:
            await self._wait()
        elif self.lifetime_over:
            await self._expire("max_lifetime")
        else:
            await self._run_attempt(self.start_reason)

    async def _wait(self) -> None:
        """Wait for a command, the end of the backoff, or the end of the lifetime.

        A start that was asked for (behind an attempt that is ending, by a client that has left)
        waits as long as the sandbox is frozen.
        """
        spec, born = self.record.spec, self._born

        def called() -> bool:
            starts = self.start_reason is not None and not self._clock.stopped
            return self.removed or self.suspending or starts

        await self._clock.wait(
            self.change,
            lambda: called() or self.record.spec is not spec or self._born != born,
            self._retry_at,
            until=self._lifetime_deadline(),
        )
        if called():
            return
        if self.lifetime_over and self.record.desired is DesiredState.RUNNING:
            await self._expire("max_lifetime")
        elif self._clock.reached(self._retry_at):
            self.request_start("restart_policy", manual=False)

    async def _run_attempt(self, reason: str) -> None:
        self.start_reason, self._retry_at = None, math.inf
        self.attempt = attempt = self._new_attempt()
        try:
            await self.recorder.insist(partial(self._record_starting, attempt, reason))
            if self.removed:
                return
            outcome = await self._outcome(attempt)
            await self.recorder.insist(partial(self._settle, outcome))
        finally:
            self.attempt = None
            attempt.launched = attempt.ended = True
            self.change.notify()

    async def _outcome(self, attempt: Attempt) -> Outcome:
        """Run it; for a full disk may have held up its start, not in a frozen sandbox, and not
        where it was ordered to end meanwhile."""
        while True:
            await self._clock.wait(
                self.change, lambda: attempt.order is not None or not self._clock.stopped
            )
            if attempt.order is not None:
                return Outcome(attempt.order.reason)
            if self.record.phase is not Phase.PAUSED:
                return await attempt.run(self._watch_expiry)
            await self.recorder.insist(partial(record_resumption, self))

    def _new_attempt(self) -> Attempt:
        spec = self.record.spec
        terminal = spec.io.terminal or None
        plan = LaunchPlan(
            session_id=self.record.id,
            attempt_id=new_attempt_id(),
            argv=spec.command,
            env=spec.env,
            cwd=spec.cwd or self._host.root,
            terminal=TerminalSize(terminal.rows, terminal.cols) if terminal else None,
            term=terminal.term if terminal else "",
            stop_signal=parse_signal(spec.stop_signal or "TERM"),
            limits=spec.limits or LimitsSpec(),
        )
        return Attempt(plan, spec, self.record, self._host, self.recorder, self.change)

    def _record_starting(self, attempt: Attempt, reason: str) -> int:
        number = self.record.attempts + 1
        terminal = self.record.spec.io.terminal
        starting = draft(
            ev.ATTEMPT_STARTING,
            reason=reason,
            number=number,
            rows=terminal.rows if terminal else None,
            cols=terminal.cols if terminal else None,
        )
        return self.recorder.record(starting, attempt=attempt.id)

    # -- the decision ------------------------------------------------------------------------

    def _settle(self, outcome: Outcome) -> int:
        """Record the end of the attempt together with what follows from it."""
        then, follows = self._follow(outcome)
        seq = self.recorder.record(outcome.exited(then), *follows)
        if then == "restart":
            now = self._clock.time()
            self._window.count(self.record.spec.lifecycle.restart, now)
            self._retry_at = now + follows[0].fields["delay_ms"] / 1000
        return seq

    def _follow(self, outcome: Outcome) -> tuple[str, list[Draft]]:
        """What the session does next, as `then` (see `s0d.model.lifecycle`) and its event."""
        if self.removing:
            return "delete", []
        if self.record.desired is DesiredState.STOPPED:
            return "stop", [draft(ev.SESSION_STOPPED, reason=self._stop_reason)]
        if self.suspending:
            return "suspend", []
        if self.start_reason is not None:
            return "replace", []
        return self._by_policy(outcome)

    def _by_policy(self, outcome: Outcome) -> tuple[str, list[Draft]]:
        restart = self.record.spec.lifecycle.restart
        decision = self._window.decide(restart, failed=outcome.failed, now=self._clock.time())
        if isinstance(decision, RestartIn):
            delay = decision.delay_ms
            return "restart", [draft(ev.SESSION_BACKOFF, reason=_duration(delay), delay_ms=delay)]
        if isinstance(decision, GiveUp):
            return "fail", [draft(ev.SESSION_FAILED, reason="restart_limit_exceeded")]
        if outcome.reason in ("start_failed", "readiness_timeout"):
            reason, message = outcome.reason, outcome.message
            return "fail", [draft(ev.SESSION_FAILED, reason=reason, message=message)]
        return "end", []

    def _fail_internally(self) -> None:
        drafts: list[Draft] = []
        if self.record.unfinished is not None:
            drafts.append(draft(ev.ATTEMPT_EXITED, reason="internal_error", then="fail"))
        if drafts or self.record.phase not in _AT_REST:
            drafts.append(draft(ev.SESSION_FAILED, reason="internal_error"))
        try:
            if drafts:
                self.recorder.record(*drafts)
        except Exception:
            log.exception("cannot record the failure", extra={"session_id": self.record.id})

    # -- expiry ------------------------------------------------------------------------------

    async def _watch_expiry(self) -> None:
        """Beside an attempt: wait for the end of idle time or lifetime, whichever comes first."""
        began = self._clock.time()
        while True:
            spec, born = self.record.spec, self._born
            idle = spec.lifecycle.idle_timeout_seconds
            quiet_since = max(began, self.recorder.last_activity)
            idle_at = quiet_since + idle if idle else math.inf
            if self.lifetime_over:
                return await self._expire("max_lifetime")
            if self._clock.reached(idle_at):
                return await self._expire("idle_timeout")
            await self._clock.wait(
                self.change,
                lambda spec=spec, born=born: (  # type: ignore[misc]
                    self.record.spec is not spec or self._born != born
                ),
                idle_at,
                until=self._lifetime_deadline(),
            )

    async def _expire(self, reason: str) -> None:
        await self.recorder.insist(partial(self._record_expired, reason))
        self._stop_reason = "session_expired"
        self.cancel_start()
        self.order_stop("session_expired")

    def _record_expired(self, reason: str) -> int:
        drafts = [draft(ev.SESSION_EXPIRED, reason=reason)]
        if self.attempt is None and self.record.phase is not Phase.STOPPED:
            drafts.append(draft(ev.SESSION_STOPPED, reason="session_expired"))
        return self.recorder.record(*drafts)

    def _lifetime_deadline(self) -> float:
        seconds = self.record.spec.lifecycle.max_lifetime_seconds
        if not seconds or self.record.desired is DesiredState.STOPPED:
            return math.inf
        return self._born + seconds

    def _on_control(self) -> None:
        self._host.touched(self.record.id)
        self.change.notify()


def _duration(ms: int) -> str:
    """A delay as text: `250ms`, `1s`, `1.5s`."""
    return f"{ms}ms" if ms < 1000 else f"{ms / 1000:g}s"
