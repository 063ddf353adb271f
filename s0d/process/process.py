"""A process that was started, until it has been reaped."""

from __future__ import annotations

import os
import resource
import signal as signals

import trio

from s0d.process import libc, pty
from s0d.process.children import ChildRegistry
from s0d.process.launch import Launched
from s0d.process.pty import TerminalSize
from s0d.process.status import LOST, ExitStatus

_TRACED_PAUSE = 0.01  # seconds


class Process:
    """The leader of an attempt: its status, its descriptors, its process group.

    The status is looked at, not taken (waitid(2), WNOWAIT): the process stays a zombie until
    `close`, so that its pid, which is also the number of its process group and session, is
    nobody else's while the rest of the tree is being ended.  So: `wait`, end the tree, `close`.
    """

    def __init__(self, launched: Launched, registry: ChildRegistry) -> None:
        self.pid = launched.pid
        self.start_time = launched.start_time
        self.pidfd = launched.pidfd
        self.terminal = launched.slave is not None
        self.status: ExitStatus | None = None
        self.peak_bytes: int | None = None
        """The most that it, or one that it waited for, had resident; None: not known."""
        self._stdin: int | None = launched.stdin
        self._stdout = launched.stdout
        self._stderr = launched.stderr
        self._slave = launched.slave
        self._registry = registry
        self._waiting = trio.Lock()
        self._closed = False

    @property
    def stdin_fd(self) -> int | None:
        """Pipes: the writing end of standard input, None once closed.  PTY: None."""
        return None if self.terminal else self._stdin

    @property
    def stdout_fd(self) -> int | None:
        return self._stdout

    @property
    def stderr_fd(self) -> int | None:
        return self._stderr

    @property
    def master_fd(self) -> int | None:
        """PTY: the master.  Pipes: None."""
        return self._stdin if self.terminal else None

    async def wait(self) -> ExitStatus:
        """Wait until the process has ended.  Any number of tasks may wait.

        From then on a terminal that no process holds reports its end; before, it never does, so
        that a program may close and reopen it.
        """
        async with self._waiting:
            while self.status is None:
                await trio.lowlevel.wait_readable(self.pidfd)
                self._note_exit()
                if self.status is None:
                    # Dead, but its status is a debugger's until that lets go (ptrace(2)).
                    await trio.sleep(_TRACED_PAUSE)
            return self.status

    def _note_exit(self) -> None:
        try:
            found = os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        except ChildProcessError:
            self.status = LOST
        else:
            if found is None:
                return
            self.status = ExitStatus.from_waitid(found.si_code, found.si_status)
            self.peak_bytes = self._peak()
        self._close_slave()

    def _peak(self) -> int | None:
        """What is below our own peak says nothing: until its exec the child shared our memory."""
        try:
            peak = libc.peak_resident(self.pidfd)
        except OSError:  # a figure that is nice to have fails no wait
            return None
        own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        return peak if peak is not None and peak > own else None

    def signal(self, signum: int) -> None:
        """Send a signal to the process group; INT, QUIT, TSTP to a terminal's foreground group.

        Raises ProcessLookupError when the leader has ended, PermissionError.
        """
        if self._closed or self._has_ended():
            raise ProcessLookupError("the process has ended")
        master = self.master_fd
        if master is None or not pty.signal_foreground(master, signum):
            os.killpg(self.pid, signum)

    def _has_ended(self) -> bool:
        if self.status is None:
            self._note_exit()
        return self.status is not None

    def resize(self, size: TerminalSize) -> None:
        """Set the terminal's size.  Raises ValueError for pipes and after `close`."""
        if self.master_fd is None:
            raise ValueError("the process has no terminal")
        pty.set_size(self.master_fd, size)

    def close_stdin(self) -> None:
        """Close the writing end of standard input (pipes): the program reads end of file."""
        if not self.terminal and self._stdin is not None:
            fd, self._stdin = self._stdin, None
            _close(fd)

    def close(self) -> None:
        """Close every descriptor and reap; tasks that wait on a descriptor get ClosedResourceError.

        A process that still runs is not ended by this: its status is then left to the reaper.
        """
        if self._closed:
            return
        self._closed = True
        ended = self._has_ended()
        for fd in (self._stdin, self._stdout, self._stderr, self.pidfd):
            if fd is not None:
                _close(fd)
        self._stdin = self._stdout = self._stderr = None
        self._close_slave()
        if ended and self.status is not LOST:
            os.waitpid(self.pid, os.WNOHANG)
        self._registry.discard(self.pid)

    def _close_slave(self) -> None:
        if self._slave is not None:
            os.close(self._slave)
            self._slave = None


def _close(fd: int) -> None:
    trio.lowlevel.notify_closing(fd)
    os.close(fd)


def discard(launched: Launched, registry: ChildRegistry) -> None:
    """End and reap a process that nobody came for."""
    os.killpg(launched.pid, signals.SIGKILL)
    os.waitpid(launched.pid, 0)
    for fd in (launched.stdin, launched.stdout, launched.stderr, launched.slave, launched.pidfd):
        if fd is not None:
            os.close(fd)
    registry.discard(launched.pid)
