"""Reap what the standalone daemon adopts."""

from __future__ import annotations

import os
import signal

import trio

from s0d.process import libc, proc
from s0d.process.children import ChildRegistry

_WNOTHREAD = 0x20000000  # only children of the calling thread (waitpid(2), Linux)


class Reaper:
    """Takes the status of orphans that were handed to this process, and of nothing else.

    For a daemon that has the process for itself: every child of the *main thread* that is not in
    the registry is taken for an orphan.  The kernel hands orphans to the main thread, while the
    attempts' leaders are the spawner thread's children, so that in a sweep the two do not meet.
    Embedded in another program there must be no reaper: children there may be the program's own.
    """

    def __init__(self, registry: ChildRegistry) -> None:
        self._registry = registry
        self.reaped = 0

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Become the subreaper and reap at each SIGCHLD until cancelled, then be none again.

        In the main thread only.
        """
        libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 1)
        try:
            with trio.open_signal_receiver(signal.SIGCHLD) as arrivals:
                task_status.started()
                self.sweep()
                async for _ in arrivals:
                    self.sweep()
        finally:
            libc.prctl(libc.PR_SET_CHILD_SUBREAPER, 0)

    def sweep(self) -> None:
        """Reap every orphan that has ended."""
        options = os.WEXITED | os.WNOHANG | os.WNOWAIT | _WNOTHREAD
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, options)
            except ChildProcessError:
                return
            if ended is None:
                return
            if ended.si_pid in self._registry:
                # A leader whose thread has ended (another user's, `identity`) is ours by now and
                # hides what is behind it.
                self._sweep_behind()
                return
            self._reap(ended.si_pid)

    def _sweep_behind(self) -> None:
        for pid in proc.list_pids():
            stat = proc.read_stat(pid)
            if stat is None or stat.ppid != os.getpid() or stat.alive:
                continue
            if pid not in self._registry:
                self._reap(pid)

    def _reap(self, pid: int) -> None:
        options = os.WEXITED | os.WNOHANG | _WNOTHREAD
        try:
            if os.waitid(os.P_PID, pid, options) is not None:
                self.reaped += 1
        except ChildProcessError:
            return  # a child of another thread: an attempt that is not registered yet
