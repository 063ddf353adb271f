"""A tree of processes that is owned: what both ways of owning one can do."""

from __future__ import annotations

import signal as signals
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

FREEZE_PATIENCE = 1.0  # seconds
KILL_PATIENCE = 5.0  # seconds that a process may take to die of SIGKILL


def nothing() -> None:
    return None


@dataclass(frozen=True, slots=True)
class EndReport:
    """How a tree ended.

    `survivors` live on after SIGKILL and `KILL_PATIENCE`: uninterruptible, or not ours to
    signal.  `killed` says that SIGKILL was needed, the grace period over.  `processes` lived when
    the end began, and had `resident_bytes` together.
    """

    survivors: tuple[int, ...] = ()
    killed: bool = False
    processes: int = field(default=0, compare=False)
    resident_bytes: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tree uses: CPU time in seconds since it began, resident bytes, processes now.

    Without a cgroup the CPU time of a process that has ended counts only where its parent in the
    tree waited for it.  `oom_kills` and `peak_bytes`, of all at once, are None where nobody counts
    them.
    """

    cpu_seconds: float
    resident_bytes: int
    processes: int
    oom_kills: int | None = None
    peak_bytes: int | None = None


class Tree(Protocol):
    """All processes of one attempt.

    The methods that are not async take the time of a look at /proc, a few milliseconds.
    """

    def members(self) -> list[int]:
        """The pids of what lives now."""
        ...

    def signal(self, signum: int) -> int:
        """Signal every member; returns how many got it."""
        ...

    async def wait_empty(self) -> None:
        """Wait until no member lives."""
        ...

    async def end(
        self,
        grace: float,
        *,
        terminal: bool = False,
        signum: int = signals.SIGTERM,
        told: Callable[[], None] = nothing,
    ) -> EndReport:
        """End the tree: `signum` (a terminal's: SIGHUP too) and SIGCONT to all, then SIGKILL.

        Returns as soon as all are gone.  `grace` is in seconds, 0 kills at once.  `told` is called
        when all have been sent the first signal, if one is sent before SIGKILL.
        """
        ...

    async def freeze(self) -> None:
        """Let no member run until `thaw`.

        Returns when none does, at the latest after `FREEZE_PATIENCE`: one in an uninterruptible
        wait stops when it leaves it.
        """
        ...

    async def thaw(self) -> None: ...

    def usage(self) -> Usage: ...

    def close(self) -> None:
        """Give up what belongs to the tree itself (a cgroup).  The tree must have ended."""
        ...
