"""`s0d daemon ...`: the daemon of this user, started on demand."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import s0d as package
from tests.support.daemon import Daemon
from tests.support.leftovers import processes_with


class Local:
    """The command line of a user whose daemon nobody else has."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        ours = {k: v for k, v in os.environ.items() if not k.startswith("S0D_")}
        self.env = ours | {
            "S0D_STATE_DIR": str(directory / "state"),
            "S0D_RUNTIME_DIR": str(directory / "run"),
            "S0D_TEST_MARKER": str(directory),
        }

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "s0d", *arguments],
            env=self.env,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
        )

    def json(self, *arguments: str) -> Any:
        done = self.run("-o", "json", *arguments)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def local(short_dir: Path) -> Iterator[Local]:
    local = Local(short_dir)
    yield local
    local.run("daemon", "stop", "--now")
    left = processes_with(f"S0D_TEST_MARKER={short_dir}")
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left == []


def test_its_life(local: Local) -> None:
    done = local.run("daemon", "status")
    assert done.returncode == 5
    assert "no daemon answers" in done.stderr
    # Another's daemon may have the default port; then that is what there is to say.
    assert "start one with" in done.stderr or "a daemon answers on" in done.stderr
    done = local.run("daemon", "start")
    assert done.returncode == 0
    assert done.stdout == f"started (log: {local.directory}/state/daemon.log)\n"
    assert local.run("daemon", "start").stdout == "a daemon is running already\n"
    status = local.json("daemon", "status")
    assert status["version"] == status["client_version"] == package.__version__
    assert status["url"] == f"unix:{local.directory}/run/s0d.sock"
    assert status["state_dir"] == f"{local.directory}/state"
    table = local.run("daemon", "status")
    assert f"pid:            {status['pid']}\n" in table.stdout
    assert table.stderr == ""
    assert "serving" in local.run("daemon", "logs").stdout
    done = local.run("daemon", "stop")
    assert (done.returncode, done.stdout) == (0, f"stopped (pid {status['pid']})\n")
    assert processes_with(f"S0D_TEST_MARKER={local.directory}") == []
    assert local.run("daemon", "stop").returncode == 5


def test_a_restart_keeps_sessions(local: Local) -> None:
    done = local.run("run", "--name", "job", "--", "echo", "hello")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    before = local.json("daemon", "status")["pid"]
    local.json("session", "create", "--name", "web", "--", "sh", "-c", "trap '' TERM; sleep 1000")
    done = local.run("daemon", "restart", "--now")
    assert (done.returncode, "started" in done.stdout) == (0, True)
    assert local.json("daemon", "status")["pid"] != before
    assert local.json("inspect", "web")["attempt"]["number"] == 2
    assert local.run("logs", "job").stdout == "hello\n"


def test_one_with_flags_of_its_own_is_not_restarted_without_them(local: Local) -> None:
    assert local.run("daemon", "stop").returncode == 5
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", "s0d", "serve", "--sandbox-id", "mine"]
    command += ["--listen", f"unix:{local.directory}/run/s0d.sock", "--ready-fd", str(theirs)]
    served = subprocess.Popen(command, env=local.env, pass_fds=[theirs], stdin=subprocess.DEVNULL)
    os.close(theirs)
    with open(ours, "rb", buffering=0) as pipe:
        assert pipe.read(1) == b"\n"
    done = local.run("daemon", "restart")
    assert done.returncode == 1
    assert "was started by `s0d serve --sandbox-id mine --listen" in done.stderr
    assert local.json("daemon", "status")["pid"] == served.pid
    assert local.run("daemon", "stop").returncode == 0
    assert served.wait(60) == 0


def test_up_starts_one(local: Local, tmp_path: Path) -> None:
    (tmp_path / "s0d.toml").write_text('[sessions.hello]\nshell = "echo hello"\n')
    done = local.run("up", "-f", str(tmp_path / "s0d.toml"))
    assert (done.returncode, done.stdout) == (0, "hello | hello\n")
    assert "started a daemon in the background" in done.stderr


def test_only_the_local_one(local: Local, shared_daemon: Daemon) -> None:
    for verb in ("start", "restart", "logs"):
        assert local.run("daemon", verb, "--url", f"unix:{shared_daemon.socket}").returncode == 2
    assert local.run("daemon", "stop", "--url", shared_daemon.url).returncode == 2
    done = local.run("daemon", "logs")
    assert done.returncode == 1
    assert "journalctl -u s0d" in done.stderr


def test_another_version_is_said(local: Local, shared_daemon: Daemon, short_dir: Path) -> None:
    """A command of another version, as after an update."""
    (short_dir / "newer.py").write_text(
        "import sys, s0d\ns0d.__version__ = '99.0'\n"
        "from s0d.cli.main import main\nsys.exit(main(sys.argv[1:]))\n"
    )

    def newer(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, str(short_dir / "newer.py"), *arguments],
            env=shared_daemon.client_environment,
            capture_output=True,
            text=True,
            timeout=60,
        )

    said = f"the daemon is version {package.__version__}, this command 99.0"
    done = newer("daemon", "status")
    assert done.returncode == 0
    assert said in done.stderr
    done = newer("session", "create", "--rows", "70000", "--pty", "--", "true")
    assert done.returncode == 1
    assert said in done.stderr
    assert said not in shared_daemon.cli("session", "create", "--", "").stderr.decode()
