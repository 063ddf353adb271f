"""Everything that can be configured, resolved from file, environment and flags."""

from __future__ import annotations

import os
import pwd
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from s0d.api.auth import AllTokens, StaticTokens
from s0d.api.config import Address, ApiConfig, TcpAddress, UnixAddress, parse_address
from s0d.api.tls import Tls
from s0d.api.token_file import FILE_NAME as TOKENS
from s0d.api.token_file import TokenFile
from s0d.model.errors import InvalidRequest
from s0d.model.ids import is_sandbox_id
from s0d.process.children import ChildRegistry
from s0d.supervisor.bounds import Bounds

from .paths import default_socket, default_state_dir
from .settings import VARIABLE, Found, Limits, Settings, default_file, gather
from .token import find_token

DEFAULT_TCP: Final = TcpAddress("127.0.0.1", 7707)


@dataclass(frozen=True, kw_only=True)
class Config:
    """What `serve` needs.

    `listen`: addresses, or sockets that listen already.  `optional_listen`: addresses that are
    left out where they are taken (the default TCP port, which another user's daemon may hold).
    `cgroups`: False to own process trees by what /proc shows even where cgroups could be made.
    `token`: what a TCP client must show; None only where no TCP address is listened on.
    `claim_cgroup`, `registry` and `nofile_soft` are for a daemon that has its process for itself:
    whether it may move into a cgroup of its own; the attempts' children, which its reaper leaves
    alone; the soft limit of descriptors that it had before it raised its own (None: it did not).
    `access_log`: a line for each request in the log; `log_format` and `log_level` are for who sets
    up logging.
    `tls`: of all TCP listeners.
    `hosts`, `origins`: names and web pages beyond our own; `uids`: users whose connections to the
    Unix socket need no token; `own_processes`: sandboxes whose processes may come in by it.
    `file`: the configuration file, which may declare sessions, too.
    `run_as`: `USER` or `USER:GROUP` that sessions run as; None for the daemon's own user.
    """

    state_dir: Path
    listen: tuple[Address | socket.socket, ...] = ()
    optional_listen: tuple[TcpAddress, ...] = ()
    sandbox_id: str = "local"
    reset_copied_sessions: bool = False
    cgroups: bool = True
    token: str | None = field(default=None, repr=False)
    claim_cgroup: bool = False
    registry: ChildRegistry = field(default_factory=ChildRegistry)
    nofile_soft: int | None = None
    run_as: str | None = None
    access_log: bool = True
    log_format: str = "text"
    log_level: str = "info"
    hosts: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    uids: tuple[int, ...] = ()
    own_processes: tuple[str, ...] = ()
    insecure_without_token: bool = False
    tls: Tls | None = None
    limits: Limits = field(default_factory=Limits)
    file: Path | None = None

    @property
    def listens_by_default(self) -> bool:
        """Did nobody say where?"""
        return bool(self.optional_listen)

    def check(self) -> None:
        """Raise `InvalidRequest` for what could not be served."""
        if not is_sandbox_id(self.sandbox_id):
            raise InvalidRequest(
                "sandbox id: 1 to 63 of a-z, 0-9, _ and -, the first a letter or a digit"
            )
        if self.run_as is not None and os.geteuid() != 0:
            raise InvalidRequest("run_as: only root can run programs as another user")
        self.api((*self.listen, *self.optional_listen)).check()

    def api(self, listen: Sequence[Address | socket.socket]) -> ApiConfig:
        """The API's part, with what is really listened on."""
        one = StaticTokens.one(self.token) if self.token else StaticTokens()
        made = TokenFile(self.state_dir / TOKENS)
        limits = self.limits
        return ApiConfig(
            listen=listen,
            tokens=AllTokens(one, made),
            token_file=made,
            tls=self.tls,
            insecure_without_token=self.insecure_without_token,
            uids=self.uids,
            hosts=self.hosts,
            origins=self.origins,
            own_processes=self.own_processes,
            access_log=self.access_log,
            max_connections=limits.connections,
            max_connections_per_peer=limits.connections_per_peer,
            header_timeout=limits.header_seconds,
            max_header=limits.header_bytes,
            body_timeout=limits.body_seconds,
            max_body=limits.body_bytes,
            max_bodies=limits.all_bodies_bytes,
            max_message=limits.message_bytes,
            max_page=limits.page_bytes,
            max_waits=limits.waits,
            max_failures=limits.wrong_tokens_per_minute,
        )

    @property
    def bounds(self) -> Bounds:
        """The supervisor's part of the limits."""
        return Bounds(**{name: getattr(self.limits, name) for name in Bounds.__struct_fields__})

    @property
    def descriptors(self) -> int:
        """How many descriptors are needed where everything is full."""
        return self.bounds.descriptors(self.limits.connections)


def file_of(environ: Mapping[str, str], uid: int, file: str | None) -> Path | None:
    """The configuration file: the one that is named, else the default one where it is there."""
    named = file or environ.get(VARIABLE)
    return Path(named).absolute() if named else default_file(environ, uid)


def resolve_settings(
    environ: Mapping[str, str], uid: int, file: str | None, flags: Mapping[str, Any]
) -> tuple[Settings, Found]:
    """The settings and where each comes from, checked; nothing is made.  `InvalidRequest`."""
    settings, found = gather(flags, environ, file_of(environ, uid, file))
    _config(settings, environ, uid, token="x").check()
    return settings, found


def resolve(
    environ: Mapping[str, str], uid: int, *, file: str | None = None, **flags: Any
) -> Config:
    """The configuration that file, environment and flags mean (see `settings`).

    Makes the token file where there is none.  Raises `InvalidRequest` or `StateDirectoryError`.
    """
    settings, _ = resolve_settings(environ, uid, file, flags)
    state = _state_dir(settings, environ, uid)
    token = None if settings.insecure_without_token else find_token(state, environ)
    config = _config(settings, environ, uid, token=token)
    return replace(config, file=file_of(environ, uid, file))


def _state_dir(settings: Settings, environ: Mapping[str, str], uid: int) -> Path:
    given = settings.state_dir
    return Path(given).absolute() if given else default_state_dir(environ, uid)


def _config(
    settings: Settings, environ: Mapping[str, str], uid: int, *, token: str | None
) -> Config:
    listen = settings.listen
    return Config(
        state_dir=_state_dir(settings, environ, uid),
        listen=tuple(_absolute(parse_address(text)) for text in listen)
        or (UnixAddress(str(default_socket(environ, uid))),),
        optional_listen=() if listen else (DEFAULT_TCP,),
        sandbox_id=settings.sandbox_id or "local",
        reset_copied_sessions=settings.reset_copied_sessions,
        cgroups=settings.cgroups,
        claim_cgroup=settings.cgroups,
        run_as=settings.run_as or None,
        access_log=settings.access_log,
        log_format=settings.log_format,
        log_level=settings.log_level,
        hosts=tuple(settings.hosts),
        origins=tuple(settings.origins),
        uids=tuple(map(_uid_of, settings.socket_users)),
        own_processes=tuple(settings.own_processes),
        insecure_without_token=settings.insecure_without_token,
        tls=_tls(settings),
        limits=settings.limits,
        token=token,
    )


def _tls(settings: Settings) -> Tls | None:
    certificate, key, ca = settings.tls_certificate, settings.tls_key, settings.tls_client_ca
    if not certificate and not key and not ca:
        return None
    if not certificate or not key:
        raise InvalidRequest("tls: needs tls_certificate and tls_key")
    return Tls(certificate, key, ca or None)


def _uid_of(user: str) -> int:
    """A user by name or number."""
    if user.isascii() and user.isdigit():
        return int(user)
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        raise InvalidRequest(f"socket_users: there is no user {user}") from None


def _absolute(address: Address) -> Address:
    """A socket's path as clients of any working directory must write it."""
    if isinstance(address, UnixAddress):
        return UnixAddress(os.path.abspath(address.path))
    return address
