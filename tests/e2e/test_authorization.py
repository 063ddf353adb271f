"""Tokens, roles, scopes and peers, with a real daemon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import websockets.sync.client as ws_client
from websockets.exceptions import ConnectionClosed

from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

MakeDaemon = Callable[..., Daemon]
PATIENCE = 20.0
CAT = {"command": ["cat"]}


def token_cli(daemon: Daemon, *arguments: str) -> str:
    done = daemon.cli("token", *arguments, "--state-dir", str(daemon.state_dir))
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().strip()


def make_token(daemon: Daemon, name: str, role: str, *arguments: str) -> str:
    return token_cli(daemon, "create", "--name", name, "--role", role, *arguments)


def as_(daemon: Daemon, token: str) -> httpx.Client:
    headers = {"Authorization": f"Bearer {token}"}
    return httpx.Client(base_url=f"{daemon.url}/api/v1", headers=headers, timeout=PATIENCE)


def unix(daemon: Daemon) -> httpx.Client:
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    return httpx.Client(base_url="http://localhost/api/v1", transport=transport, timeout=PATIENCE)


def test_the_story_of_a_token(daemon: Daemon) -> None:
    viewer = make_token(daemon, "look", "viewer")
    operator = make_token(daemon, "ci", "operator", "--sandbox", "local", "--expires", "1h")
    listed = json.loads(token_cli(daemon, "list", "-o", "json"))
    assert [(t["name"], t["role"], t["sandboxes"], t["expired"]) for t in listed] == [
        ("look", "viewer", None, False),
        ("ci", "operator", ["local"], False),
    ]
    table = token_cli(daemon, "list")
    for text in (table, json.dumps(listed), (daemon.state_dir / "tokens.json").read_text()):
        assert viewer not in text
        assert operator not in text
    with as_(daemon, operator) as ci, as_(daemon, viewer) as look:
        made = ci.post("/sessions", json=CAT)
        assert made.status_code == 201
        one = f"/sessions/{made.json()['data']['id']}"
        assert look.get(one).status_code == 200
        assert look.delete(one).status_code == 403
        assert ci.post("/sandboxes", json={"id": "x"}).status_code == 403
        token_cli(daemon, "revoke", "ci")
        gone = ci.get(one)  # on the same connection
        assert (gone.status_code, gone.json()["error"]["code"]) == (401, "unauthorized")
        assert look.get(one).status_code == 200
    assert viewer not in daemon.log_file.read_text()
    assert operator not in daemon.log_file.read_text()
    assert daemon.cli("token", "revoke", "ci", "--state-dir", str(daemon.state_dir)).returncode == 1
    daemon.restart()
    with as_(daemon, viewer) as look:
        assert look.get(one).status_code == 200


def test_what_a_revoked_token_has_open_ends(daemon: Daemon) -> None:
    token = make_token(daemon, "t", "operator")
    with as_(daemon, token) as client:
        session = client.post("/sessions", json=CAT).json()["data"]["id"]
        headers = {"Authorization": f"Bearer {token}"}
        address = daemon.url.replace("http", "ws") + f"/api/v1/sessions/{session}/ws"
        with (
            client.stream("GET", f"/sessions/{session}/events/stream") as events,
            ws_client.connect(address, additional_headers=headers) as socket,
        ):
            lines = events.iter_lines()
            assert next(lines).startswith(":")
            began = time.monotonic()
            token_cli(daemon, "revoke", "t")
            with pytest.raises(httpx.RemoteProtocolError):
                list(lines)
            with pytest.raises(ConnectionClosed) as closed:
                list(iter(lambda: socket.recv(timeout=PATIENCE), None))
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1008, "token revoked")
            assert time.monotonic() - began < 5
    with unix(daemon) as ours:  # and nothing else ends with it
        assert ours.get(f"/sessions/{session}").json()["data"]["phase"] == "running"


def test_an_expired_token(daemon: Daemon) -> None:
    token = make_token(daemon, "short", "viewer", "--expires", "1s")
    with as_(daemon, token) as client, client.stream("GET", "/sessions") as _:
        deadline = time.monotonic() + PATIENCE
        while client.get("/sessions").status_code != 401:
            assert time.monotonic() < deadline
    assert "(expired)" in token_cli(daemon, "list")


def test_a_scoped_token_sees_its_own_sandbox_only(daemon: Daemon) -> None:
    with unix(daemon) as admin:
        for sandbox in ("mine", "theirs"):
            assert admin.post("/sandboxes", json={"id": sandbox}).status_code == 201
        foreign = admin.post("/sandboxes/theirs/sessions", json=CAT).json()["data"]["id"]
        named = {"name": "secret", "cmd": ["cat"]}
        address = "http://localhost/v1/sandbox/theirs/sessions"
        assert admin.post(address, json=named).status_code == 201
    token = make_token(daemon, "mine", "admin", "--sandbox", "mine")
    with as_(daemon, token) as client:
        listed = client.get("/sandboxes").json()["data"]
        assert ([s["id"] for s in listed["sandboxes"]], listed["count"]) == (["mine"], 1)
        assert client.get("/status").status_code == 403  # of the default sandbox
        for path in ("/sandboxes/theirs", f"/sandboxes/theirs/sessions/{foreign}", "/sessions"):
            assert client.get(path).status_code == 403
        # The id of a foreign session, by way of one's own sandbox.
        assert client.get(f"/sandboxes/mine/sessions/{foreign}").status_code == 404
        assert client.delete(f"/sandboxes/mine/sessions/{foreign}").status_code == 404
        assert client.post("/sandboxes/mine/sessions", json=CAT).status_code == 201
        other = client.get(f"{daemon.url}/v1/sandbox/theirs/sessions")
        assert (other.status_code, other.json()["code"]) == (404, "sandbox_not_found")
        tools = mcp(client, daemon, "session_list", {"sandbox_id": "theirs"})
        assert tools["isError"]
        assert "secret" not in json.dumps(tools)
        assert not mcp(client, daemon, "session_list", {"sandbox_id": "mine"})["isError"]
        assert client.delete("/sandboxes/mine").status_code == 202


def mcp(client: httpx.Client, daemon: Daemon, tool: str, arguments: dict[str, Any]) -> Any:
    headers = {
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2025-06-18",
    }
    call = {"name": tool, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = client.post(f"{daemon.url}/mcp", json=body, headers=headers)
    assert answer.status_code == 200, answer.text
    text = answer.text
    if "data:" in text:
        text = next(ln for ln in text.splitlines() if ln.startswith("data:")).removeprefix("data:")
    result = json.loads(text)["result"]
    return {"isError": False, **result}


def test_tokens_over_the_api(daemon: Daemon) -> None:
    with unix(daemon) as admin:
        made = admin.post("/tokens", json={"name": "api", "role": "viewer", "expires_in": 3600})
        assert made.status_code == 201
        secret = made.json()["data"]["token"]
        assert admin.post("/tokens", json={"name": "api", "role": "viewer"}).status_code == 400
        assert admin.post("/tokens", json={"name": "b", "role": "root"}).status_code == 400
        (listed,) = admin.get("/tokens").json()["data"]["tokens"]
        assert "token" not in listed
        with as_(daemon, secret) as viewer:
            assert viewer.get("/sessions").status_code == 200
            assert admin.delete("/tokens/api").json()["data"] == {"revoked": True}
            assert viewer.get("/sessions").status_code == 401
        assert admin.delete("/tokens/api").status_code == 404
    assert secret not in daemon.log_file.read_text()


def test_guessing_is_slowed_down_and_logged_without_the_guess(daemon: Daemon) -> None:
    answers = []
    for number in range(15):
        with as_(daemon, f"guess-{number}") as client:
            answers.append(client.get("/sessions"))
    assert [a.status_code for a in answers] == [401] * 10 + [429] * 5
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 60
    with as_(daemon, daemon.token) as client:
        assert client.get("/sessions").status_code == 429  # nor is a right one looked at
    with unix(daemon) as ours:
        assert ours.get("/sessions").status_code == 200
    assert "guess-" not in daemon.log_file.read_text()
    said = [line for line in daemon.log() if line["message"] == "authentication failed"]
    assert len(said) == 10
    assert {line["client"] for line in said} == {"127.0.0.1"}
    assert all(line["request_id"] for line in said)


ASK = """
import http.client, os, socket, sys
class Unix(http.client.HTTPConnection):
    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(sys.argv[1])
connection = Unix("localhost")
connection.request("GET", "/api/v1/sandboxes/%s/sessions" % sys.argv[2])
answer = connection.getresponse()
print(answer.status, answer.read().decode())
"""


def ask_from_inside(daemon: Daemon, sandbox: str, *before: str, about: str = "local") -> str:
    """What a session's process hears when it connects to the daemon's socket."""
    ask = [sys.executable, "-c", ASK, str(daemon.socket), about]
    done = daemon.cli("--sandbox", sandbox, "run", "--", *before, *ask)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.parametrize("arguments", [(), ("--no-cgroups",)])
def test_a_sessions_processes_are_not_trusted(make_daemon: MakeDaemon, arguments: Any) -> None:
    daemon = make_daemon(*arguments)
    daemon.start()
    hide = ("env", "-i", "PATH=" + os.environ["PATH"])
    for before in ((), ("setsid", "-w"), hide, ("setsid", "-w", *hide)):
        said = ask_from_inside(daemon, "local", *before)
        assert said.startswith("401 ")
        assert "processes of a session" in said
    # A stranger in between: the same program, not started by the daemon.
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(daemon.socket), "local"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "S0D_ATTEMPT_ID": "att-of-another-daemon"},
    )
    assert done.stdout.startswith("200 "), done.stderr


def test_a_sandbox_may_let_its_own_processes_in(make_daemon: MakeDaemon) -> None:
    """As operators of that sandbox, and of no other; one that is not named stays out."""
    daemon = make_daemon(env={"S0D_DAEMON_OWN_PROCESSES": "mine"})
    daemon.start()
    with unix(daemon) as admin:
        for sandbox in ("mine", "theirs"):
            admin.post("/sandboxes", json={"id": sandbox})
    assert ask_from_inside(daemon, "mine", about="mine").startswith("200 ")
    assert ask_from_inside(daemon, "mine", about="theirs").startswith("403 ")
    assert ask_from_inside(daemon, "mine", about="local").startswith("403 ")
    pretend = ("env", "S0D_SANDBOX_ID=mine")
    assert ask_from_inside(daemon, "theirs", *pretend, about="mine").startswith("401 ")
    said = [line for line in daemon.log() if line.get("principal") == "sandbox:mine"]
    assert {line["status"] for line in said} == {200, 403}


@pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("setpriv", "curl"))),
    reason="needs root, setpriv(1) and curl(1)",
)
def test_other_users_of_the_socket(make_daemon: MakeDaemon) -> None:
    """Refused by the socket's mode; where some are named, by who the kernel says it is."""

    def ask(daemon: Daemon, uid: int) -> str:
        daemon.directory.chmod(0o711)
        command = ["setpriv", f"--reuid={uid}", "--regid=65534", "--clear-groups"]
        command += ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", "--unix-socket"]
        command += [str(daemon.socket), "http://localhost/api/v1/sessions"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout

    plain = make_daemon()
    plain.start()
    assert ask(plain, 65534) == "000"
    opened = make_daemon(env={"S0D_DAEMON_SOCKET_USERS": "65534"})
    opened.start()
    assert opened.socket.stat().st_mode & 0o777 == 0o666
    assert ask(opened, 65534) == "200"
    assert ask(opened, 65533) == "401"
    assert ask(opened, 0) == "200"


def test_a_process_that_has_gone_is_not_trusted(daemon: Daemon) -> None:
    """Its descriptor may have been handed to anybody."""
    script = f"""
import os, socket
sock = socket.socket(socket.AF_UNIX)
ours, theirs = socket.socketpair()
if os.fork() == 0:
    sock.connect({str(daemon.socket)!r})
    socket.send_fds(theirs, [b"x"], [sock.fileno()])
    os._exit(0)
_, [fd], _, _ = socket.recv_fds(ours, 1, 1)
os.wait()
sock = socket.socket(fileno=fd)
"""
    ask = "sock.sendall(b'GET /api/v1/sessions HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n')\n"
    ask += "print(sock.recv(65536).decode())\n"
    os.kill(daemon.pid, 19)  # it looks when it accepts: only after the process has gone
    try:
        with subprocess.Popen(
            [sys.executable, "-c", script + "print('ready', flush=True)\n" + ask],
            stdout=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            os.kill(daemon.pid, 18)
            assert process.stdout.readline().startswith("HTTP/1.1 401")
            process.stdout.read()
    finally:
        os.kill(daemon.pid, 18)


def test_no_secret_in_any_place_that_others_can_read(daemon: Daemon) -> None:
    token = make_token(daemon, "t", "admin")
    with as_(daemon, token) as client:
        made = client.post("/sessions", json={"command": ["sh", "-c", "env; cat /proc/$PPID/*"]})
        session = made.json()["data"]["id"]
        waited = client.post(f"/sessions/{session}/wait", json={"phase": ["exited"]})
        events = client.get(f"/sessions/{session}/events").text
        for code in (
            client.get("/sessions/nope").text,
            client.post("/sessions", content=b"{" + token.encode()).text,
            client.get(f"/nowhere/{session}").text,
            events,
            waited.text,
        ):
            assert token not in code
            assert daemon.token not in code
    wait_for_text(daemon.log_file, "serving")
    log = daemon.log_file.read_text()
    assert token not in log
    assert daemon.token not in log
