"""The impatient end: what a second signal does to sessions that use their grace period."""

from __future__ import annotations

import os
import signal

from s0d.process.proc import read_stat
from s0d.supervisor import Supervisor


def kill_sessions(supervisor: Supervisor) -> int:
    """SIGKILL the process group of every attempt that lives; how many there were.

    This shortens the orderly end and replaces none of it: exits are recorded, and what is left of
    each tree (a child in a session of its own) is still ended and proved dead by the supervisor.
    """
    return sum(
        _kill(attempt.pid, attempt.start_time)
        for sandbox in supervisor.sandboxes.values()
        for session in sandbox.sessions()
        if (attempt := session.record.unfinished) is not None and attempt.pid is not None
    )


def _kill(pid: int, start_time: int) -> bool:
    """A pid is only a number: the start time proves that it is still the attempt's leader."""
    found = read_stat(pid)
    if found is None or found.start_time != start_time or found.pgid != pid:
        return False
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return False
    return True
