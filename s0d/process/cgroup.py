"""The files of cgroup v2: directories, limits, counters (cgroup-v2 in the kernel's admin guide)."""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from s0d.process.errors import LimitUnavailable

_CONTROLLERS = ("cpu", "memory", "pids")


@dataclass(frozen=True, slots=True)
class CgroupLimits:
    """Limits of a whole tree; None is no limit.

    `memory_max_bytes` in bytes; above it the kernel kills (then `Usage.oom_kills` is not 0).
    `pids_max` in processes and threads.  `cpu_max` in microseconds of CPU time a period of so
    many microseconds: (50000, 100000) is half a processor.
    """

    memory_max_bytes: int | None = None
    pids_max: int | None = None
    cpu_max: tuple[int, int] | None = None

    def files(self) -> dict[str, str]:
        """What to write where."""
        found: dict[str, str] = {}
        if self.memory_max_bytes is not None:
            found["memory.max"] = str(self.memory_max_bytes)
        if self.pids_max is not None:
            found["pids.max"] = str(self.pids_max)
        if self.cpu_max is not None:
            found["cpu.max"] = "{} {}".format(*self.cpu_max)
        return found


def read_file(directory: str, name: str) -> str | None:
    """A cgroup's file, or None where this kernel or its delegation has no such file."""
    try:
        return Path(directory, name).read_text("ascii")
    except (FileNotFoundError, OSError) as error:
        if error.errno in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP):
            return None
        raise


def read_counters(directory: str, name: str) -> dict[str, int]:
    """A flat keyed file such as `cpu.stat`; empty where there is none."""
    lines = (read_file(directory, name) or "").splitlines()
    return {key: int(value) for key, _, value in (line.partition(" ") for line in lines)}


def write_file(directory: str, name: str, text: str) -> None:
    """Write a cgroup's file, which must exist: it is never created."""
    fd = os.open(f"{directory}/{name}", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode("ascii"))
    finally:
        os.close(fd)


def subgroups(directory: str) -> list[str]:
    """All cgroups below `directory`, the deepest first."""
    return [path for path, _, _ in os.walk(directory, topdown=False) if path != directory]


def read_members(directory: str) -> list[int]:
    """The pids in `directory` and below, each once."""
    found: dict[int, None] = {}
    for path in (directory, *subgroups(directory)):
        # A threaded cgroup says EOPNOTSUPP: its processes are listed in the one above.
        for line in (read_file(path, "cgroup.procs") or "").split():
            found[int(line)] = None
    found.pop(0, None)  # a process outside of our pid namespace
    return list(found)


def is_populated(directory: str) -> bool:
    """Whether a process lives in `directory` or below; a zombie does not count."""
    return read_counters(directory, "cgroup.events").get("populated", 0) != 0


def remove(directory: str) -> None:
    """Remove a cgroup and those below.  Raises OSError: EBUSY while a process lives there."""
    for path in (*subgroups(directory), directory):
        with suppress(FileNotFoundError):
            os.rmdir(path)


def set_limits(directory: str, limits: CgroupLimits) -> None:
    """Raises LimitUnavailable where the controller is missing, OSError for a refused value."""
    for name, text in limits.files().items():
        try:
            write_file(directory, name, text)
        except FileNotFoundError:
            controller = name.partition(".")[0]
            raise LimitUnavailable(
                f"{name}: the {controller} controller is not delegated to {directory} "
                f"(as a service: Delegate=yes)"
            ) from None


def enable_controllers(directory: str) -> list[str]:
    """Offer the controllers for limits to the cgroups below; returns those in force."""
    offered = (read_file(directory, "cgroup.controllers") or "").split()
    for controller in _CONTROLLERS:
        if controller in offered:
            # EBUSY: processes are in `directory` itself; the others may still be enabled.
            with suppress(OSError):
                write_file(directory, "cgroup.subtree_control", f"+{controller}")
    in_force = (read_file(directory, "cgroup.subtree_control") or "").split()
    return [controller for controller in _CONTROLLERS if controller in in_force]
