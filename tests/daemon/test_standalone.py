"""The daemon as a process: signals, readiness, exit codes, what it does to itself and hides."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.conftest import daemons
from tests.support.daemon import TOKEN, Daemon
from tests.support.leftovers import processes_with, wait_for_text

MakeDaemon = Callable[..., Daemon]
UNTIL_KILLED = ("--stop-grace", "1h", "--runtime-recovery", "stop")
STUBBORN = ("sh", "-c", "trap '' TERM; echo up; while :; do sleep 0.05; done")


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    with daemons(forked=False) as make:
        daemon = make()
        daemon.start()
        yield daemon


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_ends_it_in_order(make_program: MakeDaemon, signum: signal.Signals) -> None:
    daemon = make_program()
    daemon.start()
    session = daemon.json("session", "create", "--", "sleep", "1000")
    assert daemon.end(signum) == 0
    assert processes_with(f"S0D_SESSION_ID={session['id']}") == []
    said = [line for line in daemon.log() if line["message"].startswith("stopping")]
    assert [line["signal"] for line in said] == [signum.name]


def test_a_second_signal_does_not_wait_for_sessions(daemon: Daemon) -> None:
    session = daemon.json("session", "create", *UNTIL_KILLED, "--", *STUBBORN)
    assert daemon.process is not None
    daemon.process.terminate()
    wait_for_text(daemon.log_file, '"message": "stopping')
    daemon.process.terminate()
    assert daemon.process.wait(20) == 0
    daemon.process = None
    (killing,) = (line for line in daemon.log() if line["message"] == "killing sessions")
    assert killing["attempts"] == 1
    daemon.start()
    ended = daemon.json("session", "get", session["id"])
    assert ended["runtime_generation"] == session["runtime_generation"] + 1


def test_what_it_does_to_itself(shared_daemon: Daemon) -> None:
    status = Path(f"/proc/{shared_daemon.pid}/status").read_text()
    assert "Umask:\t0077\n" in status
    limits = Path(f"/proc/{shared_daemon.pid}/limits").read_text()
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    soft, hard = line.split()[3:5]
    assert soft == hard
    # Not dumpable: its files in /proc belong to root, whoever it runs as, and ptrace is refused.
    assert os.stat(f"/proc/{shared_daemon.pid}/environ").st_uid == 0
    assert shared_daemon.state_dir.stat().st_mode & 0o777 == 0o700
    assert shared_daemon.socket.stat().st_mode & 0o777 == 0o600


def test_orphans_are_reaped_and_ended(shared_daemon: Daemon) -> None:
    """A grandchild whose parent ends becomes the daemon's: no zombie, and it ends with its tree."""
    script = "(sh -c 'sleep 0.05; exit 3' & ) ; (setsid sleep 1000 &) ; echo up; sleep 0.3"
    done = shared_daemon.cli("run", "--", "sh", "-c", script)
    assert (done.returncode, done.stdout) == (0, b"up\n")
    children = Path(f"/proc/{shared_daemon.pid}/task/{shared_daemon.pid}/children").read_text()
    assert children.split() == []


def test_its_secrets_reach_no_child_and_no_log(shared_daemon: Daemon) -> None:
    done = shared_daemon.cli("run", "--", "env")
    assert TOKEN.encode() not in done.stdout
    names = {line.partition(b"=")[0] for line in done.stdout.splitlines()}
    assert {n for n in names if n.startswith(b"S0D_")} == {
        b"S0D_SESSION_ID",
        b"S0D_ATTEMPT_ID",
        b"S0D_SANDBOX_ID",
    }
    assert TOKEN not in shared_daemon.log_file.read_text()
    assert TOKEN.encode() not in Path(f"/proc/{shared_daemon.pid}/cmdline").read_bytes()


def test_a_second_daemon_is_refused_and_the_first_named(daemon: Daemon) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "s0d", "serve"),
            *("--state-dir", str(daemon.state_dir), "--listen", f"unix:{daemon.directory}/other"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env=daemon.environment,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"s0d: {daemon.state_dir} is in use by process ")
    assert str(daemon.pid) in line


def test_a_socket_that_is_taken(daemon: Daemon, short_dir: Path) -> None:
    done = subprocess.run(
        [
            *(sys.executable, "-m", "s0d", "serve"),
            *("--state-dir", str(short_dir / "state"), "--listen", f"unix:{daemon.socket}"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        env=daemon.environment,
    )
    assert done.returncode == 1
    # Ahead of it the daemon has told how it owns processes here.
    assert (
        done.stderr.splitlines()[-1]
        == f"s0d: [Errno 98] cannot listen on unix:{daemon.socket}: another server answers there"
    )
    assert daemon.json("session", "list") == []


def test_systemd_is_told(make_program: MakeDaemon, short_dir: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(short_dir / "notify"))
        listener.settimeout(20)
        daemon = make_program(env={"NOTIFY_SOCKET": str(short_dir / "notify")})
        daemon.start()
        assert listener.recv(1000).splitlines()[0] == b"READY=1"
        assert b"NOTIFY_SOCKET" not in daemon.cli("run", "--", "env").stdout
        assert daemon.stop() == 0
        while b"STOPPING=1" not in listener.recv(1000).splitlines():
            pass  # a status, or more time


def test_the_token_command_prints_the_daemons_token(make_program: MakeDaemon) -> None:
    daemon = make_program(env={"S0D_TOKEN": ""})
    daemon.start()
    token = daemon.cli("token", "--state-dir", str(daemon.state_dir)).stdout.decode().strip()
    assert token == (daemon.state_dir / "token").read_text().strip()
    listed = daemon.cli("session", "list", "--url", daemon.url, env={"S0D_TOKEN": token})
    assert listed.returncode == 0
    refused = daemon.cli("session", "list", "--url", daemon.url)
    assert (refused.returncode, refused.stdout) == (1, b"")
    assert b"S0D_TOKEN" in refused.stderr


def test_killed_and_started_again(daemon: Daemon) -> None:
    session = daemon.json("session", "create", "--", "sh", "-c", "echo up; exec sleep 1000")
    daemon.kill()
    assert processes_with(f"S0D_SESSION_ID={session['id']}") != []
    daemon.start()
    daemon.json("session", "wait", session["id"], "--phase", "running")
    events = daemon.json("session", "events", session["id"])
    exits = [event for event in events if event["type"] == "attempt.exited"]
    assert [event["reason"] for event in exits] == ["runtime_replaced"]
    sequences = [event["seq"] for event in events]
    assert len(set(sequences)) == len(sequences)
    again = daemon.json("session", "get", session["id"])
    assert again["attempt"]["id"] != session["attempt"]["id"]
    assert len(processes_with(f"S0D_ATTEMPT_ID={session['attempt']['id']}")) == 0
