"""One spawn, start to end, in the calling thread: check, open, posix_spawn, register.

Blocking, and without Trio.  The calling thread has its own umask (see `spawner`).
"""

from __future__ import annotations

import errno
import os
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from s0d.process import proc, program
from s0d.process.children import ChildRegistry
from s0d.process.descriptors import pipe
from s0d.process.errors import SpawnError, SpawnErrorKind, system_error
from s0d.process.gate import Gate
from s0d.process.libc import FileActions, posix_spawn
from s0d.process.pty import open_pty
from s0d.process.request import SpawnRequest
from s0d.process.rlimits import set_limits


@dataclass(frozen=True, slots=True)
class Launched:
    """A process that runs, and the parent's ends of its descriptors (non-blocking).

    With a terminal `stdin` is the master, `slave` keeps the terminal from reporting its end
    while nobody but the leader could reopen it, and `stdout` and `stderr` are absent.
    """

    pid: int
    pidfd: int
    start_time: int
    stdin: int
    stdout: int | None
    stderr: int | None
    slave: int | None


@dataclass(frozen=True, slots=True)
class _Channels:
    """Both ends of the child's standard descriptors."""

    stdin: int
    stdout: int | None
    stderr: int | None
    slave: int | None
    child: tuple[int, ...]

    def add_to(self, actions: FileActions) -> None:
        if self.slave is not None:
            # Opened anew by the leader of a new session: so it becomes its controlling terminal.
            actions.open(0, f"/proc/self/fd/{self.slave}", os.O_RDWR)
            actions.dup2(0, 1)
            actions.dup2(0, 2)
            return
        for target, source in enumerate(self.child):
            actions.dup2(source, target)


def needs_gate(request: SpawnRequest) -> bool:
    """Whether something must be done to the child before its program runs."""
    return request.cgroup is not None or bool(request.limits)


def launch(request: SpawnRequest, registry: ChildRegistry, gate: Gate | None) -> Launched:
    """Start the program; `gate` is there when the request needs one.

    Raises SpawnError; then nothing is left, neither process nor descriptor.
    """
    program.check_strings(request.argv, request.env, request.cwd)
    with ExitStack() as transient, ExitStack() as kept:
        cwd_fd = program.open_directory(request.cwd)
        transient.callback(os.close, cwd_fd)
        path = program.find_program(request.argv[0], request.env.get("PATH"), cwd_fd)
        channels = _open_channels(request, transient, kept)
        actions = FileActions()
        actions.fchdir(cwd_fd)
        channels.add_to(actions)
        if gate is not None:
            gate.add_to(actions)
        actions.close_from(3)

        def spawn() -> int:
            return _spawn(path, request, actions, cwd_fd)

        pid = gate.spawn(spawn, _work_at_gate(request)) if gate else spawn()
        transient.close()  # before the next descriptor is needed
        launched = _adopt(pid, channels, registry)
        kept.pop_all()
        return launched


def _spawn(path: str, request: SpawnRequest, actions: FileActions, cwd_fd: int) -> int:
    argv = [os.fsencode(argument) for argument in request.argv]
    environ = [os.fsencode(f"{name}={value}") for name, value in request.env.items()]
    try:
        return posix_spawn(os.fsencode(path), argv, environ, actions)
    except OSError as error:
        raise program.explain(path, error.errno or errno.EIO, cwd_fd) from error


def _adopt(pid: int, channels: _Channels, registry: ChildRegistry) -> Launched:
    """Take possession of a child that nobody has waited for yet: its pid is still its own."""
    registry.add(pid)
    with ExitStack() as undo:
        undo.callback(_destroy, pid, registry)
        try:
            pidfd = os.pidfd_open(pid)
            undo.callback(os.close, pidfd)
            start_time = proc.start_time(pid)
        except OSError as error:
            raise _resources("process descriptor", error) from error
        if start_time is None:
            raise system_error(SpawnErrorKind.SYSTEM, f"/proc/{pid}/stat", errno.ENOENT)
        undo.pop_all()
    return Launched(
        pid, pidfd, start_time, channels.stdin, channels.stdout, channels.stderr, channels.slave
    )


def _destroy(pid: int, registry: ChildRegistry) -> None:
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    registry.discard(pid)


def _resources(what: str, error: OSError) -> SpawnError:
    return system_error(SpawnErrorKind.RESOURCES, "", error.errno or errno.EIO, what)


def _open_channels(request: SpawnRequest, transient: ExitStack, kept: ExitStack) -> _Channels:
    try:
        if request.terminal is not None:
            return _terminal_channels(request, kept)
        return _pipe_channels(transient, kept)
    except OSError as error:
        what = "pipes" if request.terminal is None else "terminal"
        raise _resources(what, error) from error


def _terminal_channels(request: SpawnRequest, kept: ExitStack) -> _Channels:
    assert request.terminal is not None
    master, slave = open_pty(request.terminal)
    kept.callback(os.close, master)
    kept.callback(os.close, slave)
    return _Channels(master, None, None, slave, ())


def _pipe_channels(transient: ExitStack, kept: ExitStack) -> _Channels:
    parents, children = [], []
    for target in range(3):
        reading, writing = pipe()
        parent, child = (writing, reading) if target == 0 else (reading, writing)
        kept.callback(os.close, parent)
        transient.callback(os.close, child)
        os.set_blocking(parent, False)
        parents.append(parent)
        children.append(child)
    return _Channels(parents[0], parents[1], parents[2], None, tuple(children))


def _work_at_gate(request: SpawnRequest) -> Callable[[int], None]:
    def work(pid: int) -> None:
        set_limits(pid, request.limits, request.run_as)
        if request.cgroup is not None:
            _join_cgroup(pid, request.cgroup)

    return work


def _join_cgroup(pid: int, cgroup: str) -> None:
    path = f"{cgroup}/cgroup.procs"
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, b"%d" % pid)
        finally:
            os.close(fd)
    except ProcessLookupError:
        raise
    except OSError as error:
        raise system_error(SpawnErrorKind.CGROUP, path, error.errno or errno.EIO) from error
