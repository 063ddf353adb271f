"""Host and Origin: what is ours and what is a foreign web page."""

from __future__ import annotations

import pytest

from s0d.api.errors import Forbidden, MisdirectedRequest
from s0d.api.origin import Edge

EDGE = Edge(hosts=["Sandbox.Example", "[2001:db8::1]"], origins=["https://console.example/"])


@pytest.mark.parametrize(
    "host",
    [
        b"localhost",
        b"LocalHost:7707",
        b"localhost.",
        b"127.0.0.1:7707",
        b"127.8.9.10",
        b"[::1]:7707",
        b"[0:0:0:0:0:0:0:1]",
        b"sandbox.example",
        b"sandbox.example.:80",
        b"[2001:db8::1]:7707",
        b"10.1.2.3:7707",
        None,
    ],
)
def test_host_that_is_ours(host: bytes | None) -> None:
    EDGE.check_host(host, "10.1.2.3")


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"evil.example",
        b"localhost.evil.example",
        b"127.0.0.1.evil.example",
        b"127.1",
        b"2130706433",
        b"0.0.0.0:7707",
        b"[::]:7707",
        b"[::ffff:127.0.0.1]",
        b"10.1.2.4",
        b"localhost:port",
        b"localhost:99999",
        b"localhost/path",
        b"user@localhost",
        b"localhost evil",
        b"localhost,evil.example",
        b"[::1",
        b"::1",
        b"loc\xffalhost",
    ],
)
def test_host_that_is_not_ours(host: bytes) -> None:
    with pytest.raises(MisdirectedRequest):
        EDGE.check_host(host, "10.1.2.3")


@pytest.mark.parametrize(
    ("origin", "host", "site"),
    [
        (None, b"localhost:7707", None),
        (None, b"localhost:7707", b"same-origin"),
        (None, b"localhost:7707", b"none"),
        (b"http://localhost:7707", b"localhost:7707", b"same-origin"),
        (b"http://LOCALHOST", b"localhost:80", None),
        (b"https://sandbox.example", b"sandbox.example:443", None),
        (b"https://console.example", b"localhost:7707", b"cross-site"),
    ],
)
def test_origin_that_may_come_in(origin: bytes | None, host: bytes, site: bytes | None) -> None:
    EDGE.check_origin(origin, host, site)


@pytest.mark.parametrize(
    ("origin", "host", "site"),
    [
        (b"null", b"localhost:7707", None),
        (b"", b"localhost:7707", None),
        (b"http://evil.example", b"localhost:7707", None),
        (b"http://localhost:3000", b"localhost:7707", b"same-site"),
        (b"http://127.0.0.1:7707", b"localhost:7707", None),
        (b"https://console.example.evil.example", b"localhost", None),
        (b"ftp://localhost:7707", b"localhost:7707", None),
        (b"http://localhost:7707", None, None),
        (None, b"localhost:7707", b"cross-site"),
        (None, b"localhost:7707", b"Cross-Site"),
    ],
)
def test_origin_that_is_foreign(
    origin: bytes | None, host: bytes | None, site: bytes | None
) -> None:
    with pytest.raises(Forbidden):
        EDGE.check_origin(origin, host, site)
