"""Is this Host ours, is this Origin foreign.

A web page can make a browser talk to a daemon on this machine: directly (cross-site requests), or
under the page's own name pointed at 127.0.0.1 (DNS rebinding).  The browser then says so in
`Origin` and `Sec-Fetch-Site`, or gives itself away by the name in `Host`.  `Sec-Fetch-Mode` is
not looked at: Node sends `cors` with every request.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from .errors import Forbidden, MisdirectedRequest

_LOOPBACK = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
_PORTS = {"http": 80, "https": 443}


class Edge:
    """The names that are ours (`hosts`) and the foreign origins that may come in (`origins`)."""

    def __init__(self, hosts: Iterable[str] = (), origins: Iterable[str] = ()) -> None:
        self._hosts = {_plain(host) for host in hosts}
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def check_host(self, host: bytes | None, address: str | None) -> None:
        """Raise `MisdirectedRequest` unless `host` names us.

        `address` is the local address the connection came to: a Host that is this very literal
        cannot be a rebound name.  No Host at all (HTTP/1.0) cannot come from a browser.
        """
        if host is None:
            return
        name = _host_name(host)
        if name is None or not (
            name == "localhost" or name in self._hosts or name == address or _is_loopback(name)
        ):
            raise MisdirectedRequest("the Host is not one this server answers to")

    def check_origin(self, origin: bytes | None, host: bytes | None, site: bytes | None) -> None:
        """Raise `Forbidden` for what a foreign web page sends."""
        if origin is not None:
            text = origin.decode("latin-1").strip().lower()
            if text not in self._origins and not _same(text, host):
                raise Forbidden("requests of a foreign Origin are refused")
        elif site is not None and site.strip().lower() == b"cross-site":
            raise Forbidden("cross-site requests are refused")


def _plain(host: str) -> str:
    return host.strip().strip("[]").rstrip(".").lower()


def _authority(text: str, scheme: str = "http") -> tuple[str, int] | None:
    """Name and port of `host[:port]`, None for anything else (user names, paths, nonsense)."""
    try:
        parts = urlsplit(f"{scheme}://{text}")
        port = parts.port or _PORTS.get(scheme, 0)
    except ValueError:
        return None
    if parts.netloc != text or "@" in text or not parts.hostname:
        return None
    return parts.hostname.rstrip("."), port


def _host_name(host: bytes) -> str | None:
    found = _authority(host.decode("latin-1").strip())
    return None if found is None else found[0]


def _is_loopback(name: str) -> bool:
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return any(address in network for network in _LOOPBACK)


def _same(origin: str, host: bytes | None) -> bool:
    """Is `origin` the page of the very host and port that were asked?  (`null` never is.)"""
    scheme, separator, authority = origin.partition("://")
    if not separator or scheme not in _PORTS or host is None:
        return False
    ours = _authority(host.decode("latin-1").strip().lower(), scheme)
    return ours is not None and _authority(authority, scheme) == ours
