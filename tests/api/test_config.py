"""Addresses, and what must not be served."""

from __future__ import annotations

import socket

import pytest

from s0d.api.auth import StaticTokens
from s0d.api.config import ApiConfig, TcpAddress, UnixAddress, parse_address
from s0d.model.errors import InvalidRequest

TCP = TcpAddress("127.0.0.1", 7707)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7707", TCP),
        ("localhost:0", TcpAddress("localhost", 0)),
        ("[::1]:65535", TcpAddress("::1", 65535)),
        ("unix:/run/s0d.sock", UnixAddress("/run/s0d.sock")),
        ("unix:a:b", UnixAddress("a:b")),
    ],
)
def test_address_reads_and_prints_the_same(text: str, address: object) -> None:
    assert parse_address(text) == address
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "7707", ":7707", "host:", "host:x", "host:65536", "::1:80", "[host]:1", "unix:"]
)
def test_address_that_is_none(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_address(text)


def test_tcp_without_a_token_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="token"):
        ApiConfig(listen=[TCP]).check()
    ApiConfig(listen=[TCP], insecure_without_token=True).check()
    ApiConfig(listen=[TCP], tokens=StaticTokens.one("t")).check()
    ApiConfig(listen=[UnixAddress("/s")]).check()


def test_adopted_tcp_socket_without_a_token_is_refused() -> None:
    with socket.socket() as tcp, socket.socket(socket.AF_UNIX) as unix:
        ApiConfig(listen=[unix]).check()
        with pytest.raises(InvalidRequest, match="token"):
            ApiConfig(listen=[unix, tcp]).check()


def test_nothing_to_listen_on_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="listen"):
        ApiConfig().check()


def test_wildcard_addresses_are_no_names_of_ours() -> None:
    listen = [TcpAddress("0.0.0.0", 1), TcpAddress("::", 1), TcpAddress("sandbox.example", 1)]
    assert ApiConfig(listen=listen, hosts=["h"]).own_hosts == {"sandbox.example", "h"}
