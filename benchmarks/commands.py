"""Sections about inputs and creations, each durable before its answer."""

from __future__ import annotations

import zlib
from itertools import count

from . import baseline
from .client import Client, on_connections
from .daemon import Daemon
from .figure import Figure, timed
from .flood import expect

_RECEIPTS = 1100
_CONNECTIONS = 16


def inputs(daemon: Daemon, scale: float) -> list[Figure]:
    """On one connection, one after the other; once more with many receipts; on 16 connections."""
    many, receipts = int(512 * scale), int(_RECEIPTS * scale)
    share = max(1, many * 4 // _CONNECTIONS)
    alone = many / baseline.synced_appends(many, daemon.path)
    together = share * _CONNECTIONS / baseline.synced_side_by_side(share, _CONNECTIONS, daemon.path)
    numbers = count()
    with daemon.client() as client:
        # Whatever order they come in on many connections: sorted they are lines in order.
        session = client.create(["sort"])

        def send(client: Client, times: int = many) -> None:
            for _ in range(times):
                client.input(session, next(numbers))

        with timed(daemon) as first:
            send(client)
        send(client, max(0, receipts - many))
        with timed(daemon) as second:
            send(client)
        with timed(daemon) as third:
            on_connections(client.path, _CONNECTIONS, lambda client: send(client, share))
        client.call("POST", f"/{session}/inputs", {"input_id": "end", "eof": True})
        written = b"".join([b"%015d\n" % number for number in range(next(numbers))])
        expect(client.stream(session), len(written), zlib.crc32(written))
    speed = share * _CONNECTIONS / third.seconds
    return [
        Figure("inputs", many / first.seconds, "1/s", alone, first.cpu),
        Figure(f"inputs after {receipts:,}", many / second.seconds, "1/s", alone, second.cpu),
        Figure(f"inputs on {_CONNECTIONS} connections", speed, "1/s", together, third.cpu),
    ]


def creations(daemon: Daemon, scale: float) -> list[Figure]:
    """Sessions on one connection, one after the other; and their end."""
    many = int(200 * scale)
    raw = many / baseline.synced_renames(many, daemon.path)
    with daemon.client() as client:
        with timed(daemon) as span:
            made = [client.create(["sleep", "1000"]) for _ in range(many)]
        if sorted(item["id"] for item in client.call("GET")["sessions"]) != sorted(made):
            raise RuntimeError("not all sessions are there")
        with timed(daemon) as end:
            for session in made:
                client.call("DELETE", f"/{session}")
        if client.call("GET")["sessions"]:
            raise RuntimeError("not all sessions are gone")
    return [
        Figure("creations", many / span.seconds, "1/s", raw, span.cpu),
        Figure("deletions", many / end.seconds, "1/s", raw, end.cpu),
    ]
