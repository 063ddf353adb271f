"""Where the daemon is, and what to show it.

`--url` wins over `S0D_URL`, which wins over the local socket.  On a Unix socket the kernel tells
the daemon who we are, so a token is sent there only when one was given; on TCP it is needed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from .errors import CliError, UsageError

DEFAULT_PORT = 7707


@dataclass(frozen=True)
class Target:
    """One daemon.  `socket` is set for a Unix socket, else `host`, `port` and `tls` count."""

    url: str
    host: str = "localhost"
    port: int = DEFAULT_PORT
    socket: str | None = None
    tls: bool = False
    prefix: str = ""
    token: str | None = field(default=None, repr=False)
    is_default: bool = False

    @property
    def host_header(self) -> str:
        if self.socket:
            return "localhost"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def resolve(url: str | None, token: str | None, environ: Mapping[str, str]) -> Target:
    """The daemon that flags and environment mean; `UsageError` for a URL of no known form."""
    url = url or environ.get("S0D_URL") or None
    token = token or environ.get("S0D_TOKEN") or None
    if token is not None and not (token.isascii() and token.isprintable()):
        raise UsageError("the token must be printable ASCII")
    if url is None:
        return _local(token)
    if url.startswith("unix:"):
        path = url.removeprefix("unix:").removeprefix("//")
        if not path.startswith("/"):
            raise UsageError(f"{url}: a Unix socket is written unix:/absolute/path")
        return Target(url=url, socket=path, token=token)
    return _http(url, token)


def _local(token: str | None) -> Target:
    from s0d.daemon.paths import default_socket

    path = default_socket(os.environ, os.geteuid())
    return Target(url=f"unix:{path}", socket=str(path), token=token, is_default=True)


def _http(url: str, token: str | None) -> Target:
    parts = urlsplit(url)
    try:
        port = parts.port
    except ValueError as error:
        raise UsageError(f"{url}: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"{url}: write http://HOST:PORT, https://HOST:PORT or unix:/path")
    tls = parts.scheme == "https"
    return Target(
        url=url,
        host=parts.hostname,
        port=port or (443 if tls else 80),
        tls=tls,
        prefix=parts.path.rstrip("/"),
        token=token,
    )


def check_default_socket(path: str) -> None:
    """Refuse a default socket that somebody else could have put there.

    Its directory may lie in `/tmp`: whoever owned it could answer in the daemon's place.
    """
    directory = os.path.dirname(path)
    try:
        status = os.lstat(directory)
    except FileNotFoundError:
        return
    if not stat.S_ISDIR(status.st_mode) or status.st_uid not in (os.geteuid(), 0):
        raise CliError(f"{directory}: belongs to somebody else, refusing to use its socket")
