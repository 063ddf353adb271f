"""Screens: how fast they are fed, how soon a flood is seen, and what others notice of it."""

from __future__ import annotations

import random
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import pyte

from s0d.terminal import Screen

from .client import Client, WebSocket
from .daemon import Daemon
from .figure import Figure

_LINE = "b'line %d of a flood\\n' % n"
_COLOURED = "b'\\x1b[1;3%dmline %d of a flood\\x1b[0m\\x1b[K\\n' % (n % 8, n)"
_WRITER = (
    "import os, sys\n"
    "for start in range(0, int(sys.argv[1]), 2000):\n"
    "    left = b''.join([LINE for n in range(start, start + 2000)])\n"
    "    while left: left = left[os.write(1, left):]\n"
)
_DRAWER = (
    "import sys\n"
    "data = b''.join(b'\\x1b[%d;%dHword %d' % (n % 24 + 1, n % 70 + 1, n) for n in range(30000))\n"
    "print('up', flush=True)\n"
    "for number, line in enumerate(sys.stdin):\n"
    "    sys.stdout.buffer.write(data[:450000] + b'burst %d\\n' % number)\n"
    "    sys.stdout.flush()\n"
)
_PATIENCE_MS = 60_000


def screens(daemon: Daemon, scale: float) -> list[Figure]:
    """All figures about screens."""
    return [*_feeding(scale), *_looks(daemon, scale), *_echoes(daemon, scale)]


def _feeding(scale: float) -> Iterator[Figure]:
    """Megabytes a second of processor time; the baseline is pyte's own screen with a scrollback."""
    count = int(20_000 * scale)
    kinds = {
        "random bytes": random.Random(1).randbytes(20 * count),
        "lines": b"".join([b"line %d of a flood\r\n" % n for n in range(count)]),
        "cursor movements": b"".join(
            [b"\x1b[%d;%dHword %d" % (n % 24 + 1, n % 70 + 1, n) for n in range(count)]
        ),
    }
    for name, data in kinds.items():
        ours, theirs = Screen(24, 80, 1000), pyte.HistoryScreen(80, 24, history=1000)
        size = len(data) / 1e6
        began = time.process_time()
        ours.feed(data)
        between = time.process_time()
        pyte.ByteStream(theirs).feed(data)
        raw = size / (time.process_time() - between)
        yield Figure(f"screen, {name}", size / (between - began), "MB/s", raw)


def _looks(daemon: Daemon, scale: float) -> Iterator[Figure]:
    """From the request to the answer of the first look, after the last byte of a flood."""
    lines = int(10_000_000 * scale)
    with daemon.client() as client:
        for name, line in (("lines", _LINE), ("coloured lines", _COLOURED)):
            program = _WRITER.replace("LINE", line)
            command = [sys.executable, "-I", "-S", "-c", program, str(lines)]
            session = client.create(command, "pty", 64 << 20)
            client.wait_exited(session)
            before = daemon.cpu
            began = time.perf_counter()
            shown = client.call("GET", f"/{session}/screen")
            taken = time.perf_counter() - began
            last = (lines - 1) // 2000 * 2000 + 1999
            if f"line {last} of" not in str(shown["lines"]) or shown["history_cut"]:
                raise RuntimeError("the screen is not that of the flood's end")
            yield Figure(f"first look after {name}", taken * 1e3, "ms", cpu=daemon.cpu - before)


def _echoes(daemon: Daemon, scale: float) -> Iterator[Figure]:
    """An echo while another session's screen is drawn; the baseline is one while nothing is."""
    with daemon.client() as client:
        quiet = client.create(["sh", "-c", "stty raw -echo; echo up; exec cat"], "pty")
        drawn = client.create([sys.executable, "-I", "-S", "-c", _DRAWER], "pty")
        for session in (quiet, drawn):
            _wait(client, session, {"screen": "up"})
        latest = client.call("GET", f"/{quiet}")["cursor"]["latest"]
        attachment = WebSocket(client.path, quiet, latest)
        alone: list[float] = []
        beside: list[float] = []
        for number in range(max(int(20 * scale), 3)):
            client.call("POST", f"/{drawn}/keys", ["Enter"])
            _wait(client, drawn, {"output": f"burst {number}\r\n"})
            for _ in range(20):
                alone.append(_echo(attachment, len(alone) + len(beside)))
            looker = threading.Thread(target=_look, args=(daemon, drawn))
            looker.start()
            while looker.is_alive():
                beside.append(_echo(attachment, len(alone) + len(beside)))
            looker.join()
        attachment.close()
        for session in (quiet, drawn):
            client.call("DELETE", f"/{session}")
    for share in (50, 90, 99):
        name = f"echo beside a screen that is drawn, p{share}"
        value, raw = (statistics.quantiles(times, n=100)[share - 1] for times in (beside, alone))
        yield Figure(name, value * 1e3, "ms", raw * 1e3)


def _wait(client: Client, session: str, wanted: dict[str, str]) -> None:
    client.call("POST", f"/{session}/wait", {"for": wanted, "timeout_ms": _PATIENCE_MS})


def _look(daemon: Daemon, session: str) -> None:
    with daemon.client() as client:
        client.call("GET", f"/{session}/screen")


def _echo(attachment: WebSocket, number: int) -> float:
    began = time.perf_counter()
    attachment.echo(number)
    return time.perf_counter() - began
