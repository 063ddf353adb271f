"""The threats of docs/security.md that want a real daemon; each row there names its tests."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from tests.e2e.test_authorization import unix
from tests.e2e.test_limits import limited
from tests.e2e.test_metrics import run, scrape, until
from tests.support.daemon import TOKEN, Daemon
from tests.support.leftovers import processes_with

MakeDaemon = Callable[..., Daemon]
PATIENCE = 30.0
UPGRADE = (
    b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n"
)


def raw(daemon: Daemon, data: bytes) -> bytes:
    """What the daemon says to bytes on TCP, until it hangs up."""
    with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as sock:
        sock.sendall(data)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            while part := sock.recv(65536):
                said += part
                if b"\r\n\r\n" in said and b"101" not in said[:12]:
                    break
    return said


def head(daemon: Daemon, path: str, *lines: str, upgrade: bool = False) -> bytes:
    fields = [f"GET {path} HTTP/1.1", *lines, f"Authorization: Bearer {TOKEN}"]
    return "\r\n".join(fields).encode("latin-1") + b"\r\n" + (UPGRADE if upgrade else b"") + b"\r\n"


def memory(daemon: Daemon) -> int:
    """Resident bytes."""
    fields = Path(f"/proc/{daemon.pid}/statm").read_text().split()
    return int(fields[1]) * resource.getpagesize()


def is_quick(daemon: Daemon) -> None:
    """Another client is answered soon, whatever goes on."""
    worst = 0.0
    with unix(daemon) as client:
        for _ in range(10):
            began = time.monotonic()
            assert client.get("/sessions").status_code == 200
            worst = max(worst, time.monotonic() - began)
    assert worst < 2


@pytest.mark.parametrize("upgrade", [False, True])
def test_a_rebound_name_reaches_nothing(daemon: Daemon, upgrade: bool) -> None:
    """`evil.example` that resolves to 127.0.0.1: even a valid token does not help it."""
    for host in ("evil.example", f"evil.example:{daemon.port}", "localhost.evil.example", ""):
        said = raw(daemon, head(daemon, "/api/v1/sessions", f"Host: {host}", upgrade=upgrade))
        assert said.startswith(b"HTTP/1.1 421"), said
    said = raw(daemon, head(daemon, "/api/v1/sessions", f"Host: localhost:{daemon.port}"))
    assert said.startswith(b"HTTP/1.1 200")


def test_a_web_page_opens_no_websocket(daemon: Daemon) -> None:
    session = run(daemon, "cat")
    for path in (f"/api/v1/sessions/{session}/ws", "/v1/sandbox/local/exec"):
        for line in ("Origin: http://evil.example", "Origin: null", "Sec-Fetch-Site: cross-site"):
            said = raw(daemon, head(daemon, path, "Host: localhost", line, upgrade=True))
            assert said.startswith(b"HTTP/1.1 403"), said
        own = f"Origin: http://localhost:{daemon.port}"
        with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as sock:
            sock.sendall(head(daemon, path, f"Host: localhost:{daemon.port}", own, upgrade=True))
            assert sock.recv(4096).startswith(b"HTTP/1.1 101")
    said = raw(daemon, head(daemon, "/api/v1/sessions", "Host: localhost"))
    assert b"access-control-" not in said.lower()  # no CORS


def test_a_token_in_a_url_is_none(daemon: Daemon) -> None:
    for query in (f"token={TOKEN}", f"access_token={TOKEN}", f"authorization=Bearer%20{TOKEN}"):
        answer = httpx.get(f"{daemon.url}/api/v1/sessions?{query}")
        assert answer.status_code == 401
    assert TOKEN not in daemon.log_file.read_text()


def test_links_in_the_state_directory_lead_nowhere(make_daemon: MakeDaemon, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "precious").write_text("here")
    daemon = make_daemon()
    daemon.start()
    with unix(daemon) as client:
        client.post("/sandboxes", json={"id": "box"})
        client.post("/sandboxes/box/sessions", json={"command": ["true"]})
        session = run(daemon, "true")
        until(daemon, session, {"exit": True})
        (root,) = daemon.state_dir.glob("roots/box*")
        (root / "link").symlink_to(victim)
        (found,) = (p for p in daemon.state_dir.rglob(session) if p.is_dir())
        (found / "planted").symlink_to(victim)
        assert client.delete("/sandboxes/box").status_code == 202
        assert client.delete(f"/sessions/{session}").status_code == 200
    assert (victim / "precious").read_text() == "here"
    assert not found.exists()
    assert daemon.stop() == 0
    for name in ("token", "tokens.json"):
        (daemon.state_dir / name).unlink(missing_ok=True)
        (victim / name).write_text("planted-token-planted-token")
        (victim / name).chmod(0o600)
        (daemon.state_dir / name).symlink_to(victim / name)
    daemon.start()
    assert httpx.get(f"{daemon.url}/healthz").status_code == 200
    headers = {"Authorization": "Bearer planted-token-planted-token"}
    assert httpx.get(f"{daemon.url}/api/v1/sessions", headers=headers).status_code == 401
    done = daemon.cli("token", "list", "--state-dir", str(daemon.state_dir))
    assert done.returncode == 1


def test_a_state_directory_that_is_a_link_or_open_to_others(short_dir: Path) -> None:
    (short_dir / "real").mkdir(mode=0o700)
    (short_dir / "link").symlink_to(short_dir / "real")
    (short_dir / "open").mkdir()
    (short_dir / "open").chmod(0o755)
    for name in ("link", "open"):
        done = subprocess.run(
            [
                *(sys.executable, "-m", "s0d", "serve", "--state-dir", str(short_dir / name)),
                *("--listen", f"unix:{short_dir}/sock"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "S0D_TOKEN": TOKEN},
        )
        assert done.returncode == 1
        assert str(short_dir / name) in done.stderr


FLOOD = r"""
import os, random
parts = [b"\x1b[" + b"9" * 300, b"\x1b]0;" + b"t" * 3000, b"\x1bP" + b"q" * 500, b"\x1b[?1049h",
         b"\x1b[999999999b", b"\x1b[2147483647;2147483647H", b"\x1b[1;1r", b"\xff\xfe\x80",
         b"\x1b[?2004h", "\u200d\ufe0f\u4e16".encode() * 40, b"\x9b31m", b"\x1b_", b"\x18",
         b"\r\n" * 50]
choose = random.Random(1)
for _ in range(%d):
    os.write(1, b"".join(choose.choice(parts) for _ in range(400)))
print("\x18\x1bcEND", flush=True)
import time; time.sleep(1000)
"""


def test_a_flood_of_escapes(daemon: Daemon) -> None:
    """Others are answered meanwhile, memory stays, and the screen is there in the end."""
    session = run(daemon, sys.executable, "-c", FLOOD % 200, io={"mode": "pty"})
    until(daemon, session, {"output": "END"})
    with unix(daemon) as client:
        assert client.get(f"/sessions/{session}/screen", timeout=60).status_code == 200
        before = memory(daemon)
        endless = run(daemon, sys.executable, "-c", FLOOD % (1 << 40), io={"mode": "pty"})
        for _ in range(5):
            is_quick(daemon)
        assert memory(daemon) - before < 150 << 20
        assert client.delete(f"/sessions/{endless}").status_code == 200
        screen = client.get(f"/sessions/{session}/screen?scrollback=1000", timeout=60)
        assert "END" in screen.text
        assert len(screen.json()["data"]["title"]) < 10_000


FORKS = """
i=0; while [ $i -lt 40 ]; do
  (j=0; while [ $j -lt 15 ]; do
    (trap '' TERM HUP; setsid sleep 1000 & sleep 1000) & j=$((j+1)); done; wait) &
  i=$((i+1)); done; echo forked; wait
"""


@pytest.mark.parametrize("arguments", [(), ("--no-cgroups",)])
def test_a_storm_of_forks_ends_whole(make_daemon: MakeDaemon, arguments: tuple[str, ...]) -> None:
    daemon = make_daemon(*arguments)
    daemon.start()
    grace = {"stop_grace_period_seconds": 1}
    session = run(daemon, "sh", "-c", FORKS, lifecycle=grace)
    until(daemon, session, {"output": "forked"})
    is_quick(daemon)
    with unix(daemon) as client:
        stopped = client.put(f"/sessions/{session}/desired-state", json={"state": "stopped"})
        assert stopped.status_code == 200
    assert processes_with(f"S0D_SESSION_ID={session}") == []


def test_a_child_that_uses_up_its_descriptors(daemon: Daemon) -> None:
    script = """
import os, time
try:
    while True:
        os.open("/dev/null", 0)
except OSError as error:
    print(error.errno, flush=True)
time.sleep(1000)
"""
    sessions = [run(daemon, sys.executable, "-c", script) for _ in range(3)]
    for session in sessions:
        until(daemon, session, {"output": "24\n"})
    is_quick(daemon)
    run(daemon, "true")


def test_clients_that_use_up_the_daemons_descriptors(make_daemon: MakeDaemon) -> None:
    """EMFILE is waited out: who is connected is served, who comes later waits."""
    daemon = make_daemon()
    daemon.start()
    session = run(daemon, "cat")
    with unix(daemon) as early, ExitStack() as stack:
        assert early.get("/sessions").status_code == 200
        used = len(os.listdir(f"/proc/{daemon.pid}/fd"))
        soft, hard = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (used + 20, hard))
        for _ in range(60):
            sock = stack.enter_context(socket.socket(socket.AF_UNIX))
            sock.connect(str(daemon.socket))
        for _ in range(5):
            assert early.get(f"/sessions/{session}").status_code == 200
        refused = early.post("/sessions", json={"command": ["true"]})
        assert refused.status_code in (201, 429, 503)
        stack.close()
        assert early.get("/sessions").status_code == 200
    resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE, (soft, hard))
    with unix(daemon) as later:
        assert later.get(f"/sessions/{session}").status_code == 200
        assert later.post("/sessions", json={"command": ["true"]}).status_code == 201


def test_slow_clients_are_cut(make_daemon: MakeDaemon) -> None:
    """Heads, bodies and handshakes that never end; a frame that never ends holds up nobody."""
    daemon = limited(make_daemon, header_seconds=1, body_seconds=1)
    session = run(daemon, "cat")
    partial = [
        b"G",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ",
        head(daemon, f"/api/v1/sessions/{session}/ws", "Host: localhost", upgrade=True)[:-4],
        head(daemon, "/api/v1/sessions", "Host: localhost")
        .replace(b"GET", b"POST", 1)
        .replace(
            b"\r\n\r\n", b"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
        ),
    ]
    with ExitStack() as stack:
        socks = []
        for data in partial:
            sock = stack.enter_context(
                socket.create_connection(("127.0.0.1", daemon.port), PATIENCE)
            )
            sock.sendall(data)
            socks.append(sock)
        began = time.monotonic()
        for sock in socks:
            with contextlib.suppress(ConnectionResetError):
                while sock.recv(4096):
                    pass
        assert time.monotonic() - began < 8
        slow = stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port), PATIENCE))
        slow.sendall(
            head(daemon, f"/api/v1/sessions/{session}/ws", "Host: localhost", upgrade=True)
        )
        assert b"101" in slow.recv(12)
        slow.sendall(b"\x81\xfe\xff\xff\x00\x00\x00\x00" + b"x")  # of 65,535 bytes
        is_quick(daemon)


def test_oversized_everything(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, body_bytes=1 << 20, message_bytes=1 << 16)
    session = run(daemon, "cat")
    before = memory(daemon)
    for request in (
        b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * (1 << 20) + b"\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100_000 + b"\r\n",
        b"GET /healthz HTTP/1.1\r\n" + b"a" * (1 << 20) + b": x\r\n\r\n",
    ):
        with contextlib.suppress(ConnectionError):
            assert raw(daemon, request).split()[1] in (b"400", b"413", b"431")
    with unix(daemon) as client:
        deep = b'{"command":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
        headers = {"Content-Type": "application/json"}
        assert client.post("/sessions", content=deep, headers=headers).status_code == 400
        for spec in (
            {"command": ["x"] * 5000},
            {"command": ["x", "y" * 900_000, "z" * 200_000]},
            {"command": ["x"], "name": "n" * 300},
            {"command": ["x"], "readiness": {"type": "output", "output": "o" * 70_000}},
            {"command": ["x"], "lifecycle": {"idle_timeout_seconds": 1 << 40}},
        ):
            assert client.post("/sessions", json=spec).status_code in (400, 413)
        long_key = {"Idempotency-Key": "k" * 300}
        refused = client.post("/sessions", json={"command": ["true"]}, headers=long_key)
        assert refused.status_code == 400
        many = client.get(f"/sessions/{session}/events?limit=99999999999999999999")
        assert many.status_code == 400
    with socket.create_connection(("127.0.0.1", daemon.port), PATIENCE) as sock:
        sock.sendall(
            head(daemon, f"/api/v1/sessions/{session}/ws", "Host: localhost", upgrade=True)
        )
        sock.sendall(b"\x81\xff" + (1 << 40).to_bytes(8, "big") + b"\x00" * 4)
        said = b""
        with contextlib.suppress(ConnectionResetError):
            for _ in range(200):
                sock.sendall(b"x" * (1 << 16))
        with contextlib.suppress(ConnectionResetError):
            while part := sock.recv(65536):
                said += part
        assert (1009).to_bytes(2, "big") in said or not said.endswith(b"}")
    assert memory(daemon) - before < 100 << 20
    is_quick(daemon)


@pytest.mark.parametrize(
    "value", ["a\r\nSet-Cookie: x=1", "a\nX-Evil: 1", "a\x00b", "a\x1b[31m", "é", "x" * 200, "a b"]
)
def test_a_request_id_injects_nothing(daemon: Daemon, value: str) -> None:
    said = raw(daemon, head(daemon, "/healthz", "Host: localhost", f"X-Request-Id: {value}"))
    answered = said.partition(b"\r\n\r\n")[0].lower()
    assert answered.count(b"x-request-id:") <= 1
    for evil in (b"set-cookie", b"x-evil", b"\x1b", b"\x00"):
        assert evil not in answered
    assert b"x-request-id: a b" not in answered
    assert b"x" * 200 not in answered


def test_a_sessions_name_forges_no_line_of_the_log(make_daemon: MakeDaemon) -> None:
    daemon = make_daemon("--log-level", "debug")
    daemon.start()
    evil = 'x\n2026-01-01T00:00:00.000Z CRITICAL s0d: forged\r\x1b[2J\u2028{"level": "critical"}'
    session = run(daemon, "/nonexistent\nforged", name=evil)
    with unix(daemon) as client:
        client.get("/sessions", params={"name": evil})
        client.get("/sessions", headers={"User-Agent": "x", "X-Request-Id": "forged"})
        client.delete(f"/sessions/{session}")
    assert daemon.stop() == 0
    text = daemon.log_file.read_bytes()
    assert b"\x1b" not in text
    assert b"\r" not in text
    assert text.decode().count("\n") == len(text.decode().splitlines())
    for line in text.decode().splitlines():
        assert json.loads(line)["level"] != "critical"


def test_refusals_are_seen(daemon: Daemon) -> None:
    raw(daemon, head(daemon, "/api/v1/sessions", "Host: evil.example"))
    assert scrape(daemon)["s0d_http_refusals_total"][("misdirected_request",)] == 1
