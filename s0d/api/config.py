"""What an operator can set about the API, with the defaults.  Times are seconds, sizes bytes."""

from __future__ import annotations

import socket
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from s0d.model.errors import InvalidRequest

from .auth import StaticTokens, Tokens
from .tls import Tls
from .token_file import TokenFile


class TcpAddress(NamedTuple):
    """Port 0 lets the system choose; what was chosen is in the answer of `serve_api`."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class UnixAddress(NamedTuple):
    path: str

    def __str__(self) -> str:
        return f"unix:{self.path}"


Address = TcpAddress | UnixAddress


def parse_address(text: str) -> Address:
    """`HOST:PORT`, `[V6]:PORT` or `unix:PATH`; `InvalidRequest` for anything else."""
    if text.startswith("unix:"):
        if not text.removeprefix("unix:"):
            raise InvalidRequest("listen: unix: needs a path")
        return UnixAddress(text.removeprefix("unix:"))
    host, separator, port = text.rpartition(":")
    if not separator or not (port.isascii() and port.isdigit() and int(port) <= 65535):
        raise InvalidRequest(f"listen: {text!r} is neither HOST:PORT nor unix:PATH")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not bare or (":" in bare) != (bare != host):
        raise InvalidRequest(f"listen: {text!r}: write an IPv6 address as [ADDRESS]:PORT")
    return TcpAddress(bare, int(port))


@dataclass(frozen=True, kw_only=True)
class ApiConfig:
    """Where the API listens, whom it lets in, and what it bears.

    `listen` takes addresses and sockets that already listen (socket activation).  A TCP listener
    without tokens is refused unless `insecure_without_token` says that it is meant.
    """

    listen: Sequence[Address | socket.socket] = ()
    tokens: Tokens = field(default_factory=StaticTokens)
    token_file: TokenFile | None = None  # which clients may change; to be among `tokens`, too
    tls: Tls | None = None  # of TCP listeners; the Unix socket needs none
    insecure_without_token: bool = False
    uids: Collection[int] = ()  # users whose Unix socket connections need no token
    own_processes: Collection[str] = ()  # sandboxes whose own processes may come by that socket
    access_log: bool = True
    max_failures: int = 10  # different wrong tokens a minute and source
    hosts: Collection[str] = ()  # names in Host beyond loopback and what is listened on
    origins: Collection[str] = ()  # web pages that may call, as scheme://host[:port]

    max_connections: int = 2048
    max_connections_per_peer: int = 1024
    header_timeout: float = 10
    keep_alive: float = 75
    body_timeout: float = 60
    linger: float = 2  # after a last answer, for the client to read it and to hang up
    grace: float = 1  # at shutdown, before connections are cut
    heartbeat: float = 15  # silence on an event stream
    ping_interval: float = 20  # WebSocket

    max_waits: int = 1024  # requests that wait for something at once
    max_header: int = 16 << 10
    max_body: int = 16 << 20
    max_bodies: int = 128 << 20  # all that are in memory at once
    max_message: int = 16 << 20  # WebSocket
    max_page: int = 4 << 20  # events page

    def check(self) -> None:
        """Raise `InvalidRequest` for a combination that must not be served."""
        if not self.listen:
            raise InvalidRequest("listen: at least one address is required")
        if any(map(_is_tcp, self.listen)) and not (len(self.tokens) or self.insecure_without_token):
            raise InvalidRequest("listen: a TCP address needs a token")

    @property
    def socket_mode(self) -> int:
        """Who may connect to the Unix socket; the kernel then says who it is."""
        return 0o666 if self.uids else 0o600

    @property
    def own_hosts(self) -> set[str]:
        """Names that are ours: the configured ones and those listened on."""
        listened = {address.host for address in self.listen if isinstance(address, TcpAddress)}
        return {*self.hosts, *listened} - {"0.0.0.0", "::"}


def _is_tcp(address: Address | socket.socket) -> bool:
    if isinstance(address, socket.socket):
        return address.family != socket.AF_UNIX
    return isinstance(address, TcpAddress)
