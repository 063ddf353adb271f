"""What /proc says about processes, read so that a vanishing one is an answer, not an error."""

from __future__ import annotations

import functools
import os
import time
from pathlib import Path
from typing import NamedTuple

CLOCK_TICKS = os.sysconf("SC_CLK_TCK")
PAGE_SIZE = os.sysconf("SC_PAGE_SIZE")

_MANY_BIRTHS = 2000
_EXEC_LOOKS = 20
_EXEC_PAUSE = 0.0005


class ProcStat(NamedTuple):
    """The part of /proc/PID/stat that is used here (proc_pid_stat(5)); times in clock ticks."""

    pid: int
    name: str
    state: str
    ppid: int
    pgid: int
    sid: int
    cpu_ticks: int
    waited_cpu_ticks: int
    threads: int
    start_time: int
    resident_pages: int

    @property
    def alive(self) -> bool:
        """A process whose first thread has ended is a zombie by its state only."""
        return self.state not in "ZXx" or self.threads > 1


def parse_stat(raw: bytes) -> ProcStat:
    """Parse a line of /proc/PID/stat.  The name may hold anything, also `) R 1`.

    Raises ValueError for anything that is no such line.
    """
    head, closing, tail = raw.rpartition(b")")
    pid, opening, name = head.partition(b" (")
    fields = tail.split()
    if not closing or not opening or len(fields) < 22:
        raise ValueError("not a line of /proc/PID/stat")
    numbers = [int(field) for field in fields[1:22]]
    return ProcStat(
        pid=int(pid),
        name=name.decode(errors="surrogateescape"),
        state=fields[0].decode("ascii", "replace"),
        ppid=numbers[0],
        pgid=numbers[1],
        sid=numbers[2],
        cpu_ticks=numbers[10] + numbers[11],
        waited_cpu_ticks=numbers[12] + numbers[13],
        threads=numbers[16],
        start_time=numbers[18],
        resident_pages=numbers[20],
    )


def _read(path: str) -> bytes | None:
    """The whole of a /proc file, or None when the process is gone or not ours to look at."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    try:
        return _read_all(fd)
    except (ProcessLookupError, PermissionError):
        return None
    finally:
        os.close(fd)


def _read_all(fd: int) -> bytes:
    chunks = []
    while chunk := os.read(fd, 65536):
        chunks.append(chunk)
    return b"".join(chunks)


def read_stat(pid: int) -> ProcStat | None:
    """The process `pid`, or None when there is none."""
    raw = _read(f"/proc/{pid}/stat")
    return parse_stat(raw) if raw else None


def start_time(pid: int) -> int | None:
    """When `pid` was started, in clock ticks since boot; with the pid it names one process."""
    stat = read_stat(pid)
    return stat.start_time if stat else None


def list_pids() -> list[int]:
    """Every process that can be seen, in no order."""
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def last_pid() -> int:
    """The number that was given to a process or thread last in this pid namespace."""
    return int(Path("/proc/loadavg").read_bytes().split()[4])


def pids_between(before: int, newest: int) -> list[int]:
    """The processes born after `before` was the last pid, up to `newest`, that still live.

    Numbers are given in rising order and begin again at the bottom (pid_max, proc_sys_kernel(5)).
    """
    if newest < before or newest - before > _MANY_BIRTHS:
        return list_pids()
    return [pid for pid in range(before + 1, newest + 1) if is_process(pid)]


def is_process(pid: int) -> bool:
    """Whether it is a process and not one of the other threads, which /proc shows when asked."""
    status = _read(f"/proc/{pid}/status") or b""
    return b"\nTgid:\t%d\n" % pid in status


def environment_value(pid: int, name: str, *, patient: bool = True) -> str | None:
    """`name` in the environment `pid` was started with; None when absent or not to be read.

    In the middle of an exec a process has no environment for a moment, though it is about to
    have one: that is waited for, a few milliseconds at most, unless `patient` is False.
    """
    raw = _read(f"/proc/{pid}/environ")
    for _ in range(_EXEC_LOOKS if patient else 0):
        if raw != b"":
            break
        # Should the exec be over by now: what was read before may have been of the middle of it.
        if under_way := _is_in_exec(pid):
            time.sleep(_EXEC_PAUSE)
        raw = _read(f"/proc/{pid}/environ")
        if not under_way:
            break
    prefix = os.fsencode(name) + b"="
    for entry in (raw or b"").split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def _is_in_exec(pid: int) -> bool:
    """Whether there is memory but no place in it for an environment yet."""
    fields = (_read(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()
    size, environment_end = (int(fields[at]) for at in (20, 48)) if len(fields) > 48 else (0, 0)
    return size > 0 and environment_end == 0


@functools.cache
def boot_id() -> str:
    """The identity of this boot: start times of two boots cannot be compared."""
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
