"""How a process ended."""

from __future__ import annotations

import os
from dataclasses import dataclass

from s0d.model.signals import signal_name


@dataclass(frozen=True, slots=True)
class ExitStatus:
    """How a process ended.

    `exit_code` is what it returned, or 128+N when signal N ended it; `signal` is then that
    signal's name.  `known` is False when another part of the program took the status away
    (embedding: a stray `os.wait`, or SIGCHLD ignored): then the code is 255 and means nothing.
    """

    exit_code: int
    signal: str | None = None
    core_dumped: bool = False
    known: bool = True

    @classmethod
    def from_waitid(cls, code: int, status: int) -> ExitStatus:
        """From `si_code` and `si_status` of waitid(2)."""
        if code == os.CLD_EXITED:
            return cls(status)
        return cls(128 + status, signal_name(status), code == os.CLD_DUMPED)


LOST = ExitStatus(255, known=False)
