"""Own a tree of processes by a cgroup v2: nothing leaves it; the kernel says when it is empty."""

from __future__ import annotations

import os
import select
import signal as signals
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace

import trio

from s0d.process import cgroup, proc
from s0d.process.cgroup import CgroupLimits
from s0d.process.patience import patiently
from s0d.process.tree import FREEZE_PATIENCE, KILL_PATIENCE, EndReport, Usage, nothing

_PASSES = 20
_AT_ONCE = 64  # pidfds that are open at the same time


class CgroupTree:
    """One cgroup that holds the processes of one attempt.

    A program is put into it before its first instruction (`SpawnRequest.cgroup`), and every
    descendant is born in it.  (A process that may write to the hierarchy, root's above all, can
    move elsewhere on purpose; that is the limit of this proof.)
    """

    def __init__(self, path: str) -> None:
        self.path = path

    @classmethod
    def create(cls, parent: str, name: str, limits: CgroupLimits | None = None) -> CgroupTree:
        """Make the cgroup `name` below `parent`.

        Raises LimitUnavailable, OSError; then it does not exist.
        """
        path = f"{parent}/{name}"
        os.mkdir(path, 0o755)
        try:
            cgroup.set_limits(path, limits or CgroupLimits())
        except BaseException:
            os.rmdir(path)
            raise
        return cls(path)

    @property
    def exists(self) -> bool:
        """Whether the cgroup is there: that of a dead daemon may have gone with a reboot."""
        return os.path.isdir(self.path)

    def members(self) -> list[int]:
        return cgroup.read_members(self.path)

    def signal(self, signum: int) -> int:
        return self._signal_all(signum)

    def _signal_all(self, *signums: int) -> int:
        """Signal members until none is new: one that forked meanwhile has a child to be told."""
        told: set[int] = set()
        for _ in range(_PASSES):
            fresh = [pid for pid in self.members() if pid not in told]
            if not fresh:
                break
            for at in range(0, len(fresh), _AT_ONCE):
                told |= self._signal_some(fresh[at : at + _AT_ONCE], signums)
            told.update(fresh)
        return len(told)

    def _signal_some(self, pids: list[int], signums: tuple[int, ...]) -> set[int]:
        """A pid that is listed while its pidfd is open is that process, and a member."""
        told = set()
        with ExitStack() as cleanup:
            pidfds = {}
            for pid in pids:
                try:
                    pidfds[pid] = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue
                cleanup.callback(os.close, pidfds[pid])
            for pid in set(self.members()) & pidfds.keys():
                try:
                    for signum in signums:
                        signals.pidfd_send_signal(pidfds[pid], signum)
                except (ProcessLookupError, PermissionError):
                    continue
                told.add(pid)
        return told

    async def wait_empty(self) -> None:
        """Told by the kernel: `cgroup.events` is an exceptional condition (EPOLLPRI) each time
        it changes.  As a plain readable descriptor it is always ready, hence the epoll."""
        await trio.lowlevel.checkpoint()
        with suppress(FileNotFoundError):
            await self._watch_events(lambda events: b"populated 1" not in events)

    async def _watch_events(self, come_true: Callable[[bytes], bool]) -> None:
        path = f"{self.path}/cgroup.events"
        with ExitStack() as cleanup:
            events = await patiently(lambda: os.open(path, os.O_RDONLY | os.O_CLOEXEC))
            cleanup.callback(os.close, events)
            poll = cleanup.enter_context(await patiently(select.epoll))
            poll.register(events, select.EPOLLPRI)
            # Each read also arms the next notification.
            while not come_true(os.pread(events, 4096, 0)):
                await trio.lowlevel.wait_readable(poll)

    async def end(
        self,
        grace: float,
        *,
        terminal: bool = False,
        signum: int = signals.SIGTERM,
        told: Callable[[], None] = nothing,
    ) -> EndReport:
        await trio.lowlevel.checkpoint()
        if not self.exists:
            return EndReport()
        processes, resident = await patiently(self._present)
        report = EndReport(processes=processes, resident_bytes=resident)
        if grace > 0:
            last = [signum, *([signals.SIGHUP] if terminal else []), signals.SIGCONT]
            await self.thaw()
            await patiently(lambda: self._signal_all(*last))
            told()
            with trio.move_on_after(grace):
                await self.wait_empty()
                return report
        if not self.exists or not await patiently(lambda: cgroup.is_populated(self.path)):
            return report
        return replace(report, survivors=await self._kill(), killed=True)

    async def _kill(self) -> tuple[int, ...]:
        await patiently(lambda: cgroup.write_file(self.path, "cgroup.kill", "1"))
        with trio.move_on_after(KILL_PATIENCE):
            await self.wait_empty()
            return ()
        return tuple(self.members())

    async def freeze(self) -> None:
        """The kernel stops them as soon as each leaves its system call, and says when all have."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(FREEZE_PATIENCE), suppress(FileNotFoundError):
            await patiently(lambda: cgroup.write_file(self.path, "cgroup.freeze", "1"))
            await self._watch_events(lambda events: b"frozen 1" in events)

    async def thaw(self) -> None:
        await trio.lowlevel.checkpoint()
        with suppress(FileNotFoundError):
            await patiently(lambda: cgroup.write_file(self.path, "cgroup.freeze", "0"))

    def usage(self) -> Usage:
        """CPU time is complete; memory and count are summed up where controllers are missing."""
        microseconds = cgroup.read_counters(self.path, "cpu.stat").get("usage_usec", 0)
        processes, resident = self._present()
        oom_kills = cgroup.read_counters(self.path, "memory.events").get("oom_kill")
        peak = cgroup.read_file(self.path, "memory.peak")
        peak_bytes = int(peak) if peak else None
        return Usage(microseconds / 1e6, resident, processes, oom_kills, peak_bytes)

    def _present(self) -> tuple[int, int]:
        """How many processes, and their resident bytes together."""
        pids = self.members()
        memory = cgroup.read_file(self.path, "memory.current") if pids else None
        return len(pids), int(memory) if memory else _resident_bytes(pids)

    def close(self) -> None:
        """Remove the cgroup, and those its processes made in it.  Raises OSError (EBUSY)."""
        cgroup.remove(self.path)


def _resident_bytes(pids: list[int]) -> int:
    stats = [stat for pid in pids if (stat := proc.read_stat(pid))]
    return sum(stat.resident_pages for stat in stats) * proc.PAGE_SIZE
