"""What the coming and going of runtimes does to a session (see `runtime`).

A runtime goes with its processes, and the next one applies the session's recovery policy; or it
stands still, and goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from s0d.journal import JournalError
from s0d.model import event as ev
from s0d.model.event import Draft, draft
from s0d.model.lifecycle import FREEZABLE
from s0d.model.session import ACTIVE, Phase
from s0d.model.spec import DesiredState, RecoveryPolicy

if TYPE_CHECKING:
    from .actor import Actor

_PATIENCE: Final = 5.0  # seconds for a disk, before the runtime goes away without it


class Continuity:
    """That of one session, whose actor this is."""

    def __init__(self, actor: Actor) -> None:
        self._actor = actor

    def recover(self) -> None:
        """Apply the recovery policy: this runtime has replaced the one the session was in.

        Called before `run`, for a session that was active; what was left of its attempt has been
        ended by then.  Where the journal cannot be written yet, `run` goes on trying.
        """
        try:
            record_recovery(self._actor)
        except JournalError as error:
            self._actor.recorder.error = str(error)
            self._actor.recovering = True

    def note_suspension(self) -> None:
        """Record that the runtime is gone, where no attempt's end has told so."""
        if self._actor.record.phase in (Phase.PENDING, Phase.BACKOFF, Phase.PAUSED):
            self._tell(draft(ev.SESSION_PAUSED, reason="runtime_replaced", then="suspend"))

    def revive(self) -> bool:
        """A new runtime is there; False where the task of the former one goes on in it: when its
        attempt has ended, a new one follows."""
        self._actor.suspending = False
        if not self._actor.realizing:
            if self._actor.record.phase in ACTIVE:
                self.recover()
            return True
        lifecycle = self._actor.record.spec.lifecycle
        wanted = self._actor.record.desired is DesiredState.RUNNING
        if wanted and lifecycle.runtime_recovery is RecoveryPolicy.RESTART:
            self._actor.request_start("runtime_recovered")
        return False

    def lose_runtime(self) -> None:
        """Its runtime ended with a former daemon, and there is no new one yet."""
        self._actor.suspending = True
        if self._actor.record.unfinished is not None:
            self._tell(draft(ev.ATTEMPT_EXITED, reason="runtime_replaced", then="suspend"))
        self.note_suspension()

    async def freeze(self) -> None:
        """Let the attempt's processes stand still; one that is being started runs first.

        What has not begun to start waits for the clock, which stands still already: nothing that is
        waited for here may wait for it.
        """
        self._actor.change.notify()
        await self._actor.wait_launched()
        if self._actor.attempt is not None:
            await self._actor.attempt.freeze()
        if self._actor.record.phase in FREEZABLE:
            self._tell(draft(ev.SESSION_PAUSED, reason="frozen", then="freeze"))

    async def thaw(self) -> None:
        """Let them go on, in the phase that the session had."""
        try:
            record_resumption(self._actor)
        except JournalError as error:  # told before the next attempt, if not by what follows
            self._actor.recorder.error = str(error)
        if self._actor.attempt is not None:
            await self._actor.attempt.thaw()
        self._actor.change.notify()

    async def wait_parted(self) -> None:
        """Wait until `run` has returned.

        Where the disk does not take what it has to tell, it is not waited for any longer; what
        follows from it is then for the next runtime to find.  Nor where a process survives SIGKILL:
        then it goes on, since an end that is not proved is not told (see `revive`).
        """

        def parted() -> bool:
            return not self._actor.realizing

        def survived() -> bool:
            return self._actor.attempt is not None and bool(self._actor.attempt.survivors)

        def held_up() -> bool:
            return self._actor.recorder.error is not None or survived()

        await self._actor.change.wait_for(lambda: parted() or held_up())
        if survived():
            return
        with trio.move_on_after(_PATIENCE):
            await self._actor.change.wait_for(parted)
        if not parted():
            self._actor.scope.cancel()
            await self._actor.change.wait_for(parted)
            self.lose_runtime()
        self._actor.scope = trio.CancelScope()

    def _tell(self, told: Draft) -> None:
        """Record what has come over the session; where the disk is full it is left out, and the
        table lets the next event follow."""
        try:
            self._actor.recorder.record(told)
        except JournalError as error:
            self._actor.recorder.error = str(error)


def record_resumption(actor: Actor) -> int:
    """Give a frozen session back the phase that it had, once its sandbox goes on."""
    record = actor.record
    phase = record.resumes_as
    if record.phase is not Phase.PAUSED or phase is None or actor.frozen:
        return record.seq
    delay = actor.backoff_ms if phase is Phase.BACKOFF else None
    return actor.recorder.record(draft(ev.SESSION_RESUMED, phase=str(phase), delay_ms=delay))


def record_recovery(actor: Actor) -> int:
    """What the recovery policy makes of a session whose runtime was replaced."""
    drafts: list[Draft] = []
    if actor.record.unfinished is not None:
        drafts.append(draft(ev.ATTEMPT_EXITED, reason="runtime_replaced", then="suspend"))
    restarts = False
    if actor.record.desired is DesiredState.STOPPED:
        drafts.append(draft(ev.SESSION_STOPPED, reason="desired_state_stopped"))
    elif actor.record.spec.lifecycle.runtime_recovery is RecoveryPolicy.STOP:
        drafts.append(draft(ev.SESSION_DESIRED_STATE, reason="stopped"))
        drafts.append(draft(ev.SESSION_STOPPED, reason="runtime_recovery_policy"))
    else:
        restarts = True
    seq = actor.recorder.record(*drafts) if drafts else actor.record.seq
    if restarts:
        actor.request_start("runtime_recovered")
    return seq
