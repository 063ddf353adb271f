"""Starts `s0d serve` in milliseconds: a process that has imported it, and forks.

The fork runs the same command line as `s0d serve` in a process of its own; only the import of the
program, which takes longer than everything else, is shared.  So a daemon can be killed and started
hundreds of times in a test.

Commands are lines of JSON on standard input: `{"start": [argument, ...], "log": PATH}`, answered
with a pid, and `{"wait": PID}`, answered with the exit code once it has ended.
"""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_MARKER = "S0D_TEST_ZYGOTE"


class Zygote:
    """The test's side; a context manager.

    `prefix` stands before the command, to run it as another user.  `environment` is that of every
    daemon.  Whatever a daemon forks that never becomes a program is found by `marker`.
    """

    def __init__(self, environment: dict[str, str], prefix: Sequence[str] = ()) -> None:
        self.marker = f"{_MARKER}={os.urandom(8).hex()}"
        name, _, value = self.marker.partition("=")
        self._process = subprocess.Popen(
            [*prefix, sys.executable, "-m", "tests.support.zygote"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**environment, name: value},
            cwd=Path(__file__).parents[2],
        )

    def __enter__(self) -> Zygote:
        return self

    def __exit__(self, *exc: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def start(self, ready: Path, log: Path, *arguments: str) -> int:
        """Start `s0d serve ARGUMENTS`; a newline goes into the FIFO `ready` when it serves."""
        command = {"start": list(arguments), "log": str(log), "ready": str(ready)}
        return int(self._ask(command))

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

    log = os.open(command["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, target)
    ready = os.open(command["ready"], os.O_WRONLY)
    return command_line(["serve", "--ready-fd", str(ready), *command["start"]])


if __name__ == "__main__":
    main()
