"""One look at all of /proc, shared by all who need one at the same time."""

from __future__ import annotations

from dataclasses import dataclass

import trio

from s0d.process import proc
from s0d.process.attribution import MARKER
from s0d.process.patience import patiently_async
from s0d.process.proc import ProcStat

_ROUNDS = 100


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every process that can be seen, and the markers of those not older than `oldest`."""

    processes: dict[int, ProcStat]
    markers: dict[int, str]


def look(oldest: int) -> Snapshot:
    """Look at /proc now: some 20 µs a process.  `oldest` is a start time in clock ticks.

    A listing alone would miss a process that forks and goes while it is being read, and whose
    child does the same.  So what was born meanwhile is looked at too, until nothing was: then all
    that lives has been seen.
    """
    snapshot = Snapshot({}, {})
    before = proc.last_pid()
    pids = proc.list_pids()
    for _ in range(_ROUNDS):
        for pid in pids:
            _note(pid, oldest, snapshot)
        newest = proc.last_pid()
        if newest == before:
            break
        pids = proc.pids_between(before, newest)
        before = newest
    return snapshot


def _note(pid: int, oldest: int, snapshot: Snapshot) -> None:
    stat = proc.read_stat(pid)
    if stat is None:
        return
    snapshot.processes[pid] = stat
    if stat.start_time >= oldest and stat.alive:
        marker = proc.environment_value(pid, MARKER)
        if marker is not None:
            snapshot.markers[pid] = marker


class Scanner:
    """Looks in a worker thread.  Whoever asks while a look is under way shares the next one.

    So a thousand trees that end at once cost a few looks and not a thousand.  A look that began
    before the question is no answer to it.
    """

    def __init__(self) -> None:
        self._looking = trio.Lock()
        self._asked: _Question | None = None

    async def look(self, oldest: int) -> Snapshot:
        question = self._asked = self._asked or _Question()
        question.oldest = min(question.oldest, oldest)
        async with self._looking:
            if question.answer is None:
                self._asked = None
                oldest = question.oldest
                question.answer = await patiently_async(
                    lambda: trio.to_thread.run_sync(look, oldest)
                )
        return question.answer


class _Question:
    """A look that has not begun, and later its answer."""

    def __init__(self) -> None:
        self.oldest = 2**63
        self.answer: Snapshot | None = None
