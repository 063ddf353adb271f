"""One attempt: a nursery around one process tree.

Inside: a pump for each output, the input writer, the readiness watcher, the exit watcher.  Leaving
it, also by cancellation or by a bug, proves that the tree is dead and reaped.  It returns an
`Outcome`, a plain value; no exception of the process's making reaches policy.

Order of the end: the leader exits, or a stop is ordered; output is drained (until end of file,
1 s of silence or 5 s, whichever comes first; a stop cuts this short); what is left of the tree is
ended; what it wrote while it died is drained too; only then is the outcome given back.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import trio

from s0d.journal import JournalError
from s0d.model import event as ev
from s0d.model.event import Draft, draft
from s0d.model.session import Phase, SessionRecord
from s0d.model.signals import signal_name
from s0d.model.spec import ReadinessType, SessionSpec
from s0d.process.errors import SpawnError
from s0d.process.status import ExitStatus
from s0d.process.tree import EndReport, Usage

from .change import Change
from .launch import Host, Launch, LaunchPlan, Pump
from .readiness import OutputMatcher
from .recorder import Recorder


class StopOrder(NamedTuple):
    """End the attempt for `reason`, with at most `grace` seconds between SIGTERM and SIGKILL.

    A kill names its own first signal, and takes the place of an order in force.
    """

    reason: str
    grace: float
    signum: int | None = None


class ExitUsage(NamedTuple):
    """What an attempt has used: in all, and what was left of it when its end began."""

    whole: Usage
    left: EndReport
    peak_bytes: int | None

    def fields(self) -> dict[str, float | int | None]:
        return {
            "cpu_seconds": round(self.whole.cpu_seconds, 3),
            "max_resident_bytes": self.whole.peak_bytes or self.peak_bytes,
            "resident_bytes": self.left.resident_bytes,
            "processes": self.left.processes,
        }


@dataclass(frozen=True)
class Outcome:
    """How an attempt ended: why, and the exit status where a process had been started."""

    reason: str
    status: ExitStatus | None = None
    message: str | None = None
    usage: ExitUsage | None = None

    @property
    def failed(self) -> bool:
        """Is this an end that `on_failure` restarts?"""
        if self.status is None or self.reason == "readiness_timeout":
            return True
        return self.status.exit_code != 0

    def exited(self, then: str) -> Draft:
        status, usage = self.status, self.usage
        return draft(
            ev.ATTEMPT_EXITED,
            exit_code=None if status is None else status.exit_code,
            reason=self.reason,
            signal=None if status is None else status.signal,
            core_dumped=True if status is not None and status.core_dumped else None,
            message=self.message,
            then=then,
            **({} if usage is None else usage.fields()),
        )


class Attempt:
    """A process of the session, from before it is started until it is proved gone.

    `launched` is set when the process runs or could not be started, `ended` when its outcome has
    been recorded (both by the session's actor, which is told through `change`).  `proved` says that
    no process of it lives, which holds while it is `unborn`, before its start, and may be long
    before a full disk lets the end be recorded.
    `survivors` names processes that outlived SIGKILL by 5 s.  `told` is the last order whose first
    signal all processes have been sent.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        spec: SessionSpec,
        record: SessionRecord,
        host: Host,
        recorder: Recorder,
        change: Change,
    ) -> None:
        self.id = plan.attempt_id
        self.launch: Launch | None = None
        self.launched = False
        self.ended = False
        self.survivors: tuple[int, ...] = ()
        self.order: StopOrder | None = None
        self.told: StopOrder | None = None
        self.status: ExitStatus | None = None
        self.began = host.clock.time()
        self._plan = plan
        self._spec = spec
        self._record = record
        self._host = host
        self._recorder = recorder
        self._change = change
        self.unborn = True
        self.proved = True
        self._kill_at = math.inf  # when the order in force sends SIGKILL
        self._open_pumps = 0
        self._ready = False
        self._matcher = _matcher(spec)

    @property
    def accepts(self) -> bool:
        """Can input, signals and resizes reach the process?"""
        return self.launch is not None and self.order is None and self.status is None

    def order_stop(self, order: StopOrder) -> None:
        """End this attempt; the first order gives the reason."""
        if self.order is None:
            self._take(order)

    def order_kill(self, order: StopOrder) -> None:
        """As `order_stop`, in place of one that is in force: its reason stays, and so does its time
        where less is left of it.
        """
        if self.order is not None:
            left = max(0.0, self._kill_at - trio.current_time())
            order = order._replace(reason=self.order.reason, grace=min(order.grace, left))
        self._take(order)

    def _take(self, order: StopOrder) -> None:
        self.order = order
        self._kill_at = trio.current_time() + order.grace
        self._change.notify()

    async def run(self, watch: Callable[[], Awaitable[None]]) -> Outcome:
        """Run the process to its end; `watch` runs beside it (the session's expiry)."""
        self.unborn = self.proved = False
        try:
            launch = await self._host.launch(self._plan)
        except SpawnError as error:
            self.proved = True
            return Outcome("start_failed", message=str(error))
        try:
            self.launch = launch
            self._record_started(launch)
            self._set_launched()
            return await self._supervise(launch, watch)
        except JournalError as error:
            return Outcome("start_failed", message=f"the journal cannot be written: {error}")
        finally:
            if not self.proved:
                with trio.CancelScope(shield=True):
                    report = await launch.end(0)
                self.proved = not report.survivors
            launch.close()
            self.launch = None

    async def freeze(self) -> None:
        """Let no process of it run; one that is ending goes on to end."""
        if self.launch is not None and self.accepts:
            await self.launch.freeze()

    async def thaw(self) -> None:
        """Let its processes go on."""
        if self.launch is not None:
            await self.launch.thaw()

    def _set_launched(self) -> None:
        self.launched = True
        self._change.notify()

    def _record_started(self, launch: Launch) -> None:
        drafts = [
            draft(
                ev.ATTEMPT_STARTED,
                pid=launch.pid,
                start_time=launch.start_time,
                boot_id=self._host.boot_id,
            )
        ]
        if self._spec.readiness.type is ReadinessType.PROCESS and self.order is None:
            self._ready = True
            drafts.append(draft(ev.SESSION_READY))
        self._recorder.record(*drafts)

    async def _supervise(self, launch: Launch, watch: Callable[[], Awaitable[None]]) -> Outcome:
        async with trio.open_nursery() as nursery:
            for stream, pump in launch.outputs.items():
                self._open_pumps += 1
                nursery.start_soon(self._pump, stream, pump)
            nursery.start_soon(launch.input.run)
            nursery.start_soon(self._watch_readiness)
            nursery.start_soon(self._watch_exit, launch)
            nursery.start_soon(watch)
            await self._change.wait_for(lambda: self.status is not None or self.order is not None)
            order = self.order  # given before the end of the leader was seen: it is the reason
            await self._drain(launch)
            left = await self._end_tree(launch)
            launch.finish()
            await self._change.wait_for(lambda: not self._open_pumps and self.status is not None)
            nursery.cancel_scope.cancel()
        assert self.status is not None
        usage = await launch.usage()
        used = ExitUsage(usage, left, launch.peak_bytes)
        return Outcome(_reason(order, self.status, usage), self.status, usage=used)

    async def _end_tree(self, launch: Launch) -> EndReport:
        report = None
        while report is None:
            report = await self._end_by(self.order, launch)
        if report.survivors:
            self.survivors = tuple(report.survivors)
            self._change.notify()
            await launch.wait_empty()
            self.survivors = ()
        self.proved = True
        self._change.notify()
        return report

    async def _end_by(self, order: StopOrder | None, launch: Launch) -> EndReport | None:
        """End the tree as ordered, or by itself after the leader's end; None where a kill came."""
        grace = float(self._spec.lifecycle.stop_grace_period_seconds)
        signum = None
        if order is not None:
            grace, signum = order.grace, order.signum
            if self._record.phase is not Phase.STOPPING:
                self._record_late(draft(ev.ATTEMPT_STOPPING, reason=order.reason))
        report: EndReport | None = None
        async with trio.open_nursery() as nursery:

            async def until_killed() -> None:
                await self._change.wait_for(lambda: self._is_overruled(order))
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_killed)
            report = await launch.end(grace, signum, partial(self._note_told, order))
            nursery.cancel_scope.cancel()
        return report

    def _is_overruled(self, order: StopOrder | None) -> bool:
        return self.order is not order and self.order is not None and self.order.signum is not None

    def _note_told(self, order: StopOrder | None) -> None:
        self.told = order
        if order is not None and order.signum is not None:
            name = signal_name(order.signum)
            self._record_late(draft(ev.SIGNAL_SENT, signal=name, reason=name))
        self._change.notify()

    def _record_late(self, event: Draft) -> None:
        # Kill first, record after: where the disk is full the event is left out, and the table
        # lets `attempt.exited` follow `running` directly.
        try:
            self._recorder.record(event)
        except JournalError as error:
            self._recorder.error = str(error)

    async def _watch_exit(self, launch: Launch) -> None:
        self.status = await launch.wait()
        self._change.notify()

    # -- output ------------------------------------------------------------------------------

    async def _pump(self, stream: str, pump: Pump) -> None:
        async def emit(chunks: list[bytes]) -> None:
            await self._recorder.insist(partial(self._recorder.output, stream, chunks))
            self._look_for_readiness(stream, chunks)

        await pump.run(emit)
        self._open_pumps -= 1
        self._change.notify()

    def _look_for_readiness(self, stream: str, chunks: list[bytes]) -> None:
        if self._matcher is None or self._ready:
            return
        if any(self._matcher.feed(stream, chunk) for chunk in chunks):
            self._ready = True
            self._change.notify()

    async def _drain(self, launch: Launch) -> None:
        """Let the pumps read on after the leader's exit; a stop cuts this short."""
        async with trio.open_nursery() as nursery:

            async def until_ordered() -> None:
                await self._change.wait_for(lambda: self.order is not None)
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_ordered)
            await launch.drain()
            nursery.cancel_scope.cancel()

    # -- readiness ---------------------------------------------------------------------------

    async def _watch_readiness(self) -> None:
        readiness = self._spec.readiness
        if readiness.type is ReadinessType.PROCESS:
            return
        clock = self._host.clock
        if readiness.type is ReadinessType.DELAY:
            at = clock.time() + (readiness.delay_ms or 0) / 1000
            await clock.wait(self._change, lambda: False, at)
            self._ready = True
        else:
            at = self.began + readiness.timeout_ms / 1000
            await clock.wait(self._change, lambda: self._ready, at)
        if self._ready:
            # What a frozen tree had written before counts once it is awake.
            await self._change.wait_for(lambda: self._record.phase is not Phase.PAUSED)
            await self._recorder.insist(self._record_ready)
        else:
            grace = self._spec.lifecycle.stop_grace_period_seconds
            self.order_stop(StopOrder("readiness_timeout", grace))

    def _record_ready(self) -> int:
        if self._record.phase is not Phase.STARTING:
            return 0  # it is being stopped, or has ended
        return self._recorder.record(draft(ev.SESSION_READY))


def _matcher(spec: SessionSpec) -> OutputMatcher | None:
    if spec.readiness.type is not ReadinessType.OUTPUT:
        return None
    return OutputMatcher((spec.readiness.output or "").encode())


def _reason(order: StopOrder | None, status: ExitStatus, usage: Usage) -> str:
    if order is not None:
        return order.reason
    if status.signal == "SIGKILL" and usage.oom_kills:
        return "oom_killed"
    return "exited" if status.signal is None else "signaled"
