"""What a program finds in its environment, name by name."""

from __future__ import annotations

from s0d.process.environment import (
    SERVICE_PATH,
    UserEntry,
    attempt_environment,
    base_environment,
)

USER = UserEntry("ann", "/home/ann", "/bin/zsh")
DAEMON = {
    "PATH": "/opt/bin",
    "HOME": "/home/daemon",
    "USER": "daemon",
    "LOGNAME": "daemon",
    "SHELL": "/bin/false",
    "LANG": "de_DE.UTF-8",
    "LC_TIME": "C",
    "TZ": "Europe/Berlin",
    "TMPDIR": "/var/tmp",
    "NOTIFY_SOCKET": "/run/notify",
    "LISTEN_FDS": "1",
    "LISTEN_PID": "1",
    "INVOCATION_ID": "x",
    "S0D_TOKEN": "secret",
    "LD_PRELOAD": "/evil.so",
    "TERM": "vt100",
    "PWD": "/",
}


def test_a_persons_own_daemon_passes_on_the_list_and_nothing_else() -> None:
    names = ["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_TIME", "TZ", "TMPDIR"]
    assert base_environment(DAEMON, USER) == {name: DAEMON[name] for name in names}


def test_a_service_gives_the_target_users() -> None:
    assert base_environment(DAEMON, USER, service=True) == {
        "PATH": SERVICE_PATH,
        "HOME": "/home/ann",
        "USER": "ann",
        "LOGNAME": "ann",
        "SHELL": "/bin/zsh",
        "LANG": "de_DE.UTF-8",
        "LC_TIME": "C",
        "TZ": "Europe/Berlin",
    }


def test_what_is_missing_is_the_users() -> None:
    base = base_environment({}, UserEntry("bob", "/", ""))
    assert base == {
        "PATH": SERVICE_PATH,
        "HOME": "/",
        "USER": "bob",
        "LOGNAME": "bob",
        "SHELL": "/bin/sh",
    }


def test_layers_in_order_and_the_identity_over_all() -> None:
    identity = {"S0D_SESSION_ID": "ses-1", "S0D_ATTEMPT_ID": "att-1"}
    sandbox = {"A": "sandbox", "B": "sandbox", "S0D_ATTEMPT_ID": "forged"}
    session = {"B": "session", "S0D_SESSION_ID": "forged"}
    merged = attempt_environment({"A": "base", "C": "base"}, sandbox, session, identity=identity)
    assert merged == {"A": "sandbox", "B": "session", "C": "base", **identity}
