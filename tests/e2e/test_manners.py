"""What holds for every verb: examples that run, help, completion, colours."""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pytest

from s0d.cli.help import TOPICS
from s0d.cli.main import s0d
from tests.support.daemon import Daemon

# What goes on until it is interrupted, and what it says when it has begun.
ENDLESS = {
    "s0d attach": "attached|\\$ ",
    "s0d serve": "serving",
    "s0d mcp": "",
    "s0d session events": "attempt.exited|attempt.started",
}
ELSEWHERE = {
    "s0d daemon start": "tests/e2e/test_local_daemon.py",
    "s0d daemon stop": "tests/e2e/test_local_daemon.py",
    "s0d daemon restart": "tests/e2e/test_local_daemon.py",
    "s0d daemon logs": "tests/e2e/test_local_daemon.py",
}
"""About the user's own daemon, of which a test of its own has one."""
FAILS_HERE = {"s0d doctor": {0, 1}, "s0d config check": {0, 1}, "s0d config": {0, 1}}
"""May find something to mend on the machine."""


def commands(
    command: click.Command, path: str = "s0d", ctx: click.Context | None = None
) -> Iterator[tuple[str, click.Command]]:
    ctx = click.Context(command, parent=ctx)
    yield path, command
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            found = command.get_command(ctx, name)
            assert found is not None
            yield from commands(found, f"{path} {name}", ctx)


COMMANDS = dict(commands(s0d))


def example_of(path: str) -> str:
    """The last paragraph of its help."""
    return (COMMANDS[path].help or "").rstrip().rpartition("\n\n")[2].strip()


@pytest.fixture(scope="module")
def shell(shared_daemon: Daemon) -> dict[str, str]:
    """The environment in which examples run: `s0d` is ours, and what they name is there."""
    directory = shared_daemon.directory / "examples"
    directory.mkdir()
    program = directory / "s0d"
    program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m s0d "$@"\n')
    program.chmod(0o755)
    (directory / "claude").write_text('#!/bin/sh\nshift 4; exec "$@" </dev/null\n')
    (directory / "claude").chmod(0o755)
    (directory / "session.yaml").write_text("name: web\ncommand: [sh, -c, 'echo other; sleep 999']")
    (directory / "s0d.toml").write_text('[sessions.one]\nshell = "exec sleep 1000"\n')
    return {
        **shared_daemon.client_environment,
        "PATH": f"{directory}:{os.environ['PATH']}",
        "S0D_STATE_DIR": str(shared_daemon.state_dir),
        "EXAMPLES": str(directory),
    }


def prepare(daemon: Daemon) -> None:
    """`web`, a terminal that says something; `job`, which has ended; `work` and `build`."""
    script = "echo listening on 80; echo error one; while read line; do echo $line; done; sleep 999"
    made: list[dict[str, Any]] = [
        {"name": "web", "command": ["sh", "-c", script], "io": {"mode": "pty"}},
        {"name": "job", "command": ["true"]},
    ]
    transport = httpx.HTTPTransport(uds=str(daemon.socket))
    with httpx.Client(
        transport=transport, base_url="http://localhost/api/v1", timeout=30
    ) as client:
        for session in client.get("/sessions").json()["data"]["sessions"]:
            client.delete(f"/sessions/{session['id']}").raise_for_status()
        for spec in made:
            client.post("/sessions", json=spec).raise_for_status()
        for id in ("work", "build"):
            client.delete(f"/sandboxes/{id}")
            client.post("/sandboxes", json={"id": id}).raise_for_status()


def script_of(path: str, daemon: Daemon) -> str:
    text = example_of(path)
    if "create --id work" in text:
        text = f"s0d sandbox delete work; {text}"
    if "token revoke" in text:
        text = f"s0d token create --name ci > /dev/null; {text}"
    if "$(s0d token)" in text:
        text = text.replace("$(s0d token)", f"$(s0d token > /dev/null; echo {daemon.token})")
    session = next((daemon.state_dir / "sandboxes/local/sessions").glob("ses-*"))
    for there, here in {
        "/var/lib/s0d/sandboxes/local/sessions/ses-…": str(session),
        "--repair /var/lib/s0d": f"--repair $(cp -r {daemon.state_dir} copy; echo copy)",
        "/var/lib/s0d": str(daemon.state_dir),
        "/etc/s0d/s0d.toml": "s0d.toml",
        "/run/s0d/s0d.sock": "$EXAMPLES/other.sock --state-dir $EXAMPLES/state",
        "127.0.0.1:7707": f"127.0.0.1:{0 if 'serve' in path else daemon.port}",
    }.items():
        text = text.replace(there, here)
    return text


@pytest.mark.parametrize("path", [path for path in COMMANDS if path not in ELSEWHERE])
def test_the_example_of_every_verb_runs(
    shared_daemon: Daemon, shell: dict[str, str], path: str
) -> None:
    prepare(shared_daemon)
    text = script_of(path, shared_daemon)
    assert re.search(r"\bs0d ", text), "the last paragraph of the help is an example"
    process = subprocess.Popen(
        ["bash", "-c", f"exec 2>&1; {text}"],
        cwd=shell["EXAMPLES"],
        env=shell,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    said = b""
    try:
        if ENDLESS.get(path):
            while not re.search(ENDLESS[path].encode() + b"|listening", said):
                readable, _, _ = select.select([process.stdout], [], [], 20)
                assert readable, said
                piece = os.read(process.stdout.fileno(), 65536)
                assert piece, said
                said += piece
            os.killpg(process.pid, signal.SIGINT)
            process.communicate(timeout=20)
            assert process.returncode in (0, 130, -signal.SIGINT)
        else:
            rest, _ = process.communicate(timeout=30)
            said += rest
            assert process.returncode in FAILS_HERE.get(path, {0}), said.decode()
        assert b"Traceback" not in said
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        process.stdout.close()


def test_what_is_run_elsewhere_is() -> None:
    for path, where in ELSEWHERE.items():
        text = (Path(__file__).parents[2] / where).read_text()
        assert f'"{path.split()[-1]}"' in text


@pytest.mark.parametrize("topic", TOPICS)
def test_topics(shared_daemon: Daemon, topic: str) -> None:
    done = shared_daemon.cli("help", topic)
    assert (done.returncode, done.stdout.decode()) == (0, TOPICS[topic])


def test_help_of_verbs(shared_daemon: Daemon) -> None:
    for words in ((), ("run",), ("session", "create")):
        done = shared_daemon.cli("help", *words)
        plain = shared_daemon.cli(*words, "--help")
        assert done.returncode == 0
        assert done.stdout.startswith(plain.stdout)
    done = shared_daemon.cli("help", "nonsense")
    assert done.returncode == 2
    assert b"neither a verb nor one of the topics exit-codes" in done.stderr


def complete(shell: dict[str, str], *words: str) -> list[str]:
    """What bash would offer for the last word."""
    done = subprocess.run(
        ["s0d"],
        env=shell
        | {
            "_S0D_COMPLETE": "bash_complete",
            "COMP_WORDS": shlex.join(words),
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        timeout=30,
    )
    return [line.split(",")[1] for line in done.stdout.decode().splitlines() if line]


def test_completion(shared_daemon: Daemon, shell: dict[str, str]) -> None:
    prepare(shared_daemon)
    assert {"attach", "logs", "ps"} <= set(complete(shell, "s0d", ""))
    assert complete(shell, "s0d", "att") == ["attach"]
    for verb in (("logs",), ("attach",), ("stop",), ("stop", "job"), ("session", "screen")):
        assert "web" in complete(shell, "s0d", *verb, "w")
    id = shared_daemon.json("inspect", "web")["id"]
    assert id in complete(shell, "s0d", "logs", id[:12])
    shared_daemon.json("--sandbox", "work", "session", "create", "--name", "inner", "--", "true")
    assert complete(shell, "s0d", "--sandbox", "work", "logs", "") == ["inner"]
    assert complete(shell, "s0d", "logs", "--sandbox", "work", "i") == ["inner"]
    assert complete({**shell, "S0D_URL": "unix:/no/where"}, "s0d", "logs", "") == []


@pytest.mark.parametrize("program", ["bash", "zsh", "fish"])
def test_completion_scripts(shared_daemon: Daemon, program: str) -> None:
    done = shared_daemon.cli("completion", program)
    assert done.returncode == 0
    assert b"_S0D_COMPLETE" in done.stdout
    if program == "bash":
        assert subprocess.run(["bash", "-n"], input=done.stdout).returncode == 0


@pytest.mark.parametrize(("env", "coloured"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colours_on_a_terminal_alone(
    shared_daemon: Daemon, env: dict[str, str], coloured: bool
) -> None:
    shared_daemon.json("session", "create", "--name", "red", "--", "printf", "\\033[31mred\\n")
    shared_daemon.cli("wait", "red")
    master, terminal = os.openpty()
    environment: dict[str, Any] = {k: v for k, v in os.environ.items() if k != "NO_COLOR"}
    environment |= shared_daemon.client_environment | {"TERM": "xterm"} | env
    done = subprocess.run(
        [sys.executable, "-m", "s0d", "logs", "red"],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=terminal,
        stderr=terminal,
        timeout=30,
    )
    os.close(terminal)
    said = os.read(master, 65536)
    os.close(master)
    assert done.returncode == 0
    assert (b"\x1b[31m" in said, b"\x1b[2m-- attempt" in said) == (coloured, coloured)
    plain = shared_daemon.cli("logs", "red")
    assert b"\x1b" not in plain.stdout + plain.stderr
    shared_daemon.json("rm", "red")
