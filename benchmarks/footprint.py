"""Sections about memory, about CPU time at rest, and about many sessions."""

from __future__ import annotations

import statistics
import time

from . import baseline
from .client import Client, on_connections
from .daemon import Daemon
from .figure import Figure, timed
from .flood import Flood

_IDLE = ["sleep", "1000"]
_AT_REST = 10.0
_SETTLING = 3.0
_CONNECTIONS = 4
_LARGEST_PAGE = 10_000


def rest(daemon: Daemon, scale: float) -> list[Figure]:
    """Empty, and with 200 sessions at rest."""
    count = int(200 * scale)
    raw = baseline.resident("import quart_trio")
    empty = daemon.resident
    with daemon.client() as client:
        for _ in range(count):
            client.create(_IDLE)
        full = daemon.resident
        listing = _list_ms(client, count)
    time.sleep(_SETTLING)  # their snapshots are written within two seconds
    with timed(daemon) as span:
        time.sleep(_AT_REST * min(scale, 1))
    return [
        Figure("resident, empty", empty, "MB", raw),
        Figure(f"resident, {count} sessions", full, "MB", raw),
        Figure(f"CPU with {count} idle sessions", span.cpu / span.seconds * 100, "%"),
        Figure(f"list of {count} sessions", listing, "ms"),
    ]


def pages(daemon: Daemon, scale: float) -> list[Figure]:
    """10,000 events of 64 KiB each are read in pages as large as can be asked for."""
    flood = Flood(int(10_000 * scale))
    with daemon.client() as client:
        session = client.create(flood.command)
        client.wait_exited(session)
        with daemon.peak() as peak:
            read_back = client.pages(session, _LARGEST_PAGE)
        flood.check(read_back)
    return [Figure(f"resident, a page of {flood.blocks:,} large events", peak[0], "MB")]


def written(daemon: Daemon, scale: float) -> list[Figure]:
    """40 sessions that wrote 20 MB each."""
    count, flood = int(40 * scale), Flood(305)
    with daemon.client() as client:
        with daemon.peak() as peak:
            sessions = [client.create(flood.command) for _ in range(count)]
            for session in sessions:
                client.wait_exited(session)
        resident = daemon.resident
        for session in sessions:
            flood.check(client.stream(session))
    return [
        Figure(f"resident, {count} sessions that wrote 20 MB each", resident, "MB"),
        Figure("the most while they wrote, all at once", peak[0], "MB"),
    ]


def thousand(daemon: Daemon, scale: float) -> list[Figure]:
    """1,000 sessions, created on four connections."""
    count = int(1000 * scale) // _CONNECTIONS * _CONNECTIONS

    def make(client: Client) -> None:
        for _ in range(count // _CONNECTIONS):
            client.create(_IDLE)

    raw = baseline.synced_renames(count, daemon.path)
    with timed(daemon) as span:
        on_connections(str(daemon.address), _CONNECTIONS, make)
    with daemon.client() as client:
        listing = _list_ms(client, count)
    return [
        Figure(f"{count:,} sessions: create all", span.seconds, "s", raw, span.cpu),
        Figure(f"{count:,} sessions: resident", daemon.resident, "MB"),
        Figure(f"{count:,} sessions: list", listing, "ms"),
    ]


def _list_ms(client: Client, count: int) -> float:
    times = []
    for _ in range(11):
        began = time.perf_counter()
        data = client.raw("GET")
        times.append(time.perf_counter() - began)
    if data.count(b'"phase":"running"') != count:
        raise RuntimeError(f"not all of {count} sessions run")
    return statistics.median(times) * 1e3
