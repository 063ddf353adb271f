"""Socket activation: the protocol with descriptors that are inherited, and systemd's own tool."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from s0d.daemon.activation import _adopt, inherited
from s0d.model.errors import InvalidRequest
from tests.support.daemon import TOKEN

PATIENCE = 30.0


def test_nothing_was_passed() -> None:
    pid = os.getpid()
    for environ in ({}, {"LISTEN_FDS": "1"}, {"LISTEN_FDS": "1", "LISTEN_PID": str(pid + 1)}):
        assert inherited(environ, pid) == []
        assert environ == {}


START = """
import os, sys
os.environ["LISTEN_PID"] = str(os.getpid())
sys.argv = ["s0d", "serve", *sys.argv[1:]]
from s0d.__main__ import main
sys.exit(main())
"""


def start(
    directory: Path, sockets: list[socket.socket], names: str, *flags: str
) -> subprocess.Popen[bytes]:
    """A daemon that finds `sockets` from descriptor 3 on."""
    count = len(sockets)
    high = [os.dup(sock.fileno()) for sock in sockets]

    def arrange() -> None:
        parked = [os.dup2(fd, 100 + at) for at, fd in enumerate(high)]
        for at, fd in enumerate(parked):
            os.dup2(fd, 3 + at)

    log = os.open(directory / "log", os.O_WRONLY | os.O_CREAT, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-c", START, "--state-dir", str(directory / "state"), *flags],
            preexec_fn=arrange,
            close_fds=False,
            stderr=log,
            env={
                **{k: v for k, v in os.environ.items() if not k.startswith("S0D_")},
                "S0D_TOKEN": TOKEN,
                "S0D_RUNTIME_DIR": str(directory / "run"),
                "LISTEN_FDS": str(count),
                "LISTEN_FDNAMES": names,
            },
        )
    finally:
        for fd in (*high, log):
            os.close(fd)


def answers(directory: Path, process: subprocess.Popen[bytes], path: str, port: int) -> None:
    """Both sockets; a connection waits from before the daemon is there."""
    transport = httpx.HTTPTransport(uds=path)
    with httpx.Client(transport=transport, timeout=PATIENCE) as client:
        answer = client.get("http://localhost/api/v1/sessions")
        assert answer.status_code == 200, (directory / "log").read_text()
        body = {"command": ["sh", "-c", "env; ls -l /proc/self/fd"]}
        session = client.post("http://localhost/api/v1/sessions", json=body).json()["data"]["id"]
        wait = {"for": {"exit": True}, "timeout_ms": 20_000}
        client.post(f"http://localhost/api/v1/sessions/{session}/wait", json=wait)
        events = client.get(f"http://localhost/api/v1/sessions/{session}/events").json()
    import base64

    output = b"".join(
        base64.b64decode(e["data_base64"]) for e in events["data"]["events"] if "data_base64" in e
    )
    assert b"LISTEN_" not in output
    assert b"socket:" not in output
    url = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{url}/healthz", timeout=PATIENCE).status_code == 200
    assert httpx.get(f"{url}/api/v1/sessions", timeout=PATIENCE).status_code == 401
    process.terminate()
    assert process.wait(PATIENCE) == 0


def test_both_sockets_by_name(short_dir: Path) -> None:
    path = str(short_dir / "s")
    with (
        socket.socket(socket.AF_UNIX) as unix,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        unix.bind(path)
        unix.listen()
        process = start(short_dir, [unix, tcp], "unix:tcp")
        try:
            answers(short_dir, process, path, tcp.getsockname()[1])
        finally:
            process.kill()
            process.wait()
        assert os.path.exists(path)  # it is systemd's
        assert not (short_dir / "run" / "s0d.sock").exists()


@pytest.mark.parametrize("names", ["tcp:unix", "unix:unix"])
def test_a_name_that_is_not_the_sockets(short_dir: Path, names: str) -> None:
    with (
        socket.socket(socket.AF_UNIX) as unix,
        socket.create_server(("127.0.0.1", 0)) as tcp,
    ):
        unix.bind(str(short_dir / "s"))
        unix.listen()
        process = start(short_dir, [unix, tcp], names)
        assert process.wait(PATIENCE) == 1
    log = (short_dir / "log").read_text()
    assert "not a listening" in log.splitlines()[-1]
    assert len(log.splitlines()) == 1


def test_what_is_no_listening_socket(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        passed = os.dup(ours.fileno())
        with pytest.raises(InvalidRequest, match="not a listening unix socket"):
            _adopt(passed, "unix")
    read, write = os.pipe()
    with pytest.raises(InvalidRequest, match="not a socket"):
        _adopt(read, "unix")
    os.close(read)
    os.close(write)


@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="no systemd-socket-activate here"
)
def test_with_systemds_own_tool(short_dir: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path = str(short_dir / "s")
    environment = {
        "S0D_TOKEN": TOKEN,
        "S0D_RUNTIME_DIR": str(short_dir / "run"),
        "TMPDIR": str(short_dir),
    }
    log = os.open(short_dir / "log", os.O_WRONLY | os.O_CREAT, 0o600)
    process = subprocess.Popen(
        [
            *("systemd-socket-activate", f"--listen={path}", f"--listen=127.0.0.1:{port}"),
            "--fdname=unix:tcp",
            *(f"--setenv={name}={value}" for name, value in environment.items()),
            *(sys.executable, "-m", "s0d", "serve", "--state-dir", str(short_dir / "state")),
        ],
        stderr=log,
        cwd=Path(__file__).parents[2],
    )
    os.close(log)
    try:
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(path):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        answers(short_dir, process, path, port)
    finally:
        process.kill()
        process.wait()


def test_addresses_that_were_asked_for_stay(short_dir: Path) -> None:
    path, other = str(short_dir / "s"), short_dir / "other"
    with socket.socket(socket.AF_UNIX) as unix:
        unix.bind(path)
        unix.listen()
        process = start(
            short_dir, [unix], "unix", "--listen", f"unix:{other}", "--log-format", "json"
        )
        try:
            for each in (path, str(other)):
                transport = httpx.HTTPTransport(uds=path)
                with httpx.Client(transport=transport, timeout=PATIENCE) as client:
                    assert client.get("http://localhost/healthz").status_code == 200, each
            process.terminate()
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()
            process.wait()
    lines = [json.loads(line) for line in (short_dir / "log").read_text().splitlines()]
    (serving,) = (line for line in lines if line["message"] == "serving")
    assert serving["listen"].split() == [f"unix:{path}", f"unix:{other}"]
