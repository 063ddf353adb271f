"""Configuration from flags and environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from s0d.api.config import TcpAddress, UnixAddress
from s0d.daemon.config import Config, resolve
from s0d.model.errors import InvalidRequest


def test_defaults(tmp_path: Path) -> None:
    environ = {"S0D_STATE_DIR": str(tmp_path), "S0D_RUNTIME_DIR": "/r"}
    config = resolve(environ, 0)
    assert config.state_dir == tmp_path
    assert config.listen == (UnixAddress("/r/s0d.sock"),)
    assert config.optional_listen == (TcpAddress("127.0.0.1", 7707),)
    assert config.sandbox_id == "local"
    assert config.token == (tmp_path / "token").read_text().strip()
    assert not config.reset_copied_sessions


def test_any_listen_replaces_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    config = resolve({}, 0, state_dir="state", listen=["[::1]:80", "unix:sock"])
    assert config.listen == (TcpAddress("::1", 80), UnixAddress(str(tmp_path / "sock")))
    assert config.optional_listen == ()
    assert config.state_dir == tmp_path / "state"


def test_a_token_is_not_shown(tmp_path: Path) -> None:
    config = resolve({"S0D_TOKEN": "secret"}, 0, state_dir=str(tmp_path))
    assert config.token == "secret"
    assert "secret" not in repr(config)


@pytest.mark.parametrize("sandbox_id", ["Local", "-x", "a/b", "a" * 64])
def test_bad_sandbox_ids(tmp_path: Path, sandbox_id: str) -> None:
    with pytest.raises(InvalidRequest, match="sandbox id"):
        resolve({}, 0, state_dir=str(tmp_path), sandbox_id=sandbox_id)


@pytest.mark.parametrize("listen", ["nonsense", "h:99999", "unix:"])
def test_bad_addresses(tmp_path: Path, listen: str) -> None:
    with pytest.raises(InvalidRequest, match="listen"):
        resolve({}, 0, state_dir=str(tmp_path), listen=[listen])


def test_tcp_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="needs a token"):
        Config(state_dir=tmp_path, listen=(TcpAddress("127.0.0.1", 0),)).check()
    Config(state_dir=tmp_path, listen=(UnixAddress("/x"),)).check()
