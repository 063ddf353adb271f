"""`s0d attach` where there is no terminal: output, input, exit codes, broken connections."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cutter import Cutter
from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"p{next(_numbers)}"


def create(daemon: Daemon, name: str, script: str, *flags: str) -> None:
    daemon.json("session", "create", "--name", name, *flags, "--", "sh", "-c", script)


def test_what_was_written_then_what_comes_then_how_it_ended(
    shared_daemon: Daemon, name: str
) -> None:
    create(shared_daemon, name, "echo out; echo err >&2; read x; echo got $x; exit 3")
    done = shared_daemon.cli("attach", name, input=b"hello\nmore")
    assert sorted(done.stdout.splitlines()) == [b"err", b"got hello", b"out"]
    assert done.stderr.decode() == f"s0d: {name} exited with code 3\n"
    assert done.returncode == 3
    again = shared_daemon.cli("attach", name, "--no-stdin")
    assert (again.returncode, sorted(again.stdout)) == (3, sorted(done.stdout))


def test_the_end_of_input_is_passed_on(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "wc -c")
    done = shared_daemon.cli("attach", name, input=b"12345")
    assert (done.returncode, done.stdout.split()) == (0, [b"5"])


@pytest.mark.parametrize("flags", [(), ("--read-only",), ("--no-stdin",)])
def test_no_input_is_not_the_end_of_input(
    shared_daemon: Daemon, name: str, flags: tuple[str, ...]
) -> None:
    """/dev/null, and whoever only looks: what is attached to goes on."""
    create(shared_daemon, name, "echo up; read x; echo got $x")
    log = shared_daemon.directory / name
    with open(log, "wb") as out:
        client = subprocess.Popen(
            [sys.executable, "-m", "s0d", "attach", name, *flags],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env=shared_daemon.client_environment,
        )
    wait_for_text(log, "up")
    assert shared_daemon.json("session", "get", name)["attachments"] == 1
    shared_daemon.json("session", "input", name, "--data", "it\n")
    assert client.wait(30) == 0
    assert log.read_text() == f"up\ngot it\ns0d: {name} exited with code 0\n"


@pytest.mark.parametrize(("signum", "code"), [("TERM", 143), ("INT", 130), ("HUP", 129)])
def test_signals_detach(shared_daemon: Daemon, name: str, signum: str, code: int) -> None:
    create(shared_daemon, name, "echo up; read x")
    script = (
        f"{sys.executable} -m s0d attach {name} --no-stdin > {name}.out & pid=$!; "
        f"until grep -q up {name}.out; do :; done; kill -{signum} $pid; wait $pid"
    )
    done = subprocess.run(
        ["bash", "-mc", script],
        cwd=shared_daemon.directory,
        env=shared_daemon.client_environment,
        capture_output=True,
        timeout=30,
    )
    assert done.returncode == code
    assert f"detached, {name} goes on" in done.stderr.decode()
    assert shared_daemon.json("session", "get", name)["phase"] == "running"
    shared_daemon.json("session", "stop", name)


def test_a_signal_and_a_start_that_failed_are_told(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "kill -9 $$")
    done = shared_daemon.cli("attach", name)
    assert done.returncode == 137
    assert done.stderr.decode() == f"s0d: {name} was ended by SIGKILL\n"
    shared_daemon.json("session", "create", "--name", f"{name}-x", "--", "/no/such")
    done = shared_daemon.cli("attach", f"{name}-x")
    assert done.returncode == 127
    assert "did not start (start_failed: " in done.stderr.decode()
    assert "/no/such" in done.stderr.decode()


def test_what_cannot_be_attached_to(shared_daemon: Daemon, name: str) -> None:
    done = shared_daemon.cli("attach", "no-such")
    assert (done.returncode, done.stdout) == (3, b"")
    assert done.stderr.startswith(b"s0d: no session is called no-such")
    done = shared_daemon.cli("attach", name, "--read-only", "--takeover")
    assert done.returncode == 2
    done = shared_daemon.cli("attach", name, "--detach-keys", "C-xx")
    assert done.returncode == 2
    done = shared_daemon.cli("attach", name, "--url", "unix:/no/such")
    assert done.returncode == 5


def test_a_deleted_session_is_told(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "echo up; sleep 1000", "--stop-grace", "1")
    log = shared_daemon.directory / name
    with open(log, "wb") as out:
        client = subprocess.Popen(
            [sys.executable, "-m", "s0d", "attach", name, "--no-stdin"],
            stdout=out,
            stderr=out,
            env=shared_daemon.client_environment,
        )
    wait_for_text(log, "up")
    shared_daemon.json("session", "delete", name)
    assert client.wait(30) == 1
    assert log.read_text() == f"up\ns0d: {name}: the session was deleted\n"


@pytest.mark.parametrize("seed", range(4))
def test_nothing_is_lost_or_doubled_where_connections_break(
    shared_daemon: Daemon, short_dir: Path, name: str, seed: int
) -> None:
    """A file goes through `cat` and comes back; the way there is cut again and again, in the middle
    of frames, in both directions."""
    data = random.Random(seed).randbytes(3 << 20)
    create(shared_daemon, name, "exec cat")
    cutter = Cutter(short_dir / "cut.sock", shared_daemon.socket, 400_000, seed, cuts=12)
    try:
        done = shared_daemon.cli("attach", name, "--url", f"unix:{cutter.path}", input=data)
    finally:
        cutter.close()
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) == len(data)
    assert hashlib.sha256(done.stdout).digest() == hashlib.sha256(data).digest()
    assert cutter.cuts == 12


def test_output_goes_on_where_the_daemon_comes_back(daemon: Daemon) -> None:
    script = (
        "n=$(cat n 2>/dev/null || echo 0); echo $((n + 1)) > n; "
        "echo attempt $((n + 1)); [ $n = 2 ] || exec sleep 1000; exit 4"
    )
    create(daemon, "up", script, "--cwd", str(daemon.directory), "--stop-grace", "1")
    log = daemon.directory / "attached"
    with open(log, "wb") as out:
        client = subprocess.Popen(
            [sys.executable, "-m", "s0d", "attach", "up", "--no-stdin"],
            stdout=out,
            stderr=out,
            env=daemon.client_environment,
        )
    wait_for_text(log, "attempt 1")
    daemon.restart()
    wait_for_text(log, "attempt 2")
    daemon.kill()
    daemon.start()
    assert client.wait(30) == 4
    lines = [line for line in log.read_text().splitlines() if "reconnect" not in line]
    assert lines == ["attempt 1", "attempt 2", "attempt 3", "s0d: up exited with code 4"]


def test_a_reader_that_leaves_ends_it(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "yes", "--stop-grace", "1")
    script = f"{sys.executable} -m s0d attach {name} --no-stdin | head -1; echo ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", script],
        env={**os.environ, **shared_daemon.client_environment},
        capture_output=True,
        timeout=30,
    )
    assert done.stdout == b"y\n1\n"
    assert b"Traceback" not in done.stderr
    shared_daemon.json("session", "stop", name)


def test_by_name_and_by_the_beginning_of_an_id(shared_daemon: Daemon, name: str) -> None:
    made = [
        shared_daemon.json("session", "create", "--name", name, "--", "true")["id"]
        for _ in range(2)
    ]
    done = shared_daemon.cli("session", "get", name)
    assert done.returncode == 2
    assert all(id in done.stderr.decode() for id in made)
    for id in made:
        for called in (id, id[:30], id[4:30]):
            assert json.loads(shared_daemon.cli("-o", "json", "session", "get", called).stdout)[
                "id"
            ] == (id)
