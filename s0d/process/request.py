"""What a spawn is asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from s0d.process.pty import TerminalSize

CHILD_UMASK = 0o022


@dataclass(frozen=True, slots=True)
class Identity:
    """The user a program runs as: numeric user, group, and all supplementary groups."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceLimits:
    """Limits of the program by setrlimit(2), soft and hard alike; None keeps the daemon's.

    `nofile` is a number of descriptors, `core` a number of bytes (0: no core dumps).
    `nofile_soft` sets the soft limit alone: a daemon that raised its own gives the usual
    one back with it.
    """

    nofile: int | None = None
    core: int | None = None
    nofile_soft: int | None = None

    def __bool__(self) -> bool:
        return any(value is not None for value in (self.nofile, self.core, self.nofile_soft))


@dataclass(frozen=True, slots=True)
class SpawnRequest:
    """One program to start.

    `env` is the child's whole environment, exactly.  `cwd` is absolute.  With `terminal` the
    program gets a pseudo-terminal of that size as 0, 1, 2 and as its controlling terminal, else
    three pipes.  `cgroup` is a directory of cgroup v2 that it is in from its first instruction.
    """

    attempt_id: str
    argv: Sequence[str]
    env: Mapping[str, str]
    cwd: str
    terminal: TerminalSize | None = None
    umask: int = CHILD_UMASK
    limits: ResourceLimits = ResourceLimits()
    run_as: Identity | None = None
    cgroup: str | None = None
