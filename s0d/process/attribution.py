"""Which processes belong to an attempt, by what /proc shows of them.  Pure functions.

The evidence, from strong to weak, all of it only for processes that are not older than the
leader (a child is never older than its ancestor):

- it is the leader: pid and start time;
- its parent belongs;
- it is in the leader's session, while one that belongs by other evidence is in
  that session too (the leader itself, be it as a zombie): so long the number is not given away;
- it is in a session that a member led, unless that number was free in between;
- its environment holds the attempt's marker.

A process that left the session, outlived its parents and cleaned its environment before it was
ever looked at cannot be told from a stranger, and is left alone.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from s0d.process.proc import ProcStat

MARKER = "S0D_ATTEMPT_ID"


@dataclass(frozen=True, slots=True)
class TreeRecord:
    """What names an attempt's processes, also to a later daemon.

    `pid` and `start_time` (clock ticks since boot) are those of the leader, whose pid is also
    the number of the process group and the session; `boot_id` says which boot's ticks they are.
    """

    attempt_id: str
    pid: int
    start_time: int
    boot_id: str


@dataclass(slots=True)
class Lineage:
    """What has been learnt of a tree so far; grows with every look."""

    record: TreeRecord
    members: dict[int, int] = field(default_factory=dict)  # pid -> start time
    sessions: dict[int, int] = field(default_factory=dict)  # session -> its leader's start time

    def attribute(self, processes: Mapping[int, ProcStat], markers: Mapping[int, str]) -> set[int]:
        """The pids of `processes` that belong, zombies too; remembers them."""
        candidates = {
            pid: stat
            for pid, stat in processes.items()
            if stat.start_time >= self.record.start_time and pid != os.getpid()
        }
        self._forget_recycled(processes)
        found = {
            pid
            for pid, stat in candidates.items()
            if self.members.get(pid) == stat.start_time
            or (pid == self.record.pid and stat.start_time == self.record.start_time)
            or stat.sid in self.sessions
            or markers.get(pid) == self.record.attempt_id
        }
        found = self._with_kin(found, candidates)
        self._remember(found, candidates)
        return found

    def _forget_recycled(self, processes: Mapping[int, ProcStat]) -> None:
        self.members = {
            pid: start
            for pid, start in self.members.items()
            if pid in processes and processes[pid].start_time == start
        }
        # A session's number is free for others once its leader and all others in it are gone.
        used = {stat.sid for stat in processes.values()}
        self.sessions = {
            sid: start
            for sid, start in self.sessions.items()
            if sid in used and (sid not in processes or processes[sid].start_time == start)
        }

    def _with_kin(self, found: set[int], candidates: Mapping[int, ProcStat]) -> set[int]:
        """Add descendants, and whoever shares a session that a member leads, until no more."""
        children: dict[int, list[int]] = {}
        sessions: dict[int, list[int]] = {}
        for pid, stat in candidates.items():
            children.setdefault(stat.ppid, []).append(pid)
            sessions.setdefault(stat.sid, []).append(pid)
        found = set(found)
        pending = list(found)
        while pending:
            pid = pending.pop()
            kin = children.get(pid, []) + sessions.get(pid, [])
            if candidates[pid].sid == self.record.pid:
                # A number is not given away while a session has it: it is still the leader's.
                kin += sessions[self.record.pid]
            fresh = [other for other in kin if other not in found]
            found.update(fresh)
            pending.extend(fresh)
        return found

    def _remember(self, found: set[int], candidates: Mapping[int, ProcStat]) -> None:
        self.members = {pid: candidates[pid].start_time for pid in found}
        for pid in found:
            if candidates[pid].sid == pid:
                self.sessions[pid] = candidates[pid].start_time
