"""The thread that starts every process.

A thread of our own, and not one of Trio's workers, for three reasons: it has its own umask
(`unshare(CLONE_FS)`), so that children get 022 while the daemon keeps 077; it lives as long as
the spawner, so that the children's parent thread does not change; and while posix_spawn waits
for a slow exec, no worker is missing elsewhere.
"""

from __future__ import annotations

import enum
import os
import queue
import threading
from types import TracebackType
from typing import Self

import trio

from s0d.process import libc
from s0d.process.children import ChildRegistry
from s0d.process.errors import SpawnError, SpawnErrorKind, system_error
from s0d.process.gate import Gate
from s0d.process.identity import run_as
from s0d.process.launch import Launched, launch, needs_gate
from s0d.process.process import Process, discard
from s0d.process.request import SpawnRequest


class _State(enum.Enum):
    QUEUED = enum.auto()
    STARTED = enum.auto()
    WITHDRAWN = enum.auto()


class _Job:
    """One request on its way to the thread and back."""

    def __init__(self, request: SpawnRequest, token: trio.lowlevel.TrioToken) -> None:
        self.request = request
        self.launched: Launched | None = None
        self.error: BaseException | None = None
        self._token = token
        self._task = trio.lowlevel.current_task()
        self._state = _State.QUEUED
        self._lock = threading.Lock()

    def start(self) -> bool:
        """In the thread: False when nobody wants it any more."""
        return self._leave_queue(_State.STARTED)

    def withdraw(self) -> bool:
        """In the waiting task: False when it is too late to."""
        return self._leave_queue(_State.WITHDRAWN)

    def _leave_queue(self, state: _State) -> bool:
        with self._lock:
            if self._state is not _State.QUEUED:
                return False
            self._state = state
            return True

    def finish(self, registry: ChildRegistry) -> None:
        """In the thread: wake the task, which is there until it is woken."""
        try:
            self._token.run_sync_soon(trio.lowlevel.reschedule, self._task)
        except trio.RunFinishedError:
            if self.launched is not None:
                discard(self.launched, registry)


class Spawner:
    """Starts processes, one after the other, outside the event loop.

    `async with Spawner() as spawner`; leaving joins the thread.  Processes live on: they belong
    to whoever asked for them.
    """

    def __init__(self, registry: ChildRegistry | None = None) -> None:
        self.registry = registry if registry is not None else ChildRegistry()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._ended = trio.Event()

    async def __aenter__(self) -> Self:
        token = trio.lowlevel.current_trio_token()
        worker = _Worker(self._jobs, self.registry)
        self._thread = threading.Thread(
            target=worker.run, args=(token, self._ended), name="s0d-spawner", daemon=True
        )
        self._thread.start()
        await trio.lowlevel.checkpoint()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        thread, self._thread = self._thread, None
        assert thread is not None
        self._jobs.put(None)
        with trio.CancelScope(shield=True):
            await self._ended.wait()
        thread.join()

    async def spawn(self, request: SpawnRequest) -> Process:
        """Start a program; raises SpawnError when it cannot be started.

        Cancelled while the request waits its turn, nothing was started.  Once it is being
        started cancellation waits for the outcome, which is then returned: a process is never
        without an owner.
        """
        if self._thread is None:
            raise RuntimeError("the spawner is not running")
        await trio.lowlevel.checkpoint_if_cancelled()
        job = _Job(request, trio.lowlevel.current_trio_token())
        self._jobs.put(job)

        def abort(_: object) -> trio.lowlevel.Abort:
            withdrawn = job.withdraw()
            return trio.lowlevel.Abort.SUCCEEDED if withdrawn else trio.lowlevel.Abort.FAILED

        await trio.lowlevel.wait_task_rescheduled(abort)
        if job.error is not None:
            raise job.error
        assert job.launched is not None
        return Process(job.launched, self.registry)


class _Worker:
    """What runs in the thread."""

    def __init__(self, jobs: queue.SimpleQueue[_Job | None], registry: ChildRegistry) -> None:
        self._jobs = jobs
        self._registry = registry
        self._gate: Gate | None = None
        self._own_umask = False

    def run(self, token: trio.lowlevel.TrioToken, ended: trio.Event) -> None:
        libc.block_signals()
        self._own_umask = take_own_umask()
        try:
            while (job := self._jobs.get()) is not None:
                if job.start():
                    self._do(job)
                    job.finish(self._registry)
        finally:
            if self._gate is not None:
                self._gate.close()
            try:
                token.run_sync_soon(ended.set)
            except trio.RunFinishedError:
                return

    def _do(self, job: _Job) -> None:
        try:
            job.launched = self._launch(job.request)
        except SpawnError as error:
            job.error = error
        except OSError as error:
            job.error = system_error(SpawnErrorKind.SYSTEM, "", error.errno or 0, "spawn")
        except Exception as error:
            # A bug of ours belongs to the task that asked, not to this thread.
            job.error = error

    def _launch(self, request: SpawnRequest) -> Launched:
        gate = self._open_gate() if needs_gate(request) else None
        before = os.umask(request.umask)
        try:
            if request.run_as is None:
                return launch(request, self._registry, gate)
            return run_as(request.run_as, lambda: launch(request, self._registry, gate))
        finally:
            if not self._own_umask:
                os.umask(before)

    def _open_gate(self) -> Gate:
        if self._gate is None:
            self._gate = Gate()
        return self._gate


def take_own_umask() -> bool:
    """Give this thread an umask of its own; False where a seccomp filter refuses.

    Then the whole process has the child's umask for the moment of each spawn.
    """
    try:
        libc.unshare_fs()
    except PermissionError:
        return False
    return True
