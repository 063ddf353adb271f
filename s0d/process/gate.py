"""Hold a new child between fork and exec until something was done to it from outside.

A cgroup must be joined and a resource limit set *before* the program's first instruction, yet
posix_spawn knows neither, and a trampoline program would touch the environment and blur errors.
So the child is made to wait by its own file actions, which know only `open` and `close`:

1. it closes its copies of our descriptors, all but the program's own three.
2. it opens the FIFO `arrive` for writing and closes it again: the gatekeeper, which polls the
   reading end, sees the hang-up.  That the child exists is thereby known without polling.
3. it opens the FIFO `leave` for reading, which blocks until there is a writer.
4. The gatekeeper learns the child's pid, does its work on it, and opens `leave`.

The pid: posix_spawn has not returned yet, so it must be found.  Until exec a child has the
kernel name (`comm`) of the thread that made it.  That thread takes a new random name for each
held spawn; the newest child of this process with that name is the one.

Should the work fail, the child is killed where it stands and never runs.  Should this process be
killed, nobody opens `leave` any more, and the child waits for ever.  Its name says whose child it
was, so that the next daemon can end it (`end_unborn`).  It holds nothing of ours meanwhile (step
1): with a copy of a listening socket or a connection it would keep clients of a dead daemon
waiting for an answer.

(glibc 2.39 has
posix_spawnattr_setcgroup_np.  It is not used: it does not set limits, so that the gate is needed
all the same, and one way that is always taken is one that is always tested.)
"""

from __future__ import annotations

import errno
import fcntl
import os
import queue
import select
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TypeVar

from s0d.process import libc, proc
from s0d.process.libc import FileActions

_NEAR = 64
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)

T = TypeVar("T")


def _insist(action: Callable[[], T]) -> T:
    """Do it, however long descriptors are short: the child can neither run nor leave meanwhile."""
    while True:
        try:
            return action()
        except OSError as error:
            if error.errno not in _EXHAUSTED:
                raise
            time.sleep(0.01)


def _raised(fd: int) -> int:
    """A duplicate beyond the numbers that a child at the gate uses; `fd` is closed."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


class Fifo:
    """A FIFO without a name: made, opened as a path, and unlinked."""

    def __init__(self) -> None:
        directory = tempfile.mkdtemp(prefix="s0d-gate-")
        path = f"{directory}/fifo"
        try:
            # A child that already runs as another user opens it too; nobody else can reach it.
            os.mkfifo(path)
            os.chmod(path, 0o666)
            self.fd = _raised(os.open(path, os.O_PATH | os.O_CLOEXEC))
        finally:
            if os.path.lexists(path):
                os.unlink(path)
            os.rmdir(directory)

    @property
    def path(self) -> str:
        """A path by which this process, and a child before exec, can open it."""
        return f"/proc/self/fd/{self.fd}"

    def open(self, flags: int) -> int:
        return os.open(self.path, flags | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.fd)


class Gate:
    """A gatekeeper thread and its two FIFOs; holds one child at a time.

    Not to be shared by threads that spawn at the same time.  The gatekeeper keeps the identity of
    the thread that made the gate, also when the spawning thread takes another user's.
    """

    def __init__(self) -> None:
        with ExitStack() as undo:
            self._arrive = Fifo()
            undo.callback(self._arrive.close)
            self._leave = Fifo()
            undo.callback(self._leave.close)
            self._stays: queue.SimpleQueue[_Stay | None] = queue.SimpleQueue()
            self._keeper = threading.Thread(target=self._keep, name="s0d-gate", daemon=True)
            self._keeper.start()
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._stays.put(None)
        self._keeper.join()
        self._undo.close()

    def _keep(self) -> None:
        libc.block_signals()
        while (stay := self._stays.get()) is not None:
            stay.attend()

    def add_to(self, actions: FileActions) -> None:
        """Make the child wait here, with 0, 1 and 2 as they are and all others closed."""
        actions.dup2(self._arrive.fd, 3)
        actions.dup2(self._leave.fd, 4)
        actions.close_from(5)
        actions.open(5, "/proc/self/fd/3", os.O_WRONLY | os.O_NONBLOCK)
        actions.close(5)
        actions.open(5, "/proc/self/fd/4", os.O_RDONLY)
        actions.close_from(3)

    def spawn(self, spawn: Callable[[], int], work: Callable[[int], None]) -> int:
        """Run `spawn`, which returns a pid, with `work(pid)` done before the child's exec.

        `work` runs in the gatekeeper's thread.  Raises what `spawn` raised, or what `work`
        raised: then the child is dead and reaped.
        """
        with ExitStack() as cleanup:
            stay = _Stay(self._arrive, self._leave, work, cleanup)
            self._stays.put(stay)
            try:
                pid = spawn()
            finally:
                stay.end()
        if stay.error is not None:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)
            raise stay.error
        return pid


class _Stay:
    """One child's stay at the gate."""

    def __init__(
        self, arrive: Fifo, leave: Fifo, work: Callable[[int], None], cleanup: ExitStack
    ) -> None:
        self._leave = leave
        self._work = work
        self._cleanup = cleanup
        self._name = f"{_name_of(os.getpid())}{os.urandom(3).hex()}"
        self._attended = threading.Event()
        self.error: BaseException | None = None
        libc.set_thread_name(self._name)
        # Opened anew for each child: a reader that has seen a writer would report its hang-up.
        self._arrived = arrive.open(os.O_RDONLY)
        cleanup.callback(os.close, self._arrived)
        self._returned = os.eventfd(0, os.EFD_CLOEXEC)
        cleanup.callback(os.close, self._returned)

    def end(self) -> None:
        """The spawn has returned: no child, or one that has left."""
        os.eventfd_write(self._returned, 1)
        self._attended.wait()

    def attend(self) -> None:
        """In the gatekeeper: wait for the child, or for the news that there will be none."""
        try:
            poll = select.poll()
            poll.register(self._arrived, 0)  # POLLHUP is always reported
            poll.register(self._returned, select.POLLIN)
            if self._arrived in dict(poll.poll()):
                self._let_through()
        finally:
            self._attended.set()

    def _let_through(self) -> None:
        try:
            pid = _insist(lambda: find_unborn(self._name))
            if pid is not None:  # else it was killed by somebody while it waited
                self._do_work(pid)
        finally:
            # For reading and writing, which never blocks, and kept open until the spawn has
            # returned: the child may not have come as far as its own open yet.
            self._cleanup.callback(os.close, _insist(lambda: self._leave.open(os.O_RDWR)))

    def _do_work(self, pid: int) -> None:
        try:
            self._work(pid)
        except ProcessLookupError:
            return
        except BaseException as error:
            self.error = error
            # Not reaped before the spawn has returned: the pid cannot be another's.
            os.kill(pid, signal.SIGKILL)


def end_unborn(parent: int) -> int:
    """Kill what the process `parent`, which is dead, left at its gate; returns how many.

    Nothing else has such a name: a program takes its own with its exec.  A child of a living
    process that was given the number of the dead one is told by its parent.
    """
    ended = 0
    for pid in proc.list_pids():
        stat = proc.read_stat(pid)
        if stat is None or not stat.alive or stat.ppid == parent:
            continue
        if not stat.name.startswith(_name_of(parent)):
            continue
        with suppress(ProcessLookupError, PermissionError):
            pidfd = os.pidfd_open(pid)
            try:
                if proc.read_stat(pid) == stat:
                    signal.pidfd_send_signal(pidfd, signal.SIGKILL)
                    ended += 1
            finally:
                os.close(pidfd)
    return ended


def _name_of(parent: int) -> str:
    """What the names of all held children of `parent` begin with; 15 bytes are a name's most."""
    return f"s0d{parent:06x}"


def find_unborn(name: str) -> int | None:
    """The child of this process that still has the thread name `name`."""
    newest = proc.last_pid()
    for pid in range(newest, max(newest - _NEAR, 1), -1):
        if _is_unborn(pid, name):
            return pid
    return next((pid for pid in proc.list_pids() if _is_unborn(pid, name)), None)


def _is_unborn(pid: int, name: str) -> bool:
    stat = proc.read_stat(pid)
    # Our own threads can be read by number too; their parent is ours, not us.
    return stat is not None and stat.name == name and stat.ppid == os.getpid()
