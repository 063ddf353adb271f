"""`s0d up` and `s0d down`, and what a daemon's own configuration declares."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

THREE = """
[sessions.web]
shell = "echo web up; exec sleep 1000"
depends_on = ["api"]

[sessions.api]
shell = "{api}"
depends_on = ["db"]
readiness = {{ type = "output", output = "api up", timeout_ms = 15000 }}

[sessions.db]
shell = "echo db up; exec sleep 1000"
readiness = {{ type = "output", output = "db up" }}
"""
GOOD = "echo api up; exec sleep 1000"


class Project:
    """A directory with a `s0d.toml`, and the command line in it."""

    def __init__(self, daemon: Daemon, directory: Path) -> None:
        self.daemon = daemon
        self.directory = directory

    def declare(self, text: str, name: str = "s0d.toml") -> None:
        (self.directory / name).write_text(text)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "s0d", *arguments],
            cwd=self.directory,
            env=self.daemon.client_environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Both outputs go to `out`."""
        with open(self.directory / "out", "wb") as out:
            return subprocess.Popen(
                [sys.executable, "-m", "s0d", *arguments],
                cwd=self.directory,
                env=self.daemon.client_environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )

    @property
    def sessions(self) -> dict[str, Any]:
        return {s["spec"]["name"]: s for s in self.daemon.json("ps")}


@pytest.fixture
def project(daemon: Daemon, tmp_path: Path) -> Project:
    return Project(daemon, tmp_path)


def said(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [line.removeprefix("s0d: ") for line in done.stderr.splitlines()]


def test_three_that_depend_on_each_other(project: Project) -> None:
    project.declare(THREE.format(api=GOOD))
    done = project.run("up", "--dry-run")
    assert (done.returncode, done.stdout) == (0, "db: create\napi: create\nweb: create\n")
    assert project.sessions == {}
    done = project.run("up", "-d")
    assert (done.returncode, said(done)) == (0, ["db: created", "api: created", "web: created"])
    first = project.sessions
    assert {name: s["phase"] for name, s in first.items()} == dict.fromkeys(first, "running")
    started = [first[name]["attempt"]["started_at"] for name in ("db", "api", "web")]
    assert started == sorted(started)
    done = project.run("up", "-d")
    assert said(done) == ["db: as it is", "api: as it is", "web: as it is"]
    project.declare(THREE.format(api="echo api up; exec sleep 2000"))
    assert project.run("up", "--dry-run").stdout == "db: keep\napi: update (command)\nweb: keep\n"
    assert said(project.run("up", "-d"))[1] == "api: updated (command)"
    second = project.sessions
    numbers = {name: s["attempt"]["number"] for name, s in second.items()}
    assert numbers == {"db": 1, "api": 2, "web": 1}
    assert {n: s["id"] for n, s in first.items()} == {n: s["id"] for n, s in second.items()}
    done = project.run("down")
    assert said(done) == ["web: stopped", "api: stopped", "db: stopped"]
    assert said(project.run("up", "-d", "db")) == ["db: started"]
    assert {n: s["phase"] for n, s in project.sessions.items()}["web"] == "stopped"
    assert said(project.run("down", "--remove"))[-1] == "db: removed"
    assert project.sessions == {}


def test_one_that_fails(project: Project) -> None:
    """What depends on it is not started, what it depends on stays, and it is said."""
    project.declare(THREE.format(api="echo no; exit 7"))
    done = project.run("up", "-d")
    assert done.returncode == 1
    assert said(done) == [
        "db: created",
        "api: created",
        "api: exited with code 7",
        "web: not started, since api is not ready",
    ]
    assert {n: s["phase"] for n, s in project.sessions.items()} == {
        "db": "running",
        "api": "exited",
    }
    done = project.run("up")  # in the foreground all is stopped again
    assert done.returncode == 1
    assert said(done)[-2:] == ["api: stopped", "db: stopped"]


def test_in_the_foreground(project: Project) -> None:
    project.declare(THREE.format(api="echo api up; read x; exec sleep 1000"))
    process = project.start("up")
    out = project.directory / "out"
    try:
        for line in ("db  | db up", "api | api up", "web | web up"):
            wait_for_text(out, line)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    finally:
        process.kill()
        process.wait()
    lines = out.read_text().splitlines()
    assert lines[-3:] == ["s0d: web: stopped", "s0d: api: stopped", "s0d: db: stopped"]
    assert {s["phase"] for s in project.sessions.values()} == {"stopped"}


def test_it_ends_when_all_have_ended(project: Project) -> None:
    project.declare(
        '[sessions.a]\nshell = "echo one; sleep 0.2; exit 3"\n[sessions.b]\nshell = "true"'
    )
    done = project.run("up")
    assert done.returncode == 3
    assert done.stdout == "a | one\n"
    assert {"a: exited with code 3", "b: exited with code 0"} <= set(said(done))


def test_prune(project: Project) -> None:
    one = '[sessions.{0}]\nshell = "exec sleep 1000"\n'
    project.declare(one.format("a") + one.format("b"))
    project.daemon.json("session", "create", "--name", "c", "--", "sleep", "1000")
    assert project.run("up", "-d").returncode == 0
    project.declare(one.format("a"))
    assert said(project.run("up", "-d")) == ["a: as it is"]
    assert set(project.sessions) == {"a", "b", "c"}
    assert said(project.run("up", "-d", "--prune")) == ["b: removed", "a: as it is"]
    assert set(project.sessions) == {"a", "c"}


def test_a_procfile_and_variables(project: Project) -> None:
    project.declare("hello: echo hello $WHO\n", "Procfile")
    done = project.run("up")
    assert (done.returncode, done.stdout) == (0, "hello | hello\n")
    project.declare("WHO=world\n", ".env")
    project.declare('[sessions.hi]\nshell = "echo hi ${WHO}"\n')
    assert project.run("up").stdout == "hi | hi world\n"


@pytest.mark.parametrize(
    ("text", "arguments", "message"),
    [
        (None, (), "there is no s0d.toml and no Procfile here"),
        ('[sessions.a]\ncommand = "x"\n', (), "s0d.toml:2: sessions.a: command: a list"),
        ('[sessions.a]\nshell = "x"\n', ("b",), "b: is not declared; declared are: a"),
    ],
)
def test_nonsense(
    project: Project, text: str | None, arguments: tuple[str, ...], message: str
) -> None:
    if text is not None:
        project.declare(text)
    for verb in ("up", "down"):
        done = project.run(verb, *arguments)
        assert done.returncode == 1
        assert message in done.stderr


# -- as a service ----------------------------------------------------------------------------------


def reload(daemon: Daemon, said: str = "reloaded") -> None:
    os.kill(daemon.pid, signal.SIGHUP)
    wait_for_text(daemon.log_file, f'"message": "{said}')


def wait_phase(daemon: Daemon, name: str, phase: str = "running") -> Any:
    for _ in range(200):
        found = [s for s in daemon.json("ps") if s["spec"].get("name") == name]
        if found and found[0]["phase"] == phase:
            return found[0]
    raise AssertionError(f"{name} is not {phase}: {found}")


def wait_gone(daemon: Daemon, name: str) -> None:
    for _ in range(200):
        if name not in [s["spec"].get("name") for s in daemon.json("ps")]:
            return
    raise AssertionError(f"{name} is still there")


def test_what_a_configuration_declares(make_daemon: Callable[..., Daemon], short_dir: Path) -> None:
    file = short_dir / "s0d.toml"
    (short_dir / "s0d.d").mkdir()
    extra = short_dir / "s0d.d" / "extra.toml"
    file.write_text(THREE.format(api=GOOD))
    extra.write_text('[sessions.extra]\nshell = "exec sleep 1000"\n')
    daemon = make_daemon("--config", str(file))
    daemon.start()
    wait_phase(daemon, "web")
    before = {name: wait_phase(daemon, name) for name in ("db", "api", "web", "extra")}
    started = [before[name]["attempt"]["started_at"] for name in ("db", "api", "web")]
    assert started == sorted(started)
    foreign = daemon.json("session", "create", "--name", "foreign", "--", "sleep", "1000")

    # A reload touches what has changed, and nothing else.
    file.write_text(THREE.format(api="echo api up; exec sleep 2000"))
    extra.write_text('[sessions.more]\nshell = "exec sleep 1000"\n')
    reload(daemon)
    wait_phase(daemon, "more")
    wait_gone(daemon, "extra")
    after = {name: wait_phase(daemon, name) for name in ("db", "api", "web", "foreign")}
    for name in ("db", "web"):
        assert after[name]["attempt"] == before[name]["attempt"]
        assert after[name]["spec_version"] == before[name]["spec_version"]
    assert after["api"]["attempt"]["number"] == 2
    assert after["foreign"]["attempt"]["id"] == foreign["attempt"]["id"]

    # What cannot be read changes nothing.
    extra.write_text("[sessions.more]\nnonsense = 1\n")
    reload(daemon, "cannot reload")
    (line,) = (line for line in daemon.log() if line["message"].startswith("cannot reload"))
    assert "extra.toml:2: sessions.more: nonsense: there is no such field" in line["reason"]
    assert wait_phase(daemon, "more")

    # What was stopped by hand stays stopped, also over a restart.
    daemon.json("stop", "db")
    extra.unlink()
    daemon.restart()
    wait_gone(daemon, "more")
    assert wait_phase(daemon, "db", "stopped")["id"] == before["db"]["id"]


def test_a_declared_session_that_fails_is_logged(
    make_daemon: Callable[..., Daemon], short_dir: Path
) -> None:
    file = short_dir / "s0d.toml"
    file.write_text(THREE.format(api="exit 7"))
    daemon = make_daemon("--config", str(file))
    daemon.start()
    wait_for_text(daemon.log_file, "a declared session cannot be had")
    (line,) = (line for line in daemon.log() if "cannot be had" in line["message"])
    assert (line["session"], line["reason"]) == ("web", "api is not ready")
    wait_phase(daemon, "db")
    # Mended while the former is still waited for.
    file.write_text(THREE.format(api=GOOD))
    reload(daemon)
    assert wait_phase(daemon, "web")["attempt"]["number"] == 1


def test_a_configuration_that_makes_no_sense_is_no_start(short_dir: Path) -> None:
    file = short_dir / "s0d.toml"
    file.write_text('[sessions.a]\nshell = "x"\ndepends_on = ["b"]\n')
    serve = ("serve", "--config", file, "--state-dir", short_dir / "state")
    done = subprocess.run(
        [sys.executable, "-m", "s0d", *map(str, serve), "--listen", f"unix:{short_dir}/sock"],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert done.returncode == 1
    said = r"s0d\.toml:3: sessions\.a: there is no session b"
    assert re.search(said, done.stderr)
    check = (sys.executable, "-m", "s0d", "config", "check", "--config", str(file))
    done = subprocess.run(check, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert re.search(said, done.stderr)
    assert "Traceback" not in done.stderr
