"""Where the daemon is, from flags and environment."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from s0d.cli.errors import CliError, UsageError
from s0d.cli.target import check_default_socket, resolve


def test_the_flag_wins_over_the_environment_and_that_over_the_socket() -> None:
    environ = {"S0D_URL": "http://env:1", "S0D_TOKEN": "e"}
    assert resolve("http://flag:2", "f", environ).host == "flag"
    assert resolve("http://flag:2", "f", environ).token == "f"
    assert resolve(None, None, environ).host == "env"
    assert resolve(None, None, environ).token == "e"
    local = resolve(None, None, {})
    assert local.is_default
    assert local.socket is not None
    assert local.socket.endswith("/s0d.sock")
    assert local.token is None


@pytest.mark.parametrize(
    ("url", "host", "port", "tls", "prefix", "header"),
    [
        ("http://localhost:7707", "localhost", 7707, False, "", "localhost:7707"),
        ("http://localhost", "localhost", 80, False, "", "localhost:80"),
        ("https://h/base/", "h", 443, True, "/base", "h:443"),
        ("http://[::1]:7707", "::1", 7707, False, "", "[::1]:7707"),
    ],
)
def test_http_urls(url: str, host: str, port: int, tls: bool, prefix: str, header: str) -> None:
    target = resolve(url, None, {})
    assert (target.host, target.port, target.tls, target.prefix) == (host, port, tls, prefix)
    assert target.host_header == header
    assert target.socket is None
    assert not target.is_default


@pytest.mark.parametrize("url", ["unix:/a/b", "unix:///a/b"])
def test_unix_urls(url: str) -> None:
    target = resolve(url, None, {})
    assert (target.socket, target.host_header) == ("/a/b", "localhost")


@pytest.mark.parametrize("url", ["unix:a", "ftp://x", "localhost:7707", "http://", "http://h:x"])
def test_other_urls_are_usage_errors(url: str) -> None:
    with pytest.raises(UsageError):
        resolve(url, None, {})


@pytest.mark.parametrize("token", ["a\nb", "é"])
def test_a_token_must_fit_a_header(token: str) -> None:
    with pytest.raises(UsageError) as caught:
        resolve("http://h", token, {})
    assert token not in str(caught.value)


def test_a_token_is_not_shown() -> None:
    assert "secret" not in repr(resolve("http://h", "secret", {}))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_somebody_elses_runtime_directory_is_refused(tmp_path: Path) -> None:
    check_default_socket(str(tmp_path / "s0d.sock"))
    check_default_socket(str(tmp_path / "missing" / "s0d.sock"))
    os.chown(tmp_path, 12345, 12345)
    with pytest.raises(CliError, match="belongs to somebody else"):
        check_default_socket(str(tmp_path / "s0d.sock"))


def test_a_symlink_for_the_runtime_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(CliError, match="belongs to somebody else"):
        check_default_socket(str(tmp_path / "link" / "s0d.sock"))
