"""What the README says, done: its snippets are read from it and run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.daemon import Daemon

README = Path(__file__).parents[2] / "README.md"


def snippets(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def run(daemon: Daemon, *command: str) -> subprocess.CompletedProcess[str]:
    """With `s0d` on the PATH, and the daemon of the test where the README means the default one."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**daemon.client_environment, "PATH": path, "S0D_STATE_DIR": str(daemon.state_dir)},
    )


@pytest.fixture
def token_daemon(make_daemon) -> Daemon:  # type: ignore[no-untyped-def]
    """A daemon whose token is the one in its file, as at a first start."""
    daemon: Daemon = make_daemon(env={"S0D_TOKEN": ""})
    daemon.start()
    return daemon


def here(daemon: Daemon, snippet: str) -> str:
    assert "http://127.0.0.1:7707" in snippet
    return snippet.replace("http://127.0.0.1:7707", daemon.url)


def test_the_first_command(shared_daemon: Daemon) -> None:
    install, tests = snippets("sh")[:2]
    setup, _, command = install.rpartition(" && .venv/bin/")
    assert setup == "python3 -m venv .venv && .venv/bin/pip install --quiet ."
    done = run(shared_daemon, "sh", "-ec", command)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "READY\ntick-1\ntick-2\ntick-3\n"
    assert tests.endswith("/pytest\n")


def test_the_sdk(token_daemon: Daemon) -> None:
    snippet = here(token_daemon, snippets("python")[0])
    done = run(token_daemon, sys.executable, "-c", snippet)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tick-1\ntick-2\ntick-3\ntick-4\n"


def test_embedding(shared_daemon: Daemon) -> None:
    done = run(shared_daemon, sys.executable, "-W", "error", "-c", snippets("python")[1])
    assert (done.returncode, done.stdout, done.stderr) == (0, "hello\n", "")


def test_the_shell(token_daemon: Daemon) -> None:
    done = run(token_daemon, "sh", "-ec", here(token_daemon, snippets("sh")[2]))
    assert (done.returncode, done.stderr) == (0, "")
    frames = re.findall(r"^id: (\d+)\nevent: (\S+)$", done.stdout, re.MULTILINE)
    assert frames[0] == ("1", "session.created")
    assert frames[-1][1] == "attempt.exited"
    assert "deleted ses-" in done.stdout


def test_every_verb_is_in_the_table() -> None:
    from s0d.cli.main import s0d
    from s0d.cli.session import session

    table = "\n".join(line for line in README.read_text().splitlines() if line.startswith("| `s0d"))
    verbs = [*session.commands, *(name for name in s0d.list_commands(None))]  # type: ignore[arg-type]
    assert [verb for verb in verbs if not re.search(rf"`[^`]*\b{verb}\b[^`]*`", table)] == []


def test_its_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README.read_text())
    assert links
    assert [link for link in links if not (README.parent / link).exists()] == []
