"""A real `s0d serve`, started and ended by a test."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .leftovers import processes_with, wait_for_text
from .zygote import Forked, Zygote

TOKEN = "test-token-" + "x" * 32
READY_TIMEOUT = 30.0
STOP_TIMEOUT = 30.0


class Daemon:
    """One daemon with its own state directory, socket, free port and token.

    Everything that it starts inherits its `TMPDIR`, which is ours alone: so `assert_nothing_left`
    finds what outlived it.  Without a `zygote` the program itself is run, from its command line on.
    """

    def __init__(
        self,
        directory: Path,
        *arguments: str,
        env: Mapping[str, str] | None = None,
        zygote: Zygote | None = None,
    ):
        self.directory = directory
        self.state_dir = directory / "state"
        self.socket = directory / "s0d.sock"
        self.log_file = directory / "log"
        self.token = TOKEN
        self.port = 0
        self.process: subprocess.Popen[bytes] | Forked | None = None
        self._arguments = arguments
        self._zygote = zygote
        self._marker = directory / "tmp"
        self._marker.mkdir(exist_ok=True)
        self._env = dict(env or {})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    @property
    def environment(self) -> dict[str, str]:
        """The environment of the daemon; that of clients is `client_environment`."""
        ours = {k: v for k, v in os.environ.items() if not k.startswith("S0D_")}
        return {**ours, "TMPDIR": str(self._marker), "S0D_TOKEN": self.token, **self._env}

    @property
    def client_environment(self) -> dict[str, str]:
        ours = {k: v for k, v in os.environ.items() if not k.startswith("S0D_")}
        return {**ours, "S0D_URL": f"unix:{self.socket}"}

    def start(self) -> None:
        """Start it and wait until it serves; it keeps its port over restarts."""
        before = self.log_file.stat().st_size if self.log_file.exists() else 0
        arguments = [
            *("--log-format", "json", "--state-dir", str(self.state_dir)),
            *("--listen", f"unix:{self.socket}", "--listen", f"127.0.0.1:{self.port}"),
            *self._arguments,
        ]
        if self._zygote is None:
            self.process, ready = self._run(arguments)
        else:
            self.process, ready = self._zygote.start(
                self.directory, self.log_file, self.environment, *arguments
            )
        try:
            readable, _, _ = select.select([ready], [], [], READY_TIMEOUT)
            if not readable or os.read(ready, 1) != b"\n":
                self.kill()
                raise RuntimeError(f"s0d serve did not become ready: {self.log_file.read_text()}")
        finally:
            os.close(ready)
        wait_for_text(self.log_file, '"message": "serving"')
        self.port = self._served_port(before)

    def stop(self) -> int:
        """SIGTERM, and the exit code."""
        return self.end(signal.SIGTERM)

    def end(self, signum: int) -> int:
        """Send `signum`, wait, and return the exit code; 0 where it has ended before."""
        if self.process is None:
            return 0
        self.process.send_signal(signum)
        try:
            return self.process.wait(STOP_TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        finally:
            self.process = None

    def kill(self) -> None:
        """SIGKILL: what an out-of-memory killer does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        assert self.stop() == 0
        self.start()

    def log(self) -> list[dict[str, Any]]:
        """The lines of its log so far."""
        lines = self.log_file.read_text().splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    def cli(
        self, *arguments: str, input: bytes = b"", env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[bytes]:
        """Run `s0d ARGUMENTS` against it."""
        return subprocess.run(
            [sys.executable, "-m", "s0d", *arguments],
            input=input,
            capture_output=True,
            timeout=60,
            env={**self.client_environment, **(env or {})},
        )

    def json(self, *arguments: str) -> Any:
        """The JSON that `s0d -o json ARGUMENTS` prints; it must succeed."""
        done = self.cli("-o", "json", *arguments)
        assert done.returncode == 0, done.stderr.decode()
        return json.loads(done.stdout)

    def end_leftovers(self) -> None:
        """After a failed test: whatever outlived the daemon must not disturb the next one."""
        for pid in self._leftovers():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def assert_nothing_left(self) -> None:
        """After the end: no process, no socket."""
        assert self._leftovers() == []
        assert not self.socket.exists()

    def _leftovers(self) -> list[int]:
        """Itself too: in /proc a fork that runs no program has the environment of its zygote."""
        found = set(processes_with(f"TMPDIR={self._marker}"))
        if self._zygote is not None:
            found |= {*processes_with(self._zygote.marker)} - {self._zygote.pid}
        return sorted(found)

    def _run(self, arguments: list[str]) -> tuple[subprocess.Popen[bytes], int]:
        """The program, and a descriptor that gives a newline when it serves."""
        ready, theirs = os.pipe()
        command = [sys.executable, "-m", "s0d", "serve", "--ready-fd", str(theirs), *arguments]
        with open(self.log_file, "ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=log,
                stdout=log,
                pass_fds=[theirs],
                env=self.environment,
            )
        os.close(theirs)
        return process, ready

    def _served_port(self, before: int) -> int:
        with open(self.log_file) as log:
            log.seek(before)
            lines = [json.loads(line) for line in log if line.startswith("{")]
        serving = next(line for line in lines if line["message"] == "serving")
        return next(
            int(address.rpartition(":")[2])
            for address in serving["listen"].split()
            if not address.startswith("unix:")
        )
