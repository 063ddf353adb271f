"""Trees of processes that are hard to own, as shell scripts.

Each says `up` once all of it is in place; then its leader waits for a line and exits with 3.  All
of its processes carry `CELL` in their environment, by which a test finds them; s0d does not know
that name.
"""

from __future__ import annotations

from typing import NamedTuple

from s0d.process.proc import list_pids, read_stat

from .leftovers import has_any

CELL = "S0D_TEST_CELL"
EXIT_CODE = 3

# A storm: some forks a second before it is asked to end, then a hundred that live a little longer
# than the signal's arrival and hear nothing of it.
_STORM = """(
    storm() { trap '' TERM HUP; i=0; while [ $i -lt 100 ]; do sleep 0.2 & i=$((i+1)); done
              wait; exit; }
    trap storm TERM HUP; echo up
    while :; do sleep 0.1 & wait $!; done
) & """


class Shape(NamedTuple):
    """A script, how many processes it has at least, and whether only SIGKILL ends all of them."""

    script: str
    processes: int
    stubborn: bool = False

    @property
    def command(self) -> list[str]:
        return ["sh", "-c", f"{self.script} read line; exit {EXIT_CODE}"]


SHAPES = {
    "leader": Shape("echo up;", 1),
    "background": Shape("sleep 1000 & echo up;", 2),
    "setsid": Shape("setsid sh -c 'sleep 1000 & echo up';", 2),
    "daemon": Shape("setsid sh -c 'cd /; sleep 1000 <&- >&- 2>&- & echo up' & wait;", 2),
    "stubborn": Shape("(trap '' TERM HUP; echo up; exec sleep 1000) &", 2, stubborn=True),
    "stopped": Shape(
        "sh -c 'kill -STOP $$; sleep 1000' & "
        "until grep -q '^State:.T' /proc/$!/status; do :; done; echo up;",
        2,
    ),
    "storm": Shape(_STORM, 2),
}


def processes_of(cell: str) -> list[int]:
    """The pids, zombies excepted, of the processes of `cell`."""
    marker = {f"{CELL}={cell}"}
    return [
        pid
        for pid in list_pids()
        if has_any(pid, marker) and (stat := read_stat(pid)) is not None and stat.alive
    ]
