"""`s0d run` against a real daemon, with real signals, pipes and restarts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.leftovers import daemons_in


@contextmanager
def running(
    daemon: Daemon, *arguments: str, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """`s0d run ARGUMENTS` beside the test, ended at the latest when the test ends."""
    with subprocess.Popen(
        [sys.executable, "-m", "s0d", "run", *arguments],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=daemon.client_environment,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_readmes_command(shared_daemon: Daemon) -> None:
    script = "echo READY; for i in 1 2 3; do echo tick-$i; sleep 0.05; done; echo done >&2; exit 3"
    done = shared_daemon.cli("run", "--", "sh", "-c", script)
    assert done.stdout == b"READY\ntick-1\ntick-2\ntick-3\n"
    assert done.stderr == b"done\n"
    assert done.returncode == 3


@pytest.mark.parametrize(
    ("command", "code", "message"),
    [
        (["sh", "-c", "kill -TERM $$"], 143, ""),
        (["/no/such/program"], 127, "/no/such/program"),
        (["true"], 0, ""),
    ],
)
def test_exit_codes(shared_daemon: Daemon, command: list[str], code: int, message: str) -> None:
    done = shared_daemon.cli("run", "--rm", "--", *command)
    assert done.returncode == code
    assert message in done.stderr.decode()
    assert bool(done.stderr) is bool(message)


def test_rm_leaves_no_session(shared_daemon: Daemon) -> None:
    before = shared_daemon.json("session", "list")
    assert shared_daemon.cli("run", "--rm", "--", "true").returncode == 0
    assert shared_daemon.json("session", "list") == before


def test_stdin_is_forwarded_to_its_end_byte_for_byte(shared_daemon: Daemon) -> None:
    data = os.urandom(3 << 20)
    done = shared_daemon.cli("run", "--rm", "--", "cat", input=data)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == data


def test_a_command_that_does_not_read_its_input_ends_anyway(shared_daemon: Daemon) -> None:
    done = shared_daemon.cli("run", "--rm", "--", "true", input=b"x" * (4 << 20))
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal(shared_daemon: Daemon) -> None:
    script = "test -t 0 && test -t 1 && stty size && echo $TERM"
    arguments = ("--pty", "--rows", "12", "--cols", "34", "--term", "vt100")
    done = shared_daemon.cli("run", "--rm", *arguments, "--", "sh", "-c", script)
    assert done.stdout == b"12 34\r\nvt100\r\n"


def test_restarts_are_followed_to_the_last_one(shared_daemon: Daemon, tmp_path: Path) -> None:
    script = f"echo x >> {tmp_path}/n; wc -l < {tmp_path}/n; test $(wc -l < {tmp_path}/n) -ge 3"
    done = shared_daemon.cli("run", "--restart", "on_failure", "--", "sh", "-c", script)
    assert done.stdout.split() == [b"1", b"2", b"3"]
    assert done.returncode == 0


def test_ctrl_c_detaches_and_the_way_back_works(shared_daemon: Daemon) -> None:
    command = ("--", "sh", "-c", "echo up; read x; echo bye")
    with running(shared_daemon, *command, stdin=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        process.send_signal(signal.SIGINT)
        process.wait(20)  # before its stdin is closed: an end of file there would be forwarded
        out, err = process.communicate()
    assert (process.returncode, out) == (130, b"")
    said = re.fullmatch(
        r"s0d: detached, (ses-\S+) goes on; follow it with: s0d (session events .* --follow)\n",
        err.decode(),
    )
    assert said is not None, err
    session = shared_daemon.json("session", "get", said[1])
    assert session["phase"] == "running"
    shared_daemon.json("session", "delete", said[1])
    done = shared_daemon.cli(*said[2].split())
    assert b"session_not_found" in done.stderr


def test_a_reader_that_leaves_does_not_end_the_session(shared_daemon: Daemon) -> None:
    with running(shared_daemon, "--", "sh", "-c", "while :; do echo x; done") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(20) == 1
        said = process.stderr.read().decode()
    assert "nobody reads the output any more" in said
    (session_id,) = re.findall(r"ses-[0-9a-f-]+(?= goes on)", said)
    assert shared_daemon.json("session", "get", session_id)["phase"] == "running"
    shared_daemon.json("session", "delete", session_id)


def test_a_daemon_restart_in_the_middle(daemon: Daemon, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    script = f"echo $$ up; read x < {fifo}; echo $x"
    with running(daemon, "--stop-grace", "1", "--", "sh", "-c", script) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        assert first.endswith(b" up\n")
        daemon.restart()
        second = process.stdout.readline()  # another attempt, on the same stream
        assert second.endswith(b" up\n")
        assert second != first
        fifo.write_text("bye\n")
        out, _ = process.communicate(timeout=20)
    assert (process.returncode, out) == (0, b"bye\n")


def s0d(env: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "s0d", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        env=env,
    )


def test_a_daemon_is_started_on_demand_and_stays(on_demand: dict[str, str]) -> None:
    first = s0d(on_demand, "run", "--", "sh", "-c", "echo hi; tty; ps -o sid= -p $PPID")
    log = f"{on_demand['S0D_STATE_DIR']}/daemon.log"
    assert first.stderr == f"s0d: started a daemon in the background (log: {log})\n"
    assert first.stdout.startswith("hi\n")
    second = s0d(on_demand, "run", "--", "echo", "again")
    assert (second.returncode, second.stdout, second.stderr) == (0, "again\n", "")
    assert len(s0d(on_demand, "session", "list").stdout.splitlines()) == 3
    assert Path(log).stat().st_mode & 0o777 == 0o600
    (pid,) = daemons_in(Path(log).parent.parent)
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    assert int(stat[3]) != pid  # no session leader, so no terminal can become its own
    assert int(stat[3]) != os.getsid(0)
    assert int(stat[4]) == 0  # and it has none
    assert os.readlink(f"/proc/{pid}/cwd") == "/"


def test_several_at_once_start_one_daemon(on_demand: dict[str, str]) -> None:
    commands = [
        subprocess.Popen(
            [sys.executable, "-m", "s0d", "run", "--", "echo", str(i)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=on_demand,
        )
        for i in range(4)
    ]
    said = [process.communicate(timeout=60) for process in commands]
    assert [out for out, _ in said] == ["0\n", "1\n", "2\n", "3\n"]
    assert sum("started a daemon" in err for _, err in said) == 1


def test_a_daemon_that_cannot_start_is_explained(on_demand: dict[str, str]) -> None:
    state = Path(on_demand["S0D_STATE_DIR"])
    state.mkdir()
    state.chmod(0o755)
    done = s0d(on_demand, "run", "--", "true")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "the daemon did not start: " in done.stderr
    assert "chmod 700" in done.stderr


def test_no_daemon_is_started_for_another_address(on_demand: dict[str, str]) -> None:
    done = s0d(on_demand, "run", "--url", f"unix:{on_demand['S0D_RUNTIME_DIR']}/x", "--", "true")
    assert done.returncode == 5
    assert "no daemon answers on unix:" in done.stderr
    assert not Path(on_demand["S0D_STATE_DIR"]).exists()
