"""Starts `s0d serve` in milliseconds: a process that has imported it, and forks.

The fork runs the same command line as `s0d serve` in a process of its own, with an environment of
its own; only the import of the program, which takes longer than everything else, is shared.  So a
daemon can be killed and started hundreds of times in a test, and a test may have one of its own.

Commands are lines of JSON on standard input: `{"start": [argument, ...], "environment": {...},
"log": PATH, "ready": FIFO}`, answered with a pid, and `{"wait": PID}`, answered with the exit code
once it has ended.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_MARKER = "S0D_TEST_ZYGOTE"


class Zygote:
    """The test's side.  `prefix` stands before the command, to run it as another user.

    Whatever a daemon forks that never becomes a program is found by `marker`.
    """

    def __init__(self, prefix: Sequence[str] = ()) -> None:
        self.marker = f"{_MARKER}={os.urandom(8).hex()}"
        name, _, value = self.marker.partition("=")
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.support.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={"PATH": os.environ["PATH"], name: value},
            cwd=Path(__file__).parents[2],
        )

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(
        self, directory: Path, log: Path, environment: Mapping[str, str], *arguments: str
    ) -> tuple[Forked, int]:
        """Start `s0d serve ARGUMENTS`, and a descriptor that gives a newline when it serves.

        The descriptor is a FIFO's in `directory`; it ends where the daemon does.
        """
        fifo = directory / "ready"
        fifo.unlink(missing_ok=True)
        os.mkfifo(fifo)
        fifo.chmod(0o666)
        ready = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        command = {"start": arguments, "log": str(log), "ready": str(fifo)}
        pid = int(self._ask({**command, "environment": dict(environment)}))
        return Forked(self, pid), ready

    def wait(self, pid: int) -> int:
        """The exit code (negative: the signal) of a daemon that has ended or is ending."""
        return int(self._ask({"wait": pid}))

    def _ask(self, command: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command).encode() + b"\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        assert answer, "the zygote has died"
        return json.loads(answer)


class Forked:
    """A daemon that a zygote has started, with what `subprocess.Popen` has of these names."""

    def __init__(self, zygote: Zygote, pid: int) -> None:
        self.pid = pid
        self._zygote = zygote

    def send_signal(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code; may be asked for once."""
        descriptor = os.pidfd_open(self.pid)
        try:
            if not select.select([descriptor], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired("s0d serve", timeout or 0)
        finally:
            os.close(descriptor)
        return self._zygote.wait(self.pid)


_idle: dict[tuple[str, ...], list[Zygote]] = {}


@contextmanager
def borrowed(prefix: tuple[str, ...] = ()) -> Iterator[Zygote]:
    """A zygote that nobody else uses meanwhile: what has its marker is the borrower's.

    It goes on to the next; all end with the tests.
    """
    idle = _idle.setdefault(prefix, [])
    zygote = idle.pop() if idle else Zygote(prefix)
    try:
        yield zygote
    except BaseException:
        zygote.close()
        raise
    idle.append(zygote)


@atexit.register
def _close_all() -> None:
    for zygotes in _idle.values():
        while zygotes:
            zygotes.pop().close()


def main() -> None:
    """The zygote itself."""
    import s0d.cli.main
    import s0d.daemon.standalone  # noqa: F401 - what the fork would import

    assert threading.active_count() == 1
    gc.freeze()
    for line in sys.stdin.buffer:
        command = json.loads(line)
        if "start" in command:
            answer = _fork(command)
        else:
            answer = os.waitstatus_to_exitcode(os.waitpid(command["wait"], 0)[1])
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def _fork(command: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        code = _serve(command)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _serve(command: dict[str, Any]) -> int:
    from s0d.cli.main import main as command_line

    marker = os.environ[_MARKER]
    os.environ.clear()
    os.environ.update(command["environment"], **{_MARKER: marker})
    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    ready = os.open(command["ready"], os.O_WRONLY)
    return command_line(["serve", "--ready-fd", str(ready), *command["start"]])


if __name__ == "__main__":
    main()
