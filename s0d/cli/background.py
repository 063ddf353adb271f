"""A daemon on demand: started in the background where none answers, as tmux does.

It gets its own session (no terminal, no hang-up with ours), logs to `daemon.log` in the state
directory, and says that it is ready through an inherited pipe: its end without a word means that
it died, so nothing is polled.  A lock lets one of several clients start it.
"""

from __future__ import annotations

import fcntl
import os
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .advice import advice
from .errors import CliError, Unreachable
from .http import connect
from .patience import patience
from .render import notice
from .target import Target

READY_TIMEOUT = 60.0
LOG_NAME = "daemon.log"
_LOG_TAIL = 4096
_FLAGS = ("--no-access-log", "--ready-fd")  # and the number


def ensure_daemon(target: Target) -> None:
    """Start one where only the default socket was meant and nobody answers there, and say so."""
    from .client import Client

    try:
        Client(target).metadata()
    except Unreachable:
        if not target.is_default:
            raise
        start_and_say(target)


def start_and_say(target: Target) -> None:
    """Start one on the default socket, where nobody answers at `target`."""
    try:
        with patience("starting a daemon"):
            log = start_daemon()
    except CliError as error:
        raise CliError(f"{error}{advice(target)}") from None
    if log is not None:
        notice(f"started a daemon in the background (log: {log})")


def start_daemon() -> Path | None:
    """Start a daemon on the default socket and wait until it serves.

    Returns its log, or None where another client was quicker.  Raises `CliError` with the last
    line of the log where it does not come up.
    """
    from s0d.daemon.paths import default_runtime_dir, default_state_dir

    state_dir = default_state_dir(os.environ, os.geteuid())
    runtime_dir = default_runtime_dir(os.environ, os.geteuid())
    for directory in (state_dir, runtime_dir):
        _make_private(directory)
    with _lock(runtime_dir / "start.lock"):
        if _answers(Target(url="", socket=str(runtime_dir / "s0d.sock"), is_default=True)):
            return None
        log = state_dir / LOG_NAME
        _launch_and_wait(log)
        return log


def _make_private(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise CliError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _answers(target: Target) -> bool:
    try:
        connect(target).close()
    except Unreachable:
        return False
    return True


def _launch_and_wait(log: Path) -> None:
    ours, theirs = os.pipe()
    try:
        _launch(log, theirs)
    finally:
        os.close(theirs)
    with open(ours, "rb", buffering=0) as pipe:
        readable, _, _ = select.select([pipe], [], [], READY_TIMEOUT)
        if not readable:
            raise CliError(f"the daemon is not ready after {READY_TIMEOUT:.0f} s: see {log}")
        if pipe.read(1) != b"\n":
            raise CliError(f"the daemon did not start: {_last_line(log)}")


def _launch(log: Path, ready_fd: int) -> None:
    """Fork twice: the daemon is nobody's child, and leads no session that a terminal could join."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        log_fd = os.open(log, flags, 0o600)
    except OSError as error:
        raise CliError(f"{log}: {error.strerror}") from error
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                _become_daemon(log_fd, ready_fd)
        finally:
            os._exit(1)  # the middle process, or a daemon that could not be executed
    os.waitpid(child, 0)
    os.close(log_fd)


def _become_daemon(log_fd: int, ready_fd: int) -> None:
    program = _program()
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDONLY)
    for source, standard in ((null, 0), (log_fd, 1), (log_fd, 2)):
        os.dup2(source, standard)
    os.set_inheritable(ready_fd, True)
    command = [sys.executable, "-P", *program, "serve", *_FLAGS, str(ready_fd)]
    os.execv(sys.executable, command)


def flags_of(pid: int) -> list[str]:
    """The flags that somebody gave the daemon `pid`; none where it was started on demand, or is a
    part of another program.  Raises ``OSError``.
    """
    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")[:-1]
    flags = words[words.index("serve") + 1 :] if "serve" in words else []
    return [] if tuple(flags[:-1]) == _FLAGS else flags


def _program() -> list[str]:
    """What the interpreter is to run to be us: the single file, where that is what we are."""
    from zipfile import is_zipfile

    return [os.path.abspath(sys.argv[0])] if is_zipfile(sys.argv[0]) else ["-m", "s0d"]


def _last_line(log: Path) -> str:
    with open(log, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _LOG_TAIL))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line for line in lines if line.strip()]
    return f"{said[-1]} (more in {log})" if said else f"see {log}"
