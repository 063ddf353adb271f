"""Every limit of a real daemon: beyond it a refusal that says when to come again, and no more."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import httpx

from tests.e2e.test_authorization import unix
from tests.e2e.test_metrics import run, scrape, until
from tests.support.daemon import Daemon

MakeDaemon = Callable[..., Daemon]
PATIENCE = 20.0


def limited(make_daemon: MakeDaemon, **limits: object) -> Daemon:
    env = {f"S0D_DAEMON_LIMITS_{name.upper()}": str(value) for name, value in limits.items()}
    daemon = make_daemon(env=env)
    daemon.start()
    return daemon


def check_refused(answer: httpx.Response, code: str = "limit_exceeded", status: int = 429) -> None:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert body.get("code", body.get("error", {}).get("code")) == code
    if status in (429, 503):
        assert int(answer.headers["retry-after"]) >= 1


def test_sessions_sandboxes_and_commands(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, sessions=2, sandboxes=2, execs=1)
    with unix(daemon) as client:
        first = run(daemon, "true")
        run(daemon, "true")
        check_refused(client.post("/sessions", json={"command": ["true"]}))
        client.delete(f"/sessions/{first}")
        run(daemon, "true")
        assert client.post("/sandboxes", json={"id": "a"}).status_code == 201
        check_refused(client.post("/sandboxes", json={"id": "b"}))
        named = "http://localhost/v1/sandbox/a"
        assert (
            client.post(f"{named}/sessions", json={"name": "x", "cmd": ["true"]}).status_code == 201
        )
        assert (
            client.post(f"{named}/sessions", json={"name": "y", "cmd": ["true"]}).status_code == 201
        )
        check_refused(client.post(f"{named}/sessions", json={"name": "z", "cmd": ["true"]}))


def test_attachments_of_a_session_and_in_all(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, attachments=2, all_attachments=3)
    one, two = run(daemon, "sleep", "1000"), run(daemon, "sleep", "1000")
    with ExitStack() as stack, unix(daemon) as client:

        def attach(session: str) -> int:
            stream = client.stream("GET", f"/sessions/{session}/events/stream")
            return stack.enter_context(stream).status_code

        assert [attach(one), attach(one)] == [200, 200]
        check_refused(client.get(f"/sessions/{one}/events/stream"))
        assert attach(two) == 200
        check_refused(client.get(f"/sessions/{two}/events/stream"))
        assert client.get(f"/sessions/{two}/events").status_code == 200  # a page is none
        assert scrape(daemon)["s0d_subscribers"][()] == 3
    deadline = time.monotonic() + PATIENCE
    while scrape(daemon)["s0d_subscribers"][()] > 0:
        assert time.monotonic() < deadline
    with unix(daemon) as client, client.stream("GET", f"/sessions/{two}/events/stream") as again:
        assert again.status_code == 200


def test_bodies_headers_and_messages(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, body_bytes=10_000, header_bytes=4096, input_queue=1000)
    with unix(daemon) as client:
        large = {"command": ["true"], "env": {"A": "x" * 20_000}}
        check_refused(client.post("/sessions", json=large), "request_too_large", 413)
        chunks = (b"x" * 1000 for _ in range(20))
        headers = {"Content-Type": "application/json"}
        answer = client.post("/sessions", content=chunks, headers=headers)
        check_refused(answer, "request_too_large", 413)
        session = run(daemon, "sleep", "1000")
        sent = {"input_id": "1", "data_base64": "QUFB" * 2000}
        full = [
            client.post(f"/sessions/{session}/inputs", json={**sent, "input_id": str(n)})
            for n in range(20)
        ]
        check_refused(full[-1], "input_buffer_full")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(str(daemon.socket))
        sock.sendall(
            b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 10_000 + b"\r\n\r\n"
        )
        assert sock.recv(65536).split(b"\r\n")[0].split()[1] == b"413"
        sock.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n")
        for _ in range(100):  # in pieces: it is not waited for the end
            sock.sendall(b"X: " + b"y" * 100 + b"\r\n")
            time.sleep(0)
        said = b""
        while part := sock.recv(65536):
            said += part
        assert said.split()[1] in (b"400", b"431")
    with unix(daemon) as client:
        assert client.get("http://localhost/healthz").status_code == 200


def test_connections_and_those_that_say_nothing(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, connections=4, connections_per_peer=2, header_seconds=1)
    with ExitStack() as stack:
        silent = [
            stack.enter_context(socket.create_connection(("127.0.0.1", daemon.port)))
            for _ in range(2)
        ]
        with socket.create_connection(("127.0.0.1", daemon.port)) as third:
            third.settimeout(PATIENCE)
            assert third.recv(1) == b""
        with unix(daemon) as client:  # another peer
            assert client.get("http://localhost/healthz").status_code == 200
        began = time.monotonic()
        for sock in silent:
            sock.settimeout(PATIENCE)
            sock.sendall(b"GET /healthz HTTP/1.1\r\n")
        for sock in silent:
            while sock.recv(4096):
                pass
        assert time.monotonic() - began < 5
    assert httpx.get(f"{daemon.url}/healthz").status_code == 200
    assert scrape(daemon)["s0d_connections_refused_total"][()] == 1


def test_the_bytes_of_all_journals(make_daemon: MakeDaemon) -> None:
    """Ten sessions of 1 MiB where 3 MiB are allowed; each may be a segment (64 KiB) beyond."""
    daemon = limited(make_daemon, journal_bytes=3 << 20)
    flood = ("sh", "-c", "head -c 3000000 /dev/zero; echo; echo END")
    sessions = [run(daemon, *flood, event_retention={"max_bytes": 1 << 20}) for _ in range(10)]
    for session in sessions:
        until(daemon, session, {"exit": True})
    retained = scrape(daemon)["s0d_journal_bytes"][()]
    assert retained <= (3 << 20) + 10 * (64 << 10)
    directories = daemon.state_dir.rglob("journal")
    assert len(list(directories)) == 10
    with unix(daemon) as client:
        for session in sessions:
            view = client.get(f"/sessions/{session}").json()["data"]
            assert (view["phase"], view["attempt"]["exit_code"]) == ("exited", 0)
            assert view["cursor"]["earliest"] > 1
            tail = client.get(f"/sessions/{session}/events?tail=50").json()["data"]["events"]
            assert tail[-1]["type"] == "attempt.exited"


def test_the_need_of_descriptors_is_said_at_the_start(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, sessions=100_000_000)
    (said,) = (line for line in daemon.log() if "descriptors" in line["message"])
    assert said["needed"] > said["limit"] > 0
    limits = Path(f"/proc/{daemon.pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    assert int(line.split()[3]) == said["limit"]


def test_requests_that_wait(make_daemon: MakeDaemon) -> None:
    daemon = limited(make_daemon, waits=1)
    session = run(daemon, "cat")
    body = {"for": {"exit": True}, "timeout_ms": 60_000}
    with ExitStack() as stack:
        sock = stack.enter_context(socket.socket(socket.AF_UNIX))
        sock.connect(str(daemon.socket))
        text = httpx.Request("POST", "http://localhost", json=body).read()
        head = f"POST /api/v1/sessions/{session}/wait HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
        sock.sendall(head.encode() + text)
        deadline = time.monotonic() + PATIENCE
        while scrape(daemon)["s0d_waits"][()] < 1:
            assert time.monotonic() < deadline
        with unix(daemon) as client:
            check_refused(client.post(f"/sessions/{session}/wait", json=body))
            client.put(f"/sessions/{session}/desired-state", json={"state": "stopped"})
        sock.settimeout(PATIENCE)
        assert sock.recv(65536).startswith(b"HTTP/1.1 200")
    assert scrape(daemon)["s0d_waits"][()] == 0
