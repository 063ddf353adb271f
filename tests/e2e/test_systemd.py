"""The units of `contrib/systemd/` under a live systemd."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.machine import PROGRAM, Machine, machine

FOREVER = ("sh", "-c", "echo $$; exec sleep 1000000")
STUBBORN = ("sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Machine]:
    with machine(tmp_path) as made:
        yield made


def session(host: Machine, name: str) -> Any:
    return json.loads(host.s0d("session", "get", "-o", "json", name))


def create(host: Machine, name: str, *command: str, flags: tuple[str, ...] = ()) -> Any:
    host.s0d("session", "create", "--name", name, *flags, "--", *command)
    host.s0d("session", "wait", name, "--phase", "running")
    return session(host, name)


def test_a_client_starts_it_by_its_socket_and_it_says_what_it_does(host: Machine) -> None:
    host.adjust("s0d.service", "WatchdogSec=2s\n")  # as often it says what it does
    host.boot("s0d.socket", "s0d-tcp.socket")
    assert host.property("s0d", "ActiveState") == "inactive"
    made = create(host, "one", *FOREVER)
    assert host.property("s0d", "ActiveState") == "active"
    host.wait_for("s0d", "StatusText", "1 sandboxes, 1 sessions, 1 running, 0 attached")
    cgroup = host.run("cat", f"/proc/{made['attempt']['pid']}/cgroup").stdout
    assert "/system.slice/s0d.service/" in cgroup
    assert made["attempt"]["id"] in cgroup
    token = host.s0d("token")
    url = {"S0D_URL": "http://127.0.0.1:7707", "S0D_TOKEN": token}
    (only,) = json.loads(host.s0d("ps", "-o", "json", env=url))
    assert only["spec"]["name"] == "one"


def test_a_stop_takes_the_time_that_sessions_need(host: Machine) -> None:
    host.adjust("s0d.service", "TimeoutStopSec=1s\n")
    host.boot("s0d.service")
    made = create(host, "stubborn", *STUBBORN, flags=("--stop-grace", "4s"))
    host.run("systemctl", "stop", "s0d")
    assert host.property("s0d", "Result") == "success"
    assert host.run("kill", "-0", str(made["attempt"]["pid"]), check=False).returncode != 0
    host.run("systemctl", "start", "s0d")
    host.s0d("session", "wait", "stubborn", "--phase", "running")
    assert session(host, "stubborn")["attempt"]["number"] == 2
    events = host.s0d("session", "events", "stubborn", "-o", "json")
    exits = [e for e in json.loads(events) if e["type"] == "attempt.exited"]
    assert [(e["reason"], e["signal"]) for e in exits] == [("runtime_replaced", "SIGKILL")]


def test_a_daemon_that_is_killed_comes_back_and_nothing_survives_it(host: Machine) -> None:
    host.boot("s0d.service", "s0d.socket")
    before = create(host, "worker", "sh", "-c", "setsid sleep 1000001 & exec sleep 1000002")
    host.run("kill", "-9", host.property("s0d", "MainPID"))
    host.wait_for("s0d", "NRestarts", "1")
    host.s0d("session", "wait", "worker", "--phase", "running")
    after = session(host, "worker")
    assert after["runtime_generation"] == before["runtime_generation"] + 1
    assert after["attempt"]["number"] == 2
    left = host.run("pgrep", "-fc", "sleep 100000[12]").stdout
    assert int(left) == 2  # those of the second attempt


def test_a_daemon_that_hangs_is_ended_and_comes_back(host: Machine) -> None:
    host.adjust("s0d.service", "WatchdogSec=2s\nTimeoutAbortSec=1s\n")
    host.boot("s0d.service", "s0d.socket")
    create(host, "worker", *FOREVER)
    host.run("kill", f"-{int(signal.SIGSTOP)}", host.property("s0d", "MainPID"))
    host.wait_for("s0d", "NRestarts", "1")
    host.s0d("session", "wait", "worker", "--phase", "running")
    assert session(host, "worker")["attempt"]["number"] == 2


def test_a_reload_reads_the_configuration_anew(host: Machine, tmp_path: Path) -> None:
    config = tmp_path / "s0d.toml"
    config.write_text("[daemon]\n")
    host.adjust("s0d.service", f"Environment=S0D_CONFIG={config}\n")
    host.boot("s0d.service")
    assert host.s0d("ps", "-q") == ""
    config.write_text('[sessions.web]\ncommand = ["sleep", "1000000"]\n')
    host.run("systemctl", "reload", "s0d")
    host.s0d("session", "wait", "web", "--phase", "running")
    first = session(host, "web")["attempt"]["pid"]
    host.run("systemctl", "reload", "s0d")
    assert session(host, "web")["attempt"]["pid"] == first


def test_an_instance_a_sandbox(host: Machine) -> None:
    host.boot("s0d@blue.service", "s0d@green.service")
    for name in ("blue", "green"):
        assert host.property(f"s0d@{name}", "ActiveState") == "active"
        url = {"S0D_URL": f"unix:/run/s0d-{name}/s0d.sock", "S0D_SANDBOX": name}
        host.s0d("session", "create", "--name", f"of-{name}", "--", *FOREVER, env=url)
        (only,) = json.loads(host.s0d("ps", "-o", "json", env=url))
        assert only["spec"]["name"] == f"of-{name}"


def test_a_token_from_a_credential_reaches_no_session(host: Machine) -> None:
    token = "credential-" + "x" * 40
    host.adjust("s0d.service", "LoadCredential=s0d.token:/run/token\n")
    host.boot("s0d-tcp.socket")
    host.run("sh", "-c", f"umask 077; printf %s {token} >/run/token")
    url = {"S0D_URL": "http://127.0.0.1:7707", "S0D_TOKEN": token}
    env = host.s0d("run", "--", "env", env=url)
    assert "S0D_SESSION_ID=" in env
    for ours in (token, "CREDENTIALS_", "NOTIFY_SOCKET", "WATCHDOG_", "LISTEN_", "INVOCATION_ID"):
        assert ours not in env
    wrong = {**url, "S0D_TOKEN": "y" * 40}
    assert host.run(*PROGRAM, "ps", check=False, env=wrong).returncode == 1
