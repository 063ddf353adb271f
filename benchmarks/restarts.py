"""Sections about the first answer after a start, with what former daemons left."""

from __future__ import annotations

import signal
import time

from . import baseline
from .client import Client, on_connections
from .daemon import Daemon
from .figure import Figure
from .flood import Flood

_CONNECTIONS = 4
_IMPORTS = "quart_trio"


def full(daemon: Daemon, scale: float) -> list[Figure]:
    """With 200 sessions that have ended and wrote 1.35 MB each: orderly, and after SIGKILL."""
    count, flood = int(200 * scale), Flood(21)
    sessions = _ended(daemon, count, flood.command)
    what = f"{count} sessions with {flood.size * count / 1e6:.0f} MB"
    raw = baseline.interpreter("-c", f"import {_IMPORTS}") * 1e3
    figures = []
    for how, number in (("", signal.SIGTERM), (", killed", signal.SIGKILL)):
        stopped, began = daemon.stop(number), daemon.start()
        if not how:
            figures.append(Figure(f"stop, {what}", stopped * 1e3, "ms"))
        figures.append(Figure(f"start, {what}{how}", began * 1e3, "ms", raw))
        with daemon.client() as client:
            _check_list(client, sessions)
            for session in (sessions[0], sessions[-1]):
                flood.check(client.stream(session))
    return figures


def many(daemon: Daemon, scale: float) -> list[Figure]:
    """With 2,000 sessions that have ended and wrote nothing."""
    count = int(2000 * scale)
    sessions = _ended(daemon, count, ["true"])
    raw = baseline.interpreter("-c", f"import {_IMPORTS}") * 1e3
    stopped, began = daemon.stop(), daemon.start()
    with daemon.client() as client:
        _check_list(client, sessions)
    return [
        Figure(f"stop, {count:,} sessions", stopped * 1e3, "ms"),
        Figure(f"start, {count:,} sessions", began * 1e3, "ms", raw),
    ]


def running(daemon: Daemon, scale: float) -> list[Figure]:
    """With 200 sessions that run, until all of them run again."""
    count = int(200 * scale)
    with daemon.client() as client:
        for _ in range(count):
            client.create(["sleep", "1000"])
    stopped = daemon.stop()
    began = time.perf_counter()
    daemon.start()
    with daemon.client() as client:
        while sum(one["phase"] == "running" for one in client.call("GET")["sessions"]) < count:
            time.sleep(0.005)
        taken = time.perf_counter() - began
    return [
        Figure(f"stop, {count} running sessions", stopped * 1e3, "ms"),
        Figure(f"start, {count} sessions run again", taken * 1e3, "ms"),
    ]


def _ended(daemon: Daemon, count: int, command: list[str]) -> list[str]:
    """Sessions whose process has ended."""
    sessions: list[str] = []

    def make(client: Client) -> None:
        for _ in range(max(1, count // _CONNECTIONS)):
            session = client.create(command)
            client.wait_exited(session)
            sessions.append(session)

    on_connections(str(daemon.address), _CONNECTIONS, make)
    return sessions


def _check_list(client: Client, sessions: list[str]) -> None:
    listed = client.call("GET")["sessions"]
    if sorted(one["id"] for one in listed) != sorted(sessions):
        raise RuntimeError(f"{len(listed)} of {len(sessions)} sessions are there after the start")
