"""Hold a new child between fork and exec until something was done to it from outside.

A cgroup must be joined and a resource limit set *before* the program's first instruction, yet
posix_spawn knows neither, and a trampoline program would touch the environment and blur errors.
So the child is made to wait by its own file actions, which know only `open` and `close`:

1. it closes its copies of our descriptors, all but the program's own three.
2. it opens the FIFO `arrive` for writing and closes it again: the gatekeeper, which polls the
   reading end, sees the hang-up.  That the child exists is thereby known without polling.
3. it opens the FIFO `leave` for reading, which blocks until there is a writer.
4. The gatekeeper learns the child's pid, does its work on it, and opens `leave`.
5. the child opens `arrive` for writing once more, which fails where the gatekeeper has closed the
   reading end: it refuses the child.

The pid: posix_spawn has not returned yet, so it must be found.  Until exec a child has the
kernel name (`comm`) of the thread that made it.  That thread takes a new random name for each
held spawn; the newest child of this process with that name is the one.

Any other thread, an embedding program's too, may fork at any moment, and its child has a copy of
every descriptor that is open then: until its exec, or for good where it calls none.  Only one of
them matters, the writer of `leave`: with a copy of it in the world, the next child would not be
held.  So before each child `leave` is asked whether it has a writer, and if so given up for a new
one (`latch`).  Without a writer there is none to copy, and only the gatekeeper makes one.

Should the work fail, or the child not be found, it is refused, and killed where it stands: it
never runs.  Whatever the reason, a child that the work was not done on is not handed out: if the
spawn made one it is killed, and that is an error.

Should this process be killed, nobody opens `leave` any more, and the child waits for ever.  Its
name says whose child it was, so that the next daemon can end it (`end_unborn`).  It holds nothing
of ours meanwhile (step 1): with a copy of a listening socket or a connection it would keep clients
of a dead daemon waiting for an answer.

(glibc 2.39 has posix_spawnattr_setcgroup_np.  It is not used: it does not set limits, so that the
gate is needed all the same, and one way that is always taken is one that is always tested.)
"""

from __future__ import annotations

import errno
import io
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from typing import TypeVar

from s0d.process import libc, proc
from s0d.process.errors import SpawnError, SpawnErrorKind, system_error
from s0d.process.latch import Fifo, Latch
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


class Gate:
    """A gatekeeper thread and its two FIFOs; holds one child at a time.

    Not to be shared by threads that spawn at the same time.  The gatekeeper keeps the identity of
    the thread that made the gate, also when the spawning thread takes another user's.
    """

    def __init__(self) -> None:
        with ExitStack() as undo:
            self._arrive = Fifo()
            undo.callback(self._arrive.close)
            self._leave = Latch()
            undo.callback(self._leave.close)
            self._errands: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
            self._keeper = threading.Thread(target=self._keep, name="s0d-gate", daemon=True)
            self._keeper.start()
            self._undo = undo.pop_all()

    def close(self) -> None:
        self._errands.put(None)
        self._keeper.join()
        self._undo.close()

    def _keep(self) -> None:
        libc.block_signals()
        while (errand := self._errands.get()) is not None:
            errand()

    def add_to(self, actions: FileActions) -> None:
        """Make the child wait here, with 0, 1 and 2 as they are and all others closed."""
        actions.dup2(self._arrive.fd, 3)
        actions.dup2(self._leave.fd, 4)
        actions.close_from(5)
        actions.open(5, "/proc/self/fd/3", os.O_WRONLY | os.O_NONBLOCK)
        actions.close(5)
        actions.open(5, "/proc/self/fd/4", os.O_RDONLY)
        actions.open(6, "/proc/self/fd/3", os.O_WRONLY | os.O_NONBLOCK)
        actions.close_from(3)

    def spawn(self, spawn: Callable[[], int], work: Callable[[int], None]) -> int:
        """Run `spawn`, which returns a pid, with `work(pid)` done before the child's exec.

        `work` runs in the gatekeeper's thread.  Raises what `spawn` raised, or what `work`
        raised, SpawnError where the work could not be done: then the child is dead and reaped.
        """
        self._secure()
        with ExitStack() as cleanup:
            stay = _Stay(self._arrive, self._leave, work, cleanup)
            self._errands.put(stay.attend)
            try:
                pid = spawn()
            except BaseException:
                stay.end()
                if stay.error is not None:  # that it was refused is not the reason
                    raise stay.error from None
                raise
            stay.end()
        if stay.passed != pid:
            _destroy(pid)
            raise stay.error or _not_held(pid)
        return pid

    def _secure(self) -> None:
        """See to it that the next child will be held."""
        if not self._leave.has_writer():
            return
        done: Future[None] = Future()

        def renew() -> None:
            try:
                self._leave.renew()
            except BaseException as error:
                done.set_exception(error)
            else:
                done.set_result(None)

        # By the gatekeeper: for a moment a FIFO can be opened by its name, by processes of the user
        # that makes it.  This thread may be another user's by now.
        self._errands.put(renew)
        done.result()


def _destroy(pid: int) -> None:
    """End and reap a child that is not to be, most often dead already, with its process group."""
    how = 0
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # dead before it had a group
    except PermissionError:
        how = os.WNOHANG  # another user's, and we lack the right: its end might never come
    with suppress(ChildProcessError):
        if os.waitpid(pid, how) == (0, 0):
            what = f"process {pid} runs and cannot be ended"
            raise system_error(SpawnErrorKind.SYSTEM, "", errno.EPERM, what)


def _not_held(pid: int) -> SpawnError:
    what = f"process {pid} was not held before its program began"
    return system_error(SpawnErrorKind.SYSTEM, "", errno.EPROTO, what)


def _gone() -> SpawnError:
    """Killed by somebody while it waited; or /proc does not show it to us."""
    what = "the new process was gone before its program began"
    return system_error(SpawnErrorKind.SYSTEM, "", errno.ESRCH, what)


class _Stay:
    """One child's stay at the gate."""

    def __init__(
        self, arrive: Fifo, leave: Latch, work: Callable[[int], None], cleanup: ExitStack
    ) -> None:
        self._leave = leave
        self._work = work
        self._cleanup = cleanup
        self._name = f"{_name_of(os.getpid())}{os.urandom(3).hex()}"
        self._attended = threading.Event()
        self.passed: int | None = None
        """The child that the work was done on: no other may go."""
        self.error: BaseException | None = None
        libc.set_thread_name(self._name)
        # Opened anew for each child: a reader that has seen a writer would report its hang-up.
        self._arrived = io.FileIO(arrive.open(os.O_RDONLY))
        cleanup.callback(self._arrived.close)
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
            if self._arrived.fileno() in dict(poll.poll()):
                self._let_through()
        finally:
            self._attended.set()

    def _let_through(self) -> None:
        pid = None
        try:
            pid = _insist(lambda: find_unborn(self._name))
            self._do_work(pid)
            self.passed = pid
        except BaseException as error:
            self.error = error
            self._refuse(pid)
        finally:
            # Kept open until the spawn has returned: the child may not have come as far as its
            # own open yet.
            self._cleanup.callback(os.close, _insist(self._leave.lift))

    def _do_work(self, pid: int | None) -> None:
        if pid is None:
            raise _gone()
        try:
            self._work(pid)
        except ProcessLookupError as error:
            raise _gone() from error

    def _refuse(self, pid: int | None) -> None:
        """Both ways: a kill may not be ours to do, a copy of the reading end may be anywhere."""
        self._arrived.close()
        if pid is not None:
            with suppress(ProcessLookupError, PermissionError):
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
