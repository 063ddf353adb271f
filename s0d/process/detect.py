"""Which way of owning process trees this machine allows, and what is missing for the better."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from s0d.process import cgroup
from s0d.process.cgroup_tree import CgroupTree

_NEEDED = ("cgroup.kill", "cgroup.freeze", "cgroup.events", "cgroup.procs")
_DAEMON = "s0d-daemon"
# The limit of a specification that each controller enforces.
LIMITS = {"memory": "memory_max_bytes", "pids": "pids_max", "cpu": "cpu_max"}
SWITCHED_OFF = "cgroups are switched off (--no-cgroups)"


@dataclass(frozen=True, slots=True)
class Ownership:
    """What the machine allows.

    `base` is the cgroup under which one may make others, `controllers` those that can be
    delegated from there; `missing` says, a line each, what stands in the way of more.
    """

    mode: Literal["cgroup", "proc"]
    base: str | None
    controllers: tuple[str, ...]
    missing: tuple[str, ...]


def detect() -> Ownership:
    """Look at the machine; makes and removes a cgroup to be sure.  A matter of milliseconds."""
    base = own_cgroup()
    if base is None:
        reason = "no cgroup v2 is mounted (Linux 5.14 or newer with a unified hierarchy)"
        return Ownership("proc", None, (), (reason,))
    problem = _probe(base)
    if problem is not None:
        return Ownership("proc", None, (), (problem,))
    controllers = tuple((cgroup.read_file(base, "cgroup.controllers") or "").split())
    return Ownership("cgroup", base, controllers, _missing(base, controllers))


def _missing(base: str, controllers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(
        f"the {name} controller is not offered by {base}: no {limit} (Delegate=yes)"
        for name, limit in LIMITS.items()
        if name not in controllers
    )


def own_cgroup(proc_self: str = "/proc/self") -> str | None:
    """The directory of the cgroup v2 that this process is in, None where none is mounted.

    A daemon that has moved itself out of the way (`CgroupHome.claim`) counts from above.
    """
    mounted = _mount(Path(proc_self, "mountinfo").read_text("utf-8", "surrogateescape"))
    if mounted is None:
        return None
    root, point = mounted
    for line in Path(proc_self, "cgroup").read_text("utf-8", "surrogateescape").splitlines():
        number, _, rest = line.partition(":")
        path = rest.partition(":")[2]
        if number == "0":
            path = path.removesuffix(f"/{_DAEMON}")
            inside = path.removeprefix(root.rstrip("/"))
            return f"{point}{inside}".rstrip("/")
    return None


def _mount(mountinfo: str) -> tuple[str, str] | None:
    """Root and mount point of the cgroup v2 file system (proc_pid_mountinfo(5))."""
    for line in mountinfo.splitlines():
        fields, _, tail = line.partition(" - ")
        if tail.startswith("cgroup2 "):
            root, point = fields.split()[3:5]
            return _unescaped(root), _unescaped(point)
    return None


def _unescaped(path: str) -> str:
    return path.encode("latin-1", "surrogateescape").decode("unicode_escape")


def _probe(base: str) -> str | None:
    """Why no attempt's cgroup can be made below `base`; None when it can."""
    try:
        tree = CgroupTree.create(base, f"s0d-probe-{secrets.token_hex(4)}")
    except OSError as error:
        return f"{base}: no cgroup can be made there: {error.strerror} (Delegate=yes)"
    try:
        absent = [name for name in _NEEDED if not os.path.exists(f"{tree.path}/{name}")]
        if absent:
            return f"the kernel has no {', '.join(absent)} (Linux 5.14 or newer)"
        if (cgroup.read_file(tree.path, "cgroup.type") or "").strip() != "domain":
            return f"{base}: holds threads or processes that keep others out of cgroups below it"
        if not os.access(f"{base}/cgroup.procs", os.W_OK, effective_ids=True):
            return f"{base}/cgroup.procs: not writable, so no process can be moved (Delegate=yes)"
        return None
    finally:
        tree.close()


class CgroupHome:
    """The daemon's own part of the hierarchy: `<base>/<name>`, with one cgroup an attempt.

    The name is to be the same at the next start, so that what is left of a dead daemon's
    attempts is found there.
    """

    def __init__(self, path: str, controllers: tuple[str, ...]) -> None:
        self.path = path
        self.controllers = controllers

    @classmethod
    def open(cls, base: str, name: str, *, claim: bool = False) -> CgroupHome:
        """Make it, or take the one that is there.

        Controllers can be passed on only by a cgroup that holds no process itself.  With `claim`
        this process is moved from `base` into a cgroup of its own beside it, which only a daemon
        may do to itself; without it limits may be unavailable.  Raises OSError.
        """
        path = f"{base}/{name}"
        os.makedirs(path, 0o755, exist_ok=True)
        if claim and os.path.exists(f"{base}/cgroup.type"):  # the root cgroup has none, needs none
            os.makedirs(f"{base}/{_DAEMON}", 0o755, exist_ok=True)
            cgroup.write_file(f"{base}/{_DAEMON}", "cgroup.procs", str(os.getpid()))
        cgroup.enable_controllers(base)
        return cls(path, tuple(cgroup.enable_controllers(path)))

    def ownership(self) -> Ownership:
        """What is in force for those who have this part of the hierarchy."""
        return Ownership(
            "cgroup", self.path, self.controllers, _missing(self.path, self.controllers)
        )

    def leftovers(self) -> list[CgroupTree]:
        """The cgroups that are there: at start those of a dead daemon, to be ended and closed."""
        with os.scandir(self.path) as entries:
            return [CgroupTree(entry.path) for entry in entries if entry.is_dir()]

    def close(self) -> None:
        """Remove it when no attempt is left in it."""
        with suppress(OSError):
            os.rmdir(self.path)
