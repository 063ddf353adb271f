"""A daemon that is killed and started again in milliseconds, with everything that it leaves."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import trio

from s0d.process.proc import list_pids, read_stat

from .client import Client
from .leftovers import has_any
from .zygote import Forked, Zygote, borrowed

NOBODY = 65534
START_TIMEOUT = 60.0
_SESSIONS = "state/sandboxes/local"


class Survivor(NamedTuple):
    """A process, told from a later one of the same number by its start."""

    pid: int
    start_time: int
    name: str

    @property
    def lives(self) -> bool:
        stat = read_stat(self.pid)
        return stat is not None and stat.alive and stat.start_time == self.start_time


class Crashable:
    """One state directory and the daemon on it, which comes and goes."""

    def __init__(self, directory: Path, zygote: Zygote, *arguments: str) -> None:
        self.directory = directory
        self.state_dir = directory / "state"
        self.log_file = directory / "log"
        self.pid: int | None = None
        self._zygote = zygote
        self._process: Forked | None = None
        self._socket = directory / "s0d.sock"
        self._arguments = (
            *("--state-dir", str(self.state_dir), "--listen", f"unix:{self._socket}"),
            *("--log-format", "json", *arguments),
        )

    @property
    def client(self) -> Client:
        return Client(self._socket)

    def launch(self) -> int:
        """Start it without waiting; the descriptor becomes readable when it serves or is dead."""
        home = str(self.directory)
        environment = {"PATH": os.environ["PATH"], "HOME": home, "TMPDIR": f"{home}/tmp"}
        self._process, ready = self._zygote.start(
            self.directory, self.log_file, environment, *self._arguments
        )
        self.pid = self._process.pid
        return ready

    async def start(self) -> None:
        """Start it and wait until it serves."""
        ready = self.launch()
        try:
            with trio.fail_after(START_TIMEOUT):
                await trio.lowlevel.wait_readable(ready)
            if os.read(ready, 1) != b"\n":
                raise AssertionError(f"it did not start: {self.log_file.read_text()[-4000:]}")
        finally:
            os.close(ready)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        assert self.end(signal.SIGKILL) in (-signal.SIGKILL, None)

    def end(self, signum: int) -> int | None:
        """Send `signum` and wait; the exit code, None where none runs."""
        process, self._process, self.pid = self._process, None, None
        if process is None:
            return None
        process.send_signal(signum)
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise TimeoutError(f"it does not end: {self.log_file.read_text()[-4000:]}") from None

    # -- what is there -----------------------------------------------------------------------

    def processes(self) -> list[Survivor]:
        """Everything that a daemon of this directory has made, the running daemon excepted."""
        markers = {f"TMPDIR={self.directory / 'tmp'}", self._zygote.marker}
        found = []
        for pid in list_pids():
            if pid in (self._zygote.pid, self.pid) or not has_any(pid, markers):
                continue
            stat = read_stat(pid)
            if stat is not None and stat.alive:
                found.append(Survivor(pid, stat.start_time, stat.name))
        return found

    def stray_files(self, known: set[str]) -> list[str]:
        """What lies in the state directory and belongs to none of the sessions `known`."""
        base = self.directory / _SESSIONS
        strays = [str(p) for p in (base / "trash").iterdir()]
        strays += [str(p) for p in (base / "sessions").iterdir() if p.name not in known]
        for suffix in ("*.tmp", "*.new"):
            strays += map(str, self.state_dir.rglob(suffix))
        return strays

    def log(self) -> list[dict[str, Any]]:
        lines = self.log_file.read_text().splitlines() if self.log_file.exists() else []
        return [json.loads(line) for line in lines if line.startswith("{")]


@contextmanager
def crashable(
    directory: Path, *, no_cgroups: bool = False, nobody: bool = False
) -> Iterator[Crashable]:
    """A daemon to be killed; at the end it is stopped in order and must leave nothing.

    `nobody` runs it as an ordinary user; only root can.
    """
    directory.chmod(0o755)
    temporary = directory / "tmp"
    temporary.mkdir()
    prefix: tuple[str, ...] = ()
    if nobody:
        for path in (directory, temporary):
            os.chown(path, NOBODY, NOBODY)
        ids = (f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")
        prefix = (shutil.which("setpriv") or "setpriv", *ids)
    with borrowed(prefix) as zygote:
        daemon = Crashable(directory, zygote, *(["--no-cgroups"] if no_cgroups else []))
        try:
            yield daemon
            assert daemon.end(signal.SIGTERM) in (0, None), daemon.log_file.read_text()[-4000:]
            assert daemon.processes() == []
        finally:
            daemon.end(signal.SIGKILL)
            for survivor in daemon.processes():
                os.kill(survivor.pid, signal.SIGKILL)


def modes(mode: str) -> dict[str, Any]:
    """Options of `crashable` for a way of owning processes.

    `cgroups` where the machine has them, `proc` without, `nobody` as an ordinary user.
    """
    return {"cgroups": {}, "proc": {"no_cgroups": True}, "nobody": {"nobody": True}}[mode]
