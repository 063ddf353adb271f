"""Own a tree of processes without a cgroup: by looking at /proc until nothing new is there."""

from __future__ import annotations

import functools
import os
import signal as signals
import time
from collections.abc import Callable
from dataclasses import replace

import trio

from s0d.process import proc
from s0d.process.attribution import MARKER, Lineage, TreeRecord
from s0d.process.patience import patiently
from s0d.process.proc import ProcStat
from s0d.process.process import Process
from s0d.process.scanner import Scanner, Snapshot, look
from s0d.process.tree import FREEZE_PATIENCE, KILL_PATIENCE, EndReport, Usage, nothing

_PASSES = 40
_HUNT = 0.1  # seconds
_SETTLING = 5  # looks that are given to those that were told to stop


def record_of(process: Process, attempt_id: str) -> TreeRecord:
    """The record by which this or a later daemon finds the process and its descendants."""
    return TreeRecord(attempt_id, process.pid, process.start_time, proc.boot_id())


class ProcTree:
    """The processes that a record leads to.

    No process is signalled by its number alone: a pidfd is opened, then the start time compared,
    then the signal sent through the pidfd.

    Before members are ended they are stopped, and looked for again until none is new: a stopped
    parent cannot fork, and cannot die and leave children behind that nothing links to the tree.
    """

    def __init__(self, record: TreeRecord, scanner: Scanner | None = None) -> None:
        self.record = record
        self._lineage = Lineage(record)
        self._scanner = scanner or Scanner()
        self._frozen: dict[int, int] = {}
        self._of_this_boot = record.boot_id == proc.boot_id()

    def _look_now(self) -> list[ProcStat]:
        if not self._of_this_boot:
            return []
        return self._belonging(look(self.record.start_time))

    async def _look(self) -> list[ProcStat]:
        return _alive(await self._look_at_all())

    async def _look_at_all(self) -> list[ProcStat]:
        """Zombies too."""
        if not self._of_this_boot:
            await trio.lowlevel.checkpoint()
            return []
        return self._belonging(await self._scanner.look(self.record.start_time))

    def _belonging(self, snapshot: Snapshot) -> list[ProcStat]:
        pids = self._lineage.attribute(snapshot.processes, snapshot.markers)
        return [snapshot.processes[pid] for pid in sorted(pids)]

    def members(self) -> list[int]:
        return [stat.pid for stat in _alive(self._look_now())]

    def unproved(self) -> list[int]:
        """Who is in the record's process group or session and yet may be a stranger.

        Only for a leader that is gone and was reaped: its number may have been given away since.
        They are never signalled; an operator may want to know of them.
        """
        members = {stat.pid for stat in self._look_now()}
        return [
            stat.pid
            for stat in look(self.record.start_time).processes.values()
            if self._of_this_boot
            and self.record.pid in (stat.pgid, stat.sid)
            and stat.pid not in members
            and stat.start_time >= self.record.start_time
        ]

    def signal(self, signum: int) -> int:
        return sum(send(stat, signum) for stat in _alive(self._look_now()))

    async def wait_empty(self) -> None:
        while members := await self._look():
            await wait_gone(members)

    async def end(
        self,
        grace: float,
        *,
        terminal: bool = False,
        signum: int = signals.SIGTERM,
        told: Callable[[], None] = nothing,
    ) -> EndReport:
        if grace > 0:
            with trio.CancelScope(shield=True):  # never leave it half way, all stopped
                found = _sum_up(await self._ask_to_end(signum, terminal))
            told()
            report = EndReport(processes=found.processes, resident_bytes=found.resident_bytes)
            with trio.move_on_after(grace):
                await self.wait_empty()
                return report
            killing = await self._kill()
            return replace(report, survivors=killing.survivors, killed=killing.killed)
        return await self._kill()

    async def _ask_to_end(self, signum: int, terminal: bool) -> list[ProcStat]:
        last = [signum, *([signals.SIGHUP] if terminal else []), signals.SIGCONT]
        members = await self._stop()
        for stat in members:
            send(stat, *last)
        return members

    async def _kill(self) -> EndReport:
        deadline = trio.current_time() + KILL_PATIENCE
        killed = False
        found: Usage | None = None
        while members := await self._stop():
            found = found or _sum_up(members)
            for stat in members:
                killed |= send(stat, signals.SIGKILL)
            with trio.move_on_at(deadline):
                await wait_gone(members)
            if trio.current_time() >= deadline:
                survivors = tuple(stat.pid for stat in await self._look())
                return EndReport(survivors, killed, found.processes, found.resident_bytes)
            if not await self._look():
                break
            # Whoever is left forks and goes faster than a look and a signal.
            killed |= await trio.to_thread.run_sync(hunt, self.record, _HUNT)
        if found is None:
            return EndReport(killed=killed)
        return EndReport((), killed, found.processes, found.resident_bytes)

    async def _stop(self) -> list[ProcStat]:
        """Stop all members and return them, once a look has found neither a new one nor a runner.

        After some looks it returns all the same: what cannot be stopped (another user's, one in
        an uninterruptible wait) must not keep the others from being ended.
        """
        told: dict[int, int] = {}
        members: list[ProcStat] = []
        settling = 0
        for _ in range(_PASSES):
            members = await self._look()
            fresh = [stat for stat in members if told.get(stat.pid) != stat.start_time]
            settling = 0 if fresh else settling + 1
            if settling and (settling > _SETTLING or not any(map(_runs, members))):
                break
            for stat in fresh:
                told[stat.pid] = stat.start_time
                send(stat, signals.SIGSTOP)
        return members

    async def freeze(self) -> None:
        """Stop every member; one that was stopped before stays so after `thaw`."""
        deadline = trio.current_time() + FREEZE_PATIENCE
        while runners := [stat for stat in await self._look() if stat.state not in "Tt"]:
            for stat in runners:
                if self._frozen.get(stat.pid) != stat.start_time:
                    self._frozen[stat.pid] = stat.start_time
                    send(stat, signals.SIGSTOP)
            if trio.current_time() >= deadline:
                return

    async def thaw(self) -> None:
        """The youngest go on first: a parent must not learn that its child was stopped."""
        frozen, self._frozen = self._frozen, {}
        for stat in reversed(await self._look()):
            if frozen.get(stat.pid) == stat.start_time:
                send(stat, signals.SIGCONT)

    def usage(self) -> Usage:
        """To be asked before the leader is reaped: its time then goes with it."""
        return _sum_up(self._look_now())

    async def usage_shared(self) -> Usage:
        """`usage`, by a look that is shared with all who look at the same time."""
        return _sum_up(await self._look_at_all())

    def close(self) -> None:
        """Nothing belongs to the tree itself."""


def _sum_up(processes: list[ProcStat]) -> Usage:
    living = _alive(processes)
    ticks = sum(stat.cpu_ticks + stat.waited_cpu_ticks for stat in processes)
    pages = sum(stat.resident_pages for stat in living)
    return Usage(ticks / proc.CLOCK_TICKS, pages * proc.PAGE_SIZE, len(living))


def hunt(record: TreeRecord, seconds: float) -> bool:
    """Kill marked processes as soon as they are born; whether any was.  In a worker thread.

    For processes that fork and end so fast that they are gone between being seen and being
    signalled: only what was born last is looked at, and signalled in the same breath.
    """
    caught = False
    until = time.monotonic() + seconds
    before = proc.last_pid()
    while time.monotonic() < until:
        newest = proc.last_pid()
        for pid in range(newest, min(before, newest - 1), -1):
            caught |= _kill_marked(pid, record)
        before = newest
    return caught


def _kill_marked(pid: int, record: TreeRecord) -> bool:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError:
        return False  # gone, or a thread
    try:
        # Opened first: should the number be given to another now, the pidfd is of nobody.
        if proc.environment_value(pid, MARKER) != record.attempt_id:
            return False
        signals.pidfd_send_signal(pidfd, signals.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(pidfd)
    return True


def _alive(processes: list[ProcStat]) -> list[ProcStat]:
    return [stat for stat in processes if stat.alive]


def _runs(stat: ProcStat) -> bool:
    return stat.state in "RS"


def send(stat: ProcStat, *signums: int) -> bool:
    """Send signals to exactly this process; False when it is gone or cannot be signalled now."""
    try:
        pidfd = os.pidfd_open(stat.pid)
    except OSError:
        return False  # gone; or descriptors are short, and whoever loops comes again
    try:
        if proc.start_time(stat.pid) != stat.start_time:
            return False
        for signum in signums:
            signals.pidfd_send_signal(pidfd, signum)
    except OSError:
        return False  # gone, or not ours to signal
    finally:
        os.close(pidfd)
    return True


async def wait_gone(processes: list[ProcStat]) -> None:
    """Wait until all of these have ended.  One descriptor is open at a time."""
    for stat in processes:
        pidfd = await patiently(functools.partial(_open_pidfd, stat))
        if pidfd is None:
            continue
        try:
            await trio.lowlevel.wait_readable(pidfd)
        finally:
            os.close(pidfd)
    await trio.lowlevel.checkpoint()


def _open_pidfd(stat: ProcStat) -> int | None:
    """A pidfd of exactly this process, None when it is gone."""
    try:
        pidfd = os.pidfd_open(stat.pid)
    except ProcessLookupError:
        return None
    try:
        if proc.start_time(stat.pid) == stat.start_time:
            return pidfd
    except BaseException:
        os.close(pidfd)
        raise
    os.close(pidfd)
    return None
