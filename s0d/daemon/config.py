"""Everything that can be configured, resolved from flags and environment."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from s0d.api.auth import AllTokens, StaticTokens
from s0d.api.config import Address, ApiConfig, TcpAddress, UnixAddress, parse_address
from s0d.api.token_file import FILE_NAME as TOKENS
from s0d.api.token_file import TokenFile
from s0d.model.errors import InvalidRequest
from s0d.model.ids import is_sandbox_id
from s0d.process.children import ChildRegistry

from .paths import default_socket, default_state_dir
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
    `access_log`: a line for each request in the log.
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
        return ApiConfig(
            listen=listen,
            tokens=AllTokens(one, made),
            token_file=made,
            access_log=self.access_log,
        )


def resolve(
    environ: Mapping[str, str],
    uid: int,
    *,
    state_dir: str | None = None,
    listen: Sequence[str] = (),
    sandbox_id: str | None = None,
    reset_copied_sessions: bool = False,
    cgroups: bool = True,
    run_as: str | None = None,
    access_log: bool = True,
) -> Config:
    """The configuration that flags and environment mean; any `listen` replaces both defaults.

    Makes the token file where there is none.  Raises `InvalidRequest` or `StateDirectoryError`.
    """
    state = Path(state_dir).absolute() if state_dir else default_state_dir(environ, uid)
    config = Config(
        state_dir=state,
        listen=tuple(_absolute(parse_address(text)) for text in listen)
        or (UnixAddress(str(default_socket(environ, uid))),),
        optional_listen=() if listen else (DEFAULT_TCP,),
        sandbox_id=sandbox_id or "local",
        reset_copied_sessions=reset_copied_sessions,
        cgroups=cgroups,
        claim_cgroup=cgroups,
        run_as=run_as,
        access_log=access_log,
        token=find_token(state, environ),
    )
    config.check()
    return config


def _absolute(address: Address) -> Address:
    """A socket's path as clients of any working directory must write it."""
    if isinstance(address, UnixAddress):
        return UnixAddress(os.path.abspath(address.path))
    return address
