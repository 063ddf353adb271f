"""Sections about how soon an answer is there: alone, and while another session floods."""

from __future__ import annotations

import time

from . import baseline
from .client import Client, WebSocket
from .daemon import Daemon
from .figure import Figure, percentile, timed
from .flood import Flood
from .watchdog import Watchdog

_MODES = {"pipes": ["cat"], "terminal": ["sh", "-c", "stty -echo; echo up; exec cat"]}
_WARM_UP = 20


def echo(daemon: Daemon, scale: float) -> list[Figure]:
    """A line to `cat` and back on a WebSocket, until it is there and acknowledged as durable."""
    count = int(1000 * scale)
    raw = baseline.socket_echo(count)
    figures = []
    for name, command in _MODES.items():
        with daemon.client() as client:
            session = client.create(command, "pty" if name == "terminal" else "pipes")
            attachment = attach(client, session, "up" if name == "terminal" else None)
            for number in range(_WARM_UP):
                attachment.echo(number)
            with timed(daemon) as span:
                times = [_echo(attachment, _WARM_UP + number) for number in range(count)]
            attachment.close()
            client.call("DELETE", f"/{session}")
        for share in (50, 99):
            value, bare = percentile(times, share), percentile(raw, share)
            title = f"WebSocket echo, {name}, p{share}"
            figures.append(Figure(title, value, "ms", bare, span.cpu))
    return figures


def flooded(daemon: Daemon, scale: float) -> list[Figure]:
    """The same, and a GET, while another session floods; and the longest turn of the loop."""
    flood = Flood(int(16_384 * scale))
    raw = baseline.socket_echo_beside(flood.command, daemon.path)
    daemon.stop()
    daemon.start(watched=True)
    with daemon.client() as client:
        session = client.create(["cat"])
        attachment = attach(client, session, None)
        for number in range(_WARM_UP):
            attachment.echo(number)
        watchdog = Watchdog(daemon.turns)
        watchdog.longest = 0.0, 0.0
        flooding = client.create(flood.command, max_bytes=2 * flood.size)
        echoes: list[float] = []
        gets: list[float] = []
        over = False
        while not over:
            echoes.append(_echo(attachment, _WARM_UP + len(echoes)))
            began = time.perf_counter()
            over = client.call("GET", f"/{flooding}")["phase"] == "exited"
            gets.append(time.perf_counter() - began)
        wall, cpu = watchdog.longest
        attachment.close()
        flood.check(client.stream(flooding))
    bare = {share: percentile(raw, share) for share in (50, 99)}
    return [
        *[Figure(f"echo under a flood, p{p}", percentile(echoes, p), "ms", bare[p]) for p in bare],
        *[Figure(f"GET under a flood, p{p}", percentile(gets, p), "ms", bare[p]) for p in bare],
        Figure("longest turn of the loop under a flood", wall * 1e3, "ms"),
        Figure("the most CPU time of a turn", cpu * 1e3, "ms"),
    ]


def attach(client: Client, session: str, up: str | None) -> WebSocket:
    """To a session from its latest event on, once its output says that it is `up`."""
    if up is not None:
        waited = {"for": {"output": up}, "timeout_ms": 60_000}
        client.call("POST", f"/{session}/wait", waited)
    latest = client.call("GET", f"/{session}")["cursor"]["latest"]
    return WebSocket(client.path, session, latest)


def _echo(attachment: WebSocket, number: int) -> float:
    began = time.perf_counter()
    attachment.echo(number)
    return time.perf_counter() - began
