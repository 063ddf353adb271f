"""What is measured.  Each function gives its figures; what a daemon delivers is checked there."""

from __future__ import annotations

import shutil
import statistics
import subprocess
import sys
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from . import baseline
from .client import Output, WebSocket
from .daemon import Daemon

_BLOCK = 4096 * 16
_WRITER = (
    "import os, sys\n"
    "for number in range(int(sys.argv[1])):\n"
    "    left = b'%015d\\n' % number * 4096\n"
    "    while left: left = left[os.write(1, left):]\n"
)


@dataclass(frozen=True)
class Figure:
    """`value` in `unit`; `raw`, the baseline's, in the same."""

    name: str
    value: float
    unit: str
    raw: float | None = None
    cpu: float | None = None
    """Seconds of the daemon's CPU time."""

    @property
    def ratio(self) -> float | None:
        """Of the baseline: 1 is as good as it."""
        if self.raw is None:
            return None
        return self.value / self.raw if self.unit.endswith("/s") else self.raw / self.value


@dataclass(frozen=True)
class Flood:
    """So many blocks of 64 KiB, each with its number in each of its lines."""

    blocks: int

    @property
    def size(self) -> int:
        return self.blocks * _BLOCK

    @property
    def command(self) -> list[str]:
        python = shutil.which("python3") or sys.executable
        return [python, "-I", "-S", "-c", _WRITER, str(self.blocks)]

    @property
    def raw_terminal(self) -> list[str]:
        """The command for a terminal that passes bytes on as they are."""
        return ["sh", "-c", 'stty raw -echo; exec "$@"', "sh", *self.command]

    def check(self, output: Output) -> None:
        """Raises `RuntimeError` unless exactly this was read."""
        checksum = 0
        for number in range(self.blocks):
            checksum = zlib.crc32(b"%015d\n" % number * 4096, checksum)
        if (output.size, output.checksum) != (self.size, checksum):
            raise RuntimeError(f"{output.size} bytes that are not the {self.size} written")

    def speed(self, seconds: float) -> float:
        return self.size / 1e6 / seconds


class _Span:
    seconds = 0.0
    cpu = 0.0


@contextmanager
def _timed(daemon: Daemon) -> Iterator[_Span]:
    span, cpu, began = _Span(), daemon.cpu, time.perf_counter()
    yield span
    span.seconds, span.cpu = time.perf_counter() - began, daemon.cpu - cpu


def output(daemon: Daemon, scale: float) -> list[Figure]:
    """A pipe's output unattended, then read again in two ways; and read while it comes."""
    flood = Flood(int(2048 * scale))
    raw = flood.speed(baseline.pipe_to_file(flood.command, daemon.path))
    figures = []

    def note(name: str, span: _Span) -> None:
        figures.append(Figure(name, flood.speed(span.seconds), "MB/s", raw, span.cpu))

    with daemon.client() as client:
        with _timed(daemon) as span:
            session = client.create(flood.command)
            client.wait_exited(session)
        note("pipe, unattended", span)
        for name, read in (("replay by SSE", client.stream), ("replay by pages", client.pages)):
            with _timed(daemon) as span:
                read_back = read(session)
            note(name, span)
            flood.check(read_back)
        with _timed(daemon) as span:
            read_back = client.stream(client.create(flood.command))
        note("pipe, one SSE reader", span)
        flood.check(read_back)
    return figures


def terminal(daemon: Daemon, scale: float) -> list[Figure]:
    """A terminal's output, unattended and read while it comes."""
    flood = Flood(int(512 * scale))
    raw = flood.speed(baseline.terminal_to_file(flood.raw_terminal, daemon.path))
    with daemon.client() as client:
        with _timed(daemon) as alone:
            session = client.create(flood.raw_terminal, "pty")
            client.wait_exited(session)
        flood.check(client.stream(session))
        with _timed(daemon) as read:
            read_back = client.stream(client.create(flood.raw_terminal, "pty"))
        flood.check(read_back)
    return [
        Figure("terminal, unattended", flood.speed(alone.seconds), "MB/s", raw, alone.cpu),
        Figure("terminal, one SSE reader", flood.speed(read.seconds), "MB/s", raw, read.cpu),
    ]


def echo(daemon: Daemon, scale: float) -> list[Figure]:
    """A line to `cat` and back on a WebSocket, until it is there and acknowledged as durable."""
    count = int(500 * scale)
    raw = sorted(baseline.socket_echo(count))
    figures = []
    for mode, command in (("pipes", ["cat"]), ("pty", ["sh", "-c", "stty -echo; exec cat"])):
        with daemon.client() as client:
            session = client.create(command, mode)
            time.sleep(0.5)  # until the terminal no longer echoes: nothing tells
            latest = client.call("GET", f"/{session}")["cursor"]["latest"]
            attachment = WebSocket(client.path, session, latest)
            times = []
            with _timed(daemon) as span:
                for number in range(count):
                    began = time.perf_counter()
                    attachment.echo(number)
                    times.append(time.perf_counter() - began)
            attachment.close()
            client.call("DELETE", f"/{session}")
        times.sort()
        for name, place in (("p50", count // 2), ("p99", count * 99 // 100)):
            value, bare = times[place] * 1e3, raw[place] * 1e3
            figures.append(Figure(f"WebSocket echo, {mode}, {name}", value, "ms", bare, span.cpu))
    return figures


def commands(daemon: Daemon, scale: float) -> list[Figure]:
    """Inputs and creations on one connection, one after the other."""
    inputs, creations = int(300 * scale), int(100 * scale)
    raw_inputs = inputs / baseline.synced_appends(inputs, daemon.path)
    raw_creations = creations / baseline.synced_renames(creations, daemon.path)
    with daemon.client() as client:
        session = client.create(["sleep", "1000"])
        with _timed(daemon) as first:
            for number in range(inputs):
                body = {"input_id": f"in-{number}", "data_base64": "eA=="}
                client.call("POST", f"/{session}/inputs", body)
        with _timed(daemon) as second:
            made = [client.create(["sleep", "1000"]) for _ in range(creations)]
        if len({item["id"] for item in client.call("GET")["sessions"]} & set(made)) != creations:
            raise RuntimeError("not all sessions are there")
    return [
        Figure("inputs", inputs / first.seconds, "1/s", raw_inputs, first.cpu),
        Figure("creations", creations / second.seconds, "1/s", raw_creations, second.cpu),
    ]


def restart(daemon: Daemon, scale: float) -> list[Figure]:
    """Stop and start with sessions that have ended and wrote 1.3 MB each."""
    count, blocks = int(200 * scale), Flood(20)
    idle = Figure("resident, empty", daemon.resident, "MB")
    with daemon.client() as client:
        sessions = [client.create(blocks.command) for _ in range(count)]
        for session in sessions:
            client.wait_exited(session)
        full = Figure(f"resident, {count} sessions", daemon.resident, "MB")
    stopped = daemon.stop()
    began = daemon.start()
    imports = _python_with("quart_trio")
    with daemon.client() as client:
        blocks.check(client.stream(sessions[-1]))
    return [
        idle,
        full,
        Figure(f"stop, {count} sessions", stopped * 1e3, "ms"),
        Figure(f"start to first answer, {count} sessions", began * 1e3, "ms", imports * 1e3),
    ]


def _python_with(module: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - began


SECTIONS: dict[str, Callable[[Daemon, float], list[Figure]]] = {
    "output": output,
    "terminal": terminal,
    "echo": echo,
    "commands": commands,
    "restart": restart,
}


def median(runs: list[Figure]) -> Figure:
    """The figure of several runs; the ratio is the median's to the median's."""
    first = runs[0]

    def middle(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Figure(
        first.name,
        statistics.median(run.value for run in runs),
        first.unit,
        middle([run.raw for run in runs]),
        middle([run.cpu for run in runs]),
    )
