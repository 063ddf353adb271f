"""The target user: whom the processes of sessions run as."""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass

from s0d.model.errors import InvalidRequest
from s0d.process.environment import UserEntry
from s0d.process.identity import parse_user
from s0d.process.request import Identity


@dataclass(frozen=True)
class Target:
    """`identity` is None for this process's own user.  `root` is where sessions start by default:
    the user's home, or `/` where that is no directory (as login(1) does)."""

    identity: Identity | None
    user: UserEntry
    root: str


def find_target(run_as: str | None) -> Target:
    """The target that `USER` or `USER:GROUP` means, None for this process's own user.

    May ask the network (NSS): not for the event loop.  Raises `InvalidRequest`.
    """
    identity, user = (None, _own()) if run_as is None else _other(run_as)
    return Target(identity, user, user.home if os.path.isdir(user.home) else "/")


def _other(run_as: str) -> tuple[Identity, UserEntry]:
    if os.geteuid() != 0:
        raise InvalidRequest("run_as: only root can run programs as another user")
    try:
        identity, user = parse_user(run_as)
    except ValueError as error:
        raise InvalidRequest(f"run_as: {error}") from None
    if identity.uid == 0:
        raise InvalidRequest("run_as: root is what s0d is already, name an ordinary user")
    return identity, user


def _own() -> UserEntry:
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:  # a container may run us under a number that has no name
        return UserEntry(str(os.geteuid()), "/", "/bin/sh")
    return UserEntry(entry.pw_name, entry.pw_dir, entry.pw_shell)
