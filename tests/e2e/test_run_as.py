"""`--run-as`: sessions are another user's in everything, and the daemon is out of their reach."""

from __future__ import annotations

import os
import pwd
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from s0d.model.errors import InvalidRequest
from s0d.process.identity import parse_user
from s0d.supervisor import open_supervisor
from tests.conftest import daemons
from tests.support.daemon import Daemon
from tests.support.leftovers import processes_with
from tests.support.sessions import create, follow_until, output_of, shell

USER = "daemon"  # on every Linux, with a home that is there for all

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its identity")


@pytest.fixture(scope="module", params=["cgroups", "proc"])
def served(request: pytest.FixtureRequest) -> Iterator[Daemon]:
    arguments = ["--run-as", USER, *(["--no-cgroups"] if request.param == "proc" else [])]
    with daemons() as make:
        daemon = make(*arguments)
        daemon.start()
        yield daemon


def run(daemon: Daemon, script: str, *options: str) -> list[str]:
    """The lines that a session's script prints; it must succeed."""
    done = daemon.cli("run", "--rm", "--cwd", "/", *options, "--", "sh", "-c", script)
    assert done.returncode == 0, done
    return done.stdout.decode().replace("\r\n", "\n").splitlines()


@root_only
def test_the_user_in_everything(served: Daemon) -> None:
    entry = pwd.getpwnam(USER)
    script = 'id -u; id -g; id -G; echo "$HOME $USER $LOGNAME $SHELL"; grep ^Cap /proc/self/status'
    uid, gid, groups, names, *capabilities = run(served, script)
    assert (int(uid), int(gid)) == (entry.pw_uid, entry.pw_gid)
    assert {int(g) for g in groups.split()} == set(os.getgrouplist(USER, entry.pw_gid))
    assert names == f"{entry.pw_dir} {USER} {USER} {entry.pw_shell}"
    assert [
        line for line in capabilities if "CapBnd" not in line and line.split()[1].strip("0")
    ] == []


@root_only
def test_the_terminal_is_the_users(served: Daemon) -> None:
    lines = run(served, "stat -c %U $(tty); echo again > $(tty)", "--pty")
    assert lines == [USER, "again"]


@root_only
def test_a_session_that_names_no_directory_starts_at_home(served: Daemon) -> None:
    session = served.json("session", "create", "--", "true")
    assert session["spec"]["cwd"] == pwd.getpwnam(USER).pw_dir


@root_only
def test_the_daemon_is_out_of_reach(served: Daemon) -> None:
    token = served.state_dir / "token"
    attempts = [
        f"ls {served.state_dir}",
        f"cat {token}",
        f"kill -0 {served.pid}",
        f"cat /proc/{served.pid}/environ",
        f"cat /proc/{served.pid}/maps",
        f"ls /proc/{served.pid}/fd",
        f"echo x > /proc/{served.pid}/oom_score_adj",
    ]
    script = "; ".join(f"{{ {attempt}; }} 2>/dev/null && echo done" for attempt in attempts)
    assert run(served, f"{script}; echo end") == ["end"]


@root_only
def test_another_session_of_the_user_is_within_reach(served: Daemon) -> None:
    """The boundary is between the user and the daemon, not between that user's sessions."""
    other = served.json("session", "create", "--cwd", "/", "--", "sleep", "1000")
    pid = other["attempt"]["pid"]
    assert run(served, f"kill -0 {pid} && echo yes") == ["yes"]
    stopped = served.json("session", "stop", other["id"])
    assert (stopped["phase"], stopped["attempt"]["signal"]) == ("stopped", "SIGTERM")


@root_only
def test_its_trees_are_ended_all_the_same(served: Daemon) -> None:
    script = "trap '' TERM; setsid sh -c 'trap \"\" TERM; sleep 1000 & echo $!'; sleep 1000"
    options = ("--stop-grace", "1", "--cwd", "/")
    session = served.json("session", "create", *options, "--", "sh", "-c", script)
    stopped = served.json("session", "stop", session["id"])
    assert stopped["phase"] == "stopped"
    assert processes_with(f"S0D_SESSION_ID={session['id']}") == []


@root_only
async def test_embedded(short_dir: Path) -> None:
    async with open_supervisor(short_dir / "state", run_as=f"{USER}:nogroup") as supervisor:
        assert supervisor.run_as == USER
        session = await create(supervisor, shell("id -un; id -gn; pwd"))
        events = await follow_until(session, "attempt.exited")
    home = pwd.getpwnam(USER).pw_dir
    assert output_of(events).decode().split() == [USER, "nogroup", home]


@root_only
@pytest.mark.parametrize(
    ("run_as", "message"),
    [
        ("nobody-of-that-name", "there is no user 'nobody-of-that-name'"),
        ("4294967290", "there is no user '4294967290'"),
        (f"{USER}:none-such", "there is no group 'none-such'"),
        (f"{USER}:", "must be USER or USER:GROUP"),
        ("", "must be USER or USER:GROUP"),
        ("root", "root is what s0d is already"),
        ("0", "root is what s0d is already"),
    ],
)
async def test_refused(short_dir: Path, run_as: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        async with open_supervisor(short_dir / "state", run_as=run_as):
            pass
    assert not (short_dir / "state" / "sandboxes").exists(), "nothing has been begun"


def test_only_root_can(short_dir: Path) -> None:
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    short_dir.chmod(0o777)
    state = ("--state-dir", str(short_dir / "state"), "--listen", f"unix:{short_dir}/s0d.sock")
    command = [sys.executable, "-m", "s0d", "serve", *state, "--run-as", USER]
    done = subprocess.run(
        [*(prefix if os.geteuid() == 0 else []), *command],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert "only root can run programs as another user" in done.stderr


@root_only
@pytest.mark.parametrize("text", ["daemon", "1", "daemon:nogroup", "1:65534"])
def test_names_and_numbers(text: str) -> None:
    identity, user = parse_user(text)
    assert (identity.uid, user.name) == (1, "daemon")
    gid = 65534 if ":" in text else 1
    assert identity.gid == gid
    assert set(identity.groups) == set(os.getgrouplist("daemon", gid))
