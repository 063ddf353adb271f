"""The environment a session's program starts with, variable by variable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

SERVICE_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Passed on from a daemon that a person started.  `LC_*` as well.
PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "TZ", "TMPDIR")

# Passed on from a system service's environment, which says nothing about a user.
PASSED_ON_BY_SERVICE = ("LANG", "TZ")


@dataclass(frozen=True, slots=True)
class UserEntry:
    """What the user database says of the user a program runs as (passwd(5))."""

    name: str
    home: str
    shell: str


def base_environment(
    inherited: Mapping[str, str], user: UserEntry, *, service: bool = False
) -> dict[str, str]:
    """The base list, from the daemon's own environment and the target user's entry.

    A daemon of a person's own (`service` False, programs run as the same user) passes on the
    variables of `PASSED_ON` and `LC_*`.  A system service, or a daemon whose programs run as
    another user, passes on the language and time zone alone.  HOME, USER, LOGNAME, SHELL and
    PATH are then, and where they are missing, the target user's.
    """
    names = PASSED_ON_BY_SERVICE if service else PASSED_ON
    defaults = {
        "PATH": SERVICE_PATH,
        "HOME": user.home,
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": user.shell or "/bin/sh",
    }
    passed_on = {
        name: value for name, value in inherited.items() if name in names or name.startswith("LC_")
    }
    return defaults | passed_on


def attempt_environment(
    base: Mapping[str, str], *layers: Mapping[str, str], identity: Mapping[str, str]
) -> dict[str, str]:
    """The base, then the layers in order, each over those before it, then `identity` over all.

    `identity` names the session, the attempt and the sandbox (`S0D_SESSION_ID`,
    `S0D_ATTEMPT_ID`, `S0D_SANDBOX_ID`); no layer can take its place.
    """
    merged = dict(base)
    for layer in layers:
        merged.update(layer)
    merged.update(identity)
    return merged
