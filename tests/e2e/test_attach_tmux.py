"""`s0d attach` as a person uses it: in a terminal, driven by keys (tmux)."""

from __future__ import annotations

import itertools
import os
import re
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.panes import PROMPT, TMUX, Pane, Panes

pytestmark = pytest.mark.skipif(
    TMUX is None, reason="tmux is not installed (.ci/run installs it as root)"
)
needs_vim = pytest.mark.skipif(
    shutil.which("vim") is None, reason="vim is not installed (.ci/run installs it as root)"
)

S0D = f"{shlex.quote(sys.executable)} -m s0d"
OUTER = rf"{re.escape(PROMPT)} $"
SHELL = ("-e", "PS1=inner> ", "-e", "HISTFILE=", "--", "bash", "--norc", "--noprofile", "-i")
UNTOUCHED = {
    "alternate_on": "0",
    "mouse_any_flag": "0",
    "keypad_cursor_flag": "0",
    "cursor_flag": "1",
}
_numbers = itertools.count()


@pytest.fixture(scope="module")
def panes(shared_daemon: Daemon) -> Iterator[Panes]:
    with tempfile.TemporaryDirectory(prefix="s0d-") as directory:
        panes = Panes(Path(directory), shared_daemon.client_environment)
        yield panes
        panes.close()


@pytest.fixture
def pane(panes: Panes) -> Pane:
    return panes.open()


@pytest.fixture
def name() -> str:
    return f"t{next(_numbers)}"


def shell(daemon: Daemon, name: str, *flags: str) -> str:
    """A session with a shell in it; its id."""
    return str(daemon.json("session", "create", "--name", name, "--pty", *flags, *SHELL)["id"])


def attach(pane: Pane, name: str, *flags: str) -> None:
    pane.run(f"clear; {S0D} attach {shlex.join(flags)} {name}; echo code=$?")


def assert_given_back(pane: Pane) -> None:
    """The shell works in its terminal as before: lines, echo, signals, no mode left behind."""
    assert pane.state() == UNTOUCHED
    pane.run("clear; stty -a | grep -o -E -e '-?(icanon|echo|isig|opost) ' | xargs")
    pane.sees(r"^isig icanon echo opost +$|^opost isig icanon echo +$")


def test_attach_type_detach_and_come_back(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    session = shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.sees("Ctrl-] d detaches")
    pane.run("echo $((6 * 7)) is it")
    pane.sees(r"^42 is it +\ninner> $")
    pane.sees(r"(?s)\A(?!.*detaches).*^42 is it")  # the hint has gone with the first key
    pane.press("C-]", "d")
    pane.sees(rf"detached, {name} goes on +\ncode=0")
    assert_given_back(pane)
    attach(pane, session[:20])  # by the beginning of its id: painted as it was
    pane.sees(r"echo \$\(\(6 \* 7\)\) is it +\n42 is it +\ninner> $")
    pane.run("exit 5")
    pane.sees(rf"{name} exited with code 5 +\ncode=5")
    assert_given_back(pane)


def test_keys_go_to_the_program_as_they_are(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.run("cat -v")
    pane.press("C-]", "C-]", "x", "Enter")
    pane.sees(r"^\^\]\^\]x +$")
    pane.press("C-c")
    pane.sees(r"\^C +\ninner> $")
    pane.press("C-]", "d")
    pane.sees("code=0")


def test_other_keys_detach(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    shell(shared_daemon, name)
    attach(pane, name, "--detach-keys", "C-a q")
    pane.sees("Ctrl-a q detaches")
    pane.run("echo typed")
    pane.press("C-a", "q")
    pane.sees("code=0")
    pane.run(f"S0D_DETACH_KEYS='^b' {S0D} attach {name}; echo again=$?")
    pane.sees(r"^typed +\ninner> $")
    pane.press("C-b")
    pane.sees("again=0")


def test_a_resize_is_followed(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.run("stty size")
    pane.sees("^24 80 +$")
    pane.resize(30, 100)
    shared_daemon.json("session", "wait", name, "--screen", "inner> ")
    pane.run("until [ \"$(stty size)\" = '30 100' ]; do :; done; echo resized")
    pane.sees("^resized +$")
    pane.press("C-]", "d")
    pane.sees("code=0")


@needs_vim
def test_vim_inside(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.run("vim -u NONE -c 'set mouse=a'")
    pane.sees("^~ +$")
    pane.type("ihello from vim")
    pane.press("Escape")
    pane.sees("^hello from vim +$")
    assert pane.state()["alternate_on"] == "1"
    pane.press("C-]", "d")
    pane.sees("code=0")
    assert_given_back(pane)
    attach(pane, name)
    pane.sees(r"(?s)^hello from vim +\n~")
    pane.type("yyp")
    pane.sees(r"(?s)^hello from vim +\nhello from vim +\n~")
    pane.press(":", "q", "!", "Enter")
    pane.sees(r"vim -u NONE .*\ninner> $")
    pane.run("exit")
    pane.sees("code=0")
    assert_given_back(pane)


def test_read_only_and_takeover(shared_daemon: Daemon, panes: Panes, name: str) -> None:
    shell(shared_daemon, name)
    worker, viewer = panes.open(), panes.open()
    attach(worker, name)
    worker.sees("inner> $")
    attach(viewer, name, "--read-only")
    viewer.sees("inner> $")
    viewer.run("echo from the viewer")
    worker.run("echo from the worker")
    viewer.sees("^from the worker +$")
    assert "viewer" not in worker.text()
    taker = panes.open()
    attach(taker, name, "--takeover")
    taker.sees("inner> $")
    for other in (worker, viewer):
        other.sees(rf"another client has taken {name} over +\ncode=1")
        assert_given_back(other)
    taker.press("C-]", "d")
    taker.sees("code=0")


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
@needs_vim
def test_given_back_whatever_happens_to_the_client(
    shared_daemon: Daemon, pane: Pane, name: str, signum: signal.Signals
) -> None:
    """Also when nothing of it is left to do so (SIGKILL)."""
    shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.run("vim -u NONE -c 'set mouse=a'")
    pane.sees("^~ +$")
    assert pane.state()["alternate_on"] == "1"
    os.kill(pane.pid_of("attach"), signum)
    pane.sees(f"code={128 + signum}")
    pane.run("echo works")
    pane.sees("^works +$")
    assert_given_back(pane)


def test_given_back_after_a_failure_of_the_client(
    shared_daemon: Daemon, pane: Pane, name: str, tmp_path: Path
) -> None:
    shell(shared_daemon, name)
    (tmp_path / "broken.py").write_text(
        "import sys\n"
        "from s0d.cli import attachment, main\n"
        "async def take(self, frame): raise RuntimeError('a bug')\n"
        "attachment.Attachment._output = take\n"
        "sys.exit(main.main(sys.argv[1:]))\n"
    )
    broken = f"{shlex.quote(sys.executable)} {tmp_path}/broken.py"
    pane.run(f"clear; {broken} attach {name}; echo code=$?")
    pane.sees("inner> $")
    pane.press("x")
    pane.sees("code=1")
    assert_given_back(pane)


def test_stopped_and_continued(shared_daemon: Daemon, pane: Pane, name: str) -> None:
    """SIGTSTP from elsewhere: the shell has its terminal, and then the session has it again."""
    shell(shared_daemon, name)
    attach(pane, name)
    pane.sees("inner> $")
    pane.run("echo before")
    pane.sees("^before +$")
    os.kill(pane.pid_of("attach"), signal.SIGTSTP)
    pane.sees("Stopped")
    assert_given_back(pane)
    pane.run("fg")
    pane.sees(r"^before +\ninner> $")
    pane.run("echo after")
    pane.sees(r"^after +\ninner> $")
    pane.press("C-]", "d")
    pane.sees(OUTER)


@pytest.mark.parametrize("how", ["restart", "kill"])
def test_reconnects_when_the_daemon_comes_back(daemon: Daemon, short_dir: Path, how: str) -> None:
    """The session runs again by its recovery policy: the client is attached to the new attempt,
    on a terminal without what the former one had set."""
    script = "printf '\\033[?1049h\\033[?1000h\\033[?25lup'; read x; echo got $x; sleep 1000"
    command = ("--pty", "--name", "up", "--stop-grace", "1", "--", "sh", "-c")
    daemon.json("session", "create", *command, "$0; " + script, "stty -echo")
    panes = Panes(short_dir, daemon.client_environment)
    try:
        pane = panes.open()
        attach(pane, "up")
        pane.sees("^up +$")
        pane.run("first")
        pane.sees("got first")
        if how == "restart":
            daemon.restart()
        else:
            daemon.kill()
            daemon.start()
        pane.sees("up +$")
        assert daemon.json("session", "get", "up")["attempt"]["number"] == 2
        pane.run("second")
        text = pane.sees("got second")
        assert "first" not in text  # it was the other screen's
        pane.press("C-]", "d")
        pane.sees("code=0")
        assert_given_back(pane)
    finally:
        panes.close()
