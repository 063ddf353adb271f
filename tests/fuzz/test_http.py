"""Malformed HTTP and WebSocket traffic: the daemon lives, and is after it what it was before."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import socket
import time
from pathlib import Path

import httpx
import pytest

from tests.e2e.test_metrics import run, settled
from tests.support.daemon import TOKEN, Daemon

PATIENCE = 10.0
AUTH = f"Authorization: Bearer {TOKEN}".encode()
HANDSHAKE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
BODY = b'{"command":["true"]}'


def seeds(session: str) -> list[bytes]:
    """Requests that are right; what is sent is what becomes of them."""
    one = b"/api/v1/sessions/" + session.encode()
    named = b"/v1/sandbox/local"

    def get(path: bytes) -> bytes:
        return b"GET " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + AUTH + b"\r\n"

    def post(path: bytes, body: bytes) -> bytes:
        head = b"POST " + path + b" HTTP/1.1\r\nHost: localhost\r\n" + AUTH
        head += b"\r\nContent-Type: application/json\r\n"
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body

    chunked = post(b"/api/v1/sessions", b"").replace(
        b"Content-Length: 0", b"Transfer-Encoding: chunked"
    )
    frames = b"\x81\x85\x00\x00\x00\x00hello\x89\x80\x00\x00\x00\x00\x82\x81\x00\x00\x00\x00x"
    start = b'{"type":"START"}'
    framed = b"\x81" + bytes([0x80 | len(start)]) + bytes(4) + start + b"\x82\x81\x00\x00\x00\x00x"
    return [
        get(b"/healthz") + b"\r\n",
        get(one + b"/events?limit=10&after=0") + b"\r\n",
        get(one + b"/events/stream") + b"\r\n",
        get(b"/metrics") + b"Expect: 100-continue\r\n\r\n",
        post(b"/api/v1/sessions/" + session.encode() + b"/signals", b'{"signal":"CONT"}'),
        post(one + b"/inputs", b'{"input_id":"x","data_base64":"QUFB"}'),
        post(b"/mcp", b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'),
        chunked + b"%x\r\n" % len(BODY) + b"{}" * 10 + b"\r\n0\r\n\r\n",
        get(one + b"/ws") + HANDSHAKE + frames,
        get(named + b"/sessions/fuzzed/attach") + HANDSHAKE + framed,
        get(named + b"/exec") + HANDSHAKE + framed,
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9),
    ]


BITS = [
    b"\r\n", b"\n", b"\r", b"\x00", b" ", b":", b"\xff" * 20, b"Content-Length: -1\r\n",
    b"Content-Length: 99999999999999999999\r\n", b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip, chunked\r\n", b"Host: a\r\nHost: b\r\n", b"Upgrade: h2c\r\n",
    b"\x81\xfe\xff\xff", b"\x88\x82\x00\x00\x00\x00\x03\xe8", b"\xc1\x00", b"\x80\x80", b"\x8f\x00",
    b"Connection: close\r\n", b"Expect: 100-continue\r\n", b"GET / HTTP/0.9\r\n\r\n", b"%2e%2e%2f",
    b"\x81\xff\xff\xff\xff\xff\xff\xff\xff\xff", b"{" * 500, b"X: " + b"y" * 20_000,
]  # fmt: skip


def mutate(data: bytes, random_: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random_.choice((0, 1, 1, 2, 3, 6))):
        at = random_.randrange(len(changed) + 1)
        kind = random_.randrange(5)
        if kind == 0:
            changed[at:at] = random_.choice(BITS)
        elif kind == 1:
            del changed[at : at + random_.randrange(1, 30)]
        elif kind == 2 and changed:
            changed[at % len(changed)] = random_.randrange(256)
        elif kind == 3:
            changed[at:at] = changed[at : at + random_.randrange(1, 60)]
        else:
            del changed[at:]
    return bytes(changed)


def poke(daemon: Daemon, data: bytes, random_: random.Random) -> None:
    """Send it whole or in pieces, look at some of the answer or not, leave politely or not."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", daemon.port)) as sock:
        sock.settimeout(0.02)
        cut = random_.randrange(len(data) + 1)
        for part in (data[:cut], data[cut:]):
            if part:
                sock.sendall(part)
        if random_.random() < 0.7:
            sock.recv(65536)
        if random_.random() < 0.3:
            linger = b"\x01\x00\x00\x00\x00\x00\x00\x00"
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)


def state(daemon: Daemon) -> tuple[int, int, int]:
    """Descriptors, children, resident bytes."""
    fds = len(os.listdir(f"/proc/{daemon.pid}/fd"))
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    resident = int(Path(f"/proc/{daemon.pid}/statm").read_text().split()[1])
    return fds, len(children), resident * resource.getpagesize()


def fuzz(daemon: Daemon, session: str, seconds: float, random_: random.Random) -> int:
    patterns, count, end = seeds(session), 0, time.monotonic() + seconds
    while time.monotonic() < end:
        poke(daemon, mutate(random_.choice(patterns), random_), random_)
        count += 1
    return count


@pytest.mark.parametrize("seconds", [8, pytest.param(300, marks=pytest.mark.long)])
def test_it_lives_on(make_daemon: object, seconds: int) -> None:
    """Descriptors and children are back where they were; memory stays within 40 MB of it."""
    env = {"S0D_DAEMON_LIMITS_HEADER_SECONDS": "1", "S0D_DAEMON_LIMITS_BODY_SECONDS": "1"}
    daemon: Daemon = make_daemon("--no-access-log", env=env)  # type: ignore[operator]
    daemon.start()
    session = run(daemon, "sleep", "1000000")
    seed = int.from_bytes(os.urandom(4), "big")
    random_ = random.Random(seed)
    fuzz(daemon, session, 4, random_)  # warm: /mcp has been imported, pools are full
    settled(daemon)
    before = state(daemon)
    count = fuzz(daemon, session, seconds, random_)
    settled(daemon)
    deadline = time.monotonic() + 30  # a file being synced is open a moment longer
    while (after := state(daemon))[0] > before[0] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert count > 100 * seconds / 10, f"seed {seed}"
    assert httpx.get(f"{daemon.url}/healthz", timeout=PATIENCE).status_code == 200
    assert after[0] <= before[0], f"seed {seed}"
    assert after[1] == before[1], f"seed {seed}"
    assert after[2] - before[2] < 40 << 20, f"seed {seed}"
    bugs = [line for line in daemon.log() if line["level"] in ("error", "critical")]
    assert bugs == [], f"seed {seed}"
