"""Sections about output: written alone, read while it comes, and read again."""

from __future__ import annotations

import zlib
from collections.abc import Callable

from . import baseline
from .client import Client, Output, on_connections
from .daemon import Daemon
from .figure import Figure, Span, timed
from .flood import Flood, Lines

_RETAINED = 64 << 20
_READERS = 10


def pipe(daemon: Daemon, scale: float) -> list[Figure]:
    """A pipe's output unattended, then read again in two ways; and read while it comes."""
    flood = Flood(int(4096 * scale))
    raw = flood.speed(baseline.pipe_to_file(flood.command, daemon.path))
    figures = []

    def note(name: str, span: Span, readers: int = 1) -> None:
        speed = flood.speed(span.seconds) * readers
        figures.append(Figure(name, speed, "MB/s", raw, span.cpu))

    with daemon.client() as client:
        session, span = _written(daemon, client, flood.command, "pipes")
        note("pipe, unattended", span)
        for name, read in (("replay by SSE", client.stream), ("replay by pages", client.pages)):
            read_back, span = _read(daemon, session, read)
            note(name, span)
            flood.check(read_back)
        client.call("DELETE", f"/{session}")

        with timed(daemon) as span:
            session = client.create(flood.command)
            read_back = client.stream(session)
        note("pipe, one SSE reader", span)
        flood.check(read_back)
        client.call("DELETE", f"/{session}")

        with timed(daemon) as span:
            session = client.create(flood.command)
            checksums = _checksums(daemon, session, _READERS)
        note(f"pipe, {_READERS} SSE readers, sum", span, _READERS)
        flood.check(_check_text(client, session, checksums))
        client.call("DELETE", f"/{session}")

        session, span = _written(daemon, client, flood.command, "pipes", _RETAINED)
        note("pipe, unattended, 64 MiB retained", span)
        earliest = client.call("GET", f"/{session}")["cursor"]["earliest"]
        flood.check_end(client.stream(session, earliest - 1), _RETAINED * 3 // 4)
    return figures


def terminal(daemon: Daemon, scale: float) -> list[Figure]:
    """A terminal's output, unattended and read while it comes."""
    flood = Flood(int(1024 * scale))
    raw = flood.speed(baseline.terminal_to_file(flood.raw_terminal, daemon.path))
    with daemon.client() as client:
        session, alone = _written(daemon, client, flood.raw_terminal, "pty")
        flood.check(client.stream(session))
        with timed(daemon) as read:
            read_back = client.stream(client.create(flood.raw_terminal, "pty"))
        flood.check(read_back)
    return [
        Figure("terminal, unattended", flood.speed(alone.seconds), "MB/s", raw, alone.cpu),
        Figure("terminal, one SSE reader", flood.speed(read.seconds), "MB/s", raw, read.cpu),
    ]


def lines(daemon: Daemon, scale: float) -> list[Figure]:
    """Many small writes, each a line."""
    written = Lines(int(200_000 * scale))
    raw = baseline.pipe_to_file(written.command, daemon.path)
    with daemon.client() as client:
        session, span = _written(daemon, client, written.command, "pipes")
        written.check(client.stream(session))
    name = f"{written.count:,} flushed lines"
    return [
        Figure(name, span.seconds, "s", raw, span.cpu),
        Figure(f"{name}, daemon's CPU", span.cpu, "s"),
    ]


def _written(
    daemon: Daemon, client: Client, command: list[str], mode: str, max_bytes: int = 1 << 30
) -> tuple[str, Span]:
    with timed(daemon) as span:
        session = client.create(command, mode, max_bytes)
        client.wait_exited(session)
    return session, span


def _read(daemon: Daemon, session: str, read: Callable[[str], Output]) -> tuple[Output, Span]:
    with timed(daemon) as span:
        read_back = read(session)
    return read_back, span


def _checksums(daemon: Daemon, session: str, readers: int) -> list[int]:
    """Of the texts of so many streams at once.

    To decode all of them would measure this side: of the text it is read what it is.
    """
    checksums: list[int] = []

    def read(client: Client) -> None:
        checksum = 0
        for part in client.frames(session):
            checksum = zlib.crc32(part, checksum)
        checksums.append(checksum)

    on_connections(str(daemon.address), readers, read)
    return checksums


def _check_text(client: Client, session: str, checksums: list[int]) -> Output:
    """Read a text that is decoded once more; raises `RuntimeError` where others were different."""
    output, checksum, tail = Output(), 0, b""
    for part in client.frames(session):
        checksum = zlib.crc32(part, checksum)
        whole, end, tail = (tail + part).rpartition(b"\n\n")
        output.take(whole + end)
    if set(checksums) != {checksum}:
        raise RuntimeError(f"streams of the same events differ: {checksums}, not {checksum}")
    return output
