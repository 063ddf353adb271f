"""Settings: file, environment, flags, the later the stronger; where each comes from."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from s0d.api.config import ApiConfig, UnixAddress
from s0d.daemon.config import Config, resolve, resolve_settings
from s0d.daemon.settings import TYPES, Limits, Settings, default_file, gather, variable_of
from s0d.model.errors import InvalidRequest
from s0d.supervisor.bounds import Bounds

FILE = """
[daemon]
sandbox_id = "from-file"
hosts = ["a.example"]
access_log = false
log_level = "debug"

[daemon.limits]
sessions = 7
header_seconds = 2.5

[sessions.web]
command = ["true"]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "s0d.toml"
    path.write_text(FILE)
    return path


def test_the_later_is_the_stronger(file: Path) -> None:
    environ = {"S0D_DAEMON_SANDBOX_ID": "from-env", "S0D_DAEMON_LIMITS_SESSIONS": "8"}
    settings, found = gather({"sandbox_id": "from-flag", "listen": None}, environ, file)
    assert settings.sandbox_id == "from-flag"
    assert (settings.limits.sessions, settings.limits.header_seconds) == (8, 2.5)
    assert (settings.hosts, settings.access_log, settings.log_level) == (
        ["a.example"],
        False,
        "debug",
    )
    assert settings.limits.sandboxes == Limits().sandboxes
    assert found["sandbox_id"] == ("from-flag", "flag")
    assert found["limits.sessions"] == (8, "S0D_DAEMON_LIMITS_SESSIONS")
    assert found["hosts"] == (["a.example"], str(file))
    assert found["limits.sandboxes"] == (1000, "default")
    assert set(found) == set(TYPES)


def test_nothing_given_is_the_defaults() -> None:
    assert gather({}, {}, None)[0] == Settings()


@pytest.mark.parametrize(
    ("name", "text", "key", "value"),
    [
        ("S0D_DAEMON_LISTEN", "unix:/x 127.0.0.1:1", "listen", ["unix:/x", "127.0.0.1:1"]),
        ("S0D_DAEMON_CGROUPS", "false", "cgroups", False),
        ("S0D_DAEMON_LIMITS_BODY_SECONDS", "1.5", "limits.body_seconds", 1.5),
        ("S0D_STATE_DIR", "/s", "state_dir", "/s"),
    ],
)
def test_variables(name: str, text: str, key: str, value: Any) -> None:
    assert gather({}, {name: text}, None)[1][key] == (value, name)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[daemon]\nsandbx_id = 'x'",
            "sandbx_id: there is no such setting; did you mean sandbox_id?",
        ),
        ("[daemon.limits]\nsesions = 1", "did you mean limits.sessions?"),
        ("[daemon]\nzzz = 1", "zzz: there is no such setting"),
        ("[daemon.limit]\nsessions = 1", "did you mean limits.sessions?"),
        ("[daemon]\ncgroups = 'yes'", "cgroups: Expected `bool`, got `str`"),
        ("[daemon]\nlimits = 1", "limits: there is no such setting"),
        ("[daemon]\nlog_level = 'loud'", "log_level: Invalid enum value 'loud'"),
        ("[daemon.limits]\nsessions = 0", "limits.sessions: must be at least 1"),
        ("[daemon.limits]\nsessions = -1", "limits.sessions: must be at least 1"),
        ("[daemon.limits]\nsessions = '5'", "limits.sessions: Expected `int`"),
        ("daemon = 1", "daemon must be a table"),
        ("[daemon", "Expected ']'"),
    ],
)
def test_what_a_file_must_not_hold(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s0d.toml"
    path.write_text(text)
    with pytest.raises(InvalidRequest) as caught:
        gather({}, {}, path)
    assert caught.value.message.startswith(str(path))
    assert said in caught.value.message


def test_a_misspelt_variable_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="did you mean S0D_DAEMON_LOG_LEVEL"):
        gather({}, {"S0D_DAEMON_LOG_LEVL": "info"}, None)
    with pytest.raises(InvalidRequest, match="S0D_DAEMON_LIMITS_WAITS: limits"):
        gather({}, {"S0D_DAEMON_LIMITS_WAITS": "many"}, None)


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="No such file"):
        resolve_settings({"S0D_CONFIG": str(tmp_path / "none")}, 0, None, {})


def test_where_the_file_is(tmp_path: Path) -> None:
    environ = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert default_file(environ, 1000) is None
    (tmp_path / "s0d").mkdir()
    (tmp_path / "s0d" / "s0d.toml").write_text(FILE)
    assert default_file(environ, 1000) == tmp_path / "s0d" / "s0d.toml"
    assert resolve_settings(environ, 1000, None, {})[0].sandbox_id == "from-file"


def test_every_setting_has_its_place(tmp_path: Path) -> None:
    """Each limit reaches the API or the supervisor, with the defaults that they have themselves."""
    assert Config(state_dir=tmp_path).bounds == Bounds()
    made = Config(state_dir=tmp_path, listen=(UnixAddress("/x"),)).api((UnixAddress("/x"),))
    plain = ApiConfig()
    for name in vars(plain):
        if name.startswith("max_") or name.endswith("_timeout"):
            assert getattr(made, name) == getattr(plain, name), name
    changed = Limits(**{name: getattr(Limits(), name) + 1 for name in Limits.__struct_fields__})
    other = Config(state_dir=tmp_path, limits=changed)
    assert all(
        getattr(other.bounds, name) == getattr(Bounds(), name) + 1
        for name in Bounds.__struct_fields__
    )
    moved = other.api((UnixAddress("/x"),))
    of_api = len(Limits.__struct_fields__) - len(Bounds.__struct_fields__)
    assert (
        sum(getattr(moved, n) != getattr(plain, n) for n in vars(plain) if n != "listen") >= of_api
    )


def test_users_of_the_socket(tmp_path: Path) -> None:
    settings = {"state_dir": str(tmp_path), "socket_users": ["root", "1234"]}
    config = resolve({}, 0, **settings)
    assert config.uids == (0, 1234)
    assert config.api(config.listen).socket_mode == 0o666
    assert Config(state_dir=tmp_path).api(()).socket_mode == 0o600
    with pytest.raises(InvalidRequest, match="no user nobody-of-that-name"):
        resolve({}, 0, state_dir=str(tmp_path), socket_users=["nobody-of-that-name"])


def cli(*arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "s0d", "config", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", **env},
    )


def test_check_and_show(file: Path, tmp_path: Path) -> None:
    done = cli("check", "--config", str(file))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    shown = cli("show", "--config", str(file), "-o", "json", S0D_DAEMON_LOG_LEVEL="error")
    found = json.loads(shown.stdout)
    assert found["log_level"] == {"value": "error", "origin": "S0D_DAEMON_LOG_LEVEL"}
    assert found["limits.sessions"] == {"value": 7, "origin": str(file)}
    table = cli("show", S0D_CONFIG=str(file)).stdout
    assert "limits.sessions" in table
    assert str(file) in table
    bad = tmp_path / "bad.toml"
    bad.write_text("[daemon]\nlistn = []\n")
    done = cli("check", "--config", str(bad))
    assert done.returncode == 2
    assert "did you mean listen?" in done.stderr
    assert not (tmp_path / "token").exists()


def test_variables_of_every_setting_are_different() -> None:
    assert len({variable_of(key) for key in TYPES}) == len(TYPES)
