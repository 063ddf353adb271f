"""Malformed HTTP/2 over TLS: the daemon lives, and is after it what it was before."""

from __future__ import annotations

import contextlib
import os
import random
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import h2.config
import h2.connection
import pytest

from tests.e2e.test_metrics import run, settled
from tests.e2e.test_tls import Authority, client
from tests.fuzz.test_http import PATIENCE, state
from tests.support.daemon import TOKEN, Daemon

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, PING, RST, CONTINUATION, HEADERS, DATA = 4, 6, 3, 9, 1, 0
BODY = b'{"command":["true"]}'


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame as RFC 9113 section 4.1 has it, right or wrong."""
    head = len(payload).to_bytes(3, "big") + bytes([kind & 255, flags & 255])
    return head + (stream & 0xFFFFFFFF).to_bytes(4, "big") + payload


def requests(session: str) -> list[bytes]:
    """What an honest client sends after its preface, frame for frame, for some requests."""
    told = []
    for method, path, body in [
        ("GET", "/healthz", b""),
        ("GET", f"/api/v1/sessions/{session}/events?limit=5", b""),
        ("GET", f"/api/v1/sessions/{session}/events/stream", b""),
        ("POST", "/api/v1/sessions", BODY[:-1]),
        ("POST", f"/api/v1/sessions/{session}/signals", b'{"signal":"CONT"}'),
    ]:
        honest = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        honest.initiate_connection()
        honest.clear_outbound_data_buffer()
        for stream in (1, 3, 5):
            head = [(":method", method), (":path", path), (":scheme", "https")]
            head += [(":authority", "localhost"), ("authorization", f"Bearer {TOKEN}")]
            if body:
                head += [("content-type", "application/json")]
            honest.send_headers(stream, head, end_stream=not body)
            if body:
                honest.send_data(stream, body, end_stream=True)
        told.append(honest.data_to_send())
    return told


def floods(random_: random.Random) -> bytes:
    """Many of one kind: known ways to make a server work, or wait, for nothing."""
    many = random_.randrange(1, 3000)
    block = b"\x82\x84\x87\x41\x09localhost"  # GET / https localhost, by RFC 7541
    return random_.choice(
        [
            frame(PING, 0, 0, bytes(8)) * many,
            frame(SETTINGS, 0, 0, b"\x00\x01\x00\x00\x10\x00") * many,
            frame(HEADERS, 0, 1, block) + frame(CONTINUATION, 0, 1, b"\x40\x01x\x01y") * many,
            frame(DATA, 0, 1, b"") * many,
            frame(8, 0, 0, b"\x7f\xff\xff\xff") * 2,
            frame(2, 0, 3, b"\x00\x00\x00\x03\xff") * many,
            frame(16, 0, 0, b"\x00\x00\x00\x01u=1") * many,
            b"".join(
                frame(HEADERS, 5, stream, block) + frame(RST, 0, stream, b"\x00\x00\x00\x08")
                for stream in range(1, 2 * min(many, 400), 2)
            ),
            frame(HEADERS, 5, 1, b"\x3f\xe1\xff\x7f" + b"\x40\x81\xff\x84" + b"\xff" * 200),
            frame(HEADERS, 5, 1, block + b"\x00\x01x\x7f\x80\x7f" + b"y" * 16_000),
        ]
    )


def mutate(data: bytes, random_: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random_.choice((0, 1, 1, 2, 4))):
        at = random_.randrange(len(changed) + 1)
        kind = random_.randrange(5)
        if kind == 0:
            wrong = random_.randbytes(random_.randrange(40))
            stream = random_.choice((0, 1, 2, 3, 2**31))
            changed[at:at] = frame(random_.randrange(20), random_.randrange(256), stream, wrong)
        elif kind == 1:
            changed[at:at] = floods(random_)
        elif kind == 2 and changed:
            changed[at % len(changed)] = random_.randrange(256)
        elif kind == 3:
            del changed[at : at + random_.randrange(1, 30)]
        else:
            del changed[at:]
    return bytes(changed)


def poke(daemon: Daemon, context: ssl.SSLContext, data: bytes, random_: random.Random) -> None:
    """Send it, look at some of the answer or not, and leave without a word."""
    with (
        contextlib.suppress(OSError),
        socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as plain,
        context.wrap_socket(plain, server_hostname="localhost") as secure,
    ):
        assert secure.selected_alpn_protocol() == "h2"
        secure.settimeout(0.05)
        secure.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
        cut = random_.randrange(len(data) + 1)
        for part in (data[:cut], data[cut:]):
            if part:
                secure.sendall(part)
        while random_.random() < 0.6 and secure.recv(65536):
            pass


@pytest.mark.parametrize("seconds", [8, pytest.param(300, marks=pytest.mark.long)])
def test_it_lives_on(make_daemon: Callable[..., Daemon], tmp_path: Path, seconds: int) -> None:
    """Descriptors and children are back where they were; memory stays within 40 MB of it."""
    authority = Authority(tmp_path)
    env = {"S0D_DAEMON_LIMITS_HEADER_SECONDS": "1", "S0D_DAEMON_LIMITS_BODY_SECONDS": "1"}
    daemon = make_daemon("--no-access-log", env={**authority.settings, **env})
    daemon.start()
    context = authority.context()
    context.set_alpn_protocols(["h2"])
    session = run(daemon, "sleep", "1000000")
    seed = int.from_bytes(os.urandom(4), "big")
    random_ = random.Random(seed)
    patterns = requests(session)

    def fuzz(seconds: float) -> int:
        count, end = 0, time.monotonic() + seconds
        while time.monotonic() < end:
            poke(daemon, context, mutate(random_.choice(patterns), random_), random_)
            count += 1
        return count

    fuzz(3)
    settled(daemon)
    before = state(daemon)
    count = fuzz(seconds)
    settled(daemon)
    deadline = time.monotonic() + 30  # a file being synced is open a moment longer
    while (after := state(daemon))[0] > before[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert count > 2 * seconds, f"seed {seed}"
    with client(daemon, authority.context(), http2=True) as honest:
        answer = honest.get(f"https://127.0.0.1:{daemon.port}/healthz")
        assert (answer.status_code, answer.http_version) == (200, "HTTP/2")
    assert after[0] <= before[0], f"seed {seed}"
    assert after[1] == before[1], f"seed {seed}"
    assert after[2] - before[2] < 40 << 20, f"seed {seed}"
    bugs = [line for line in daemon.log() if line["level"] in ("error", "critical")]
    assert bugs == [], f"seed {seed}"
