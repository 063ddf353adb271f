"""The real side of `launch`: the environment of a process, its spawn, the ownership of its tree."""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import trio
from msgspec import UNSET

from s0d.model.errors import InvalidRequest
from s0d.model.spec import LimitsSpec
from s0d.process.attribution import TreeRecord
from s0d.process.cgroup import CgroupLimits
from s0d.process.cgroup_tree import CgroupTree
from s0d.process.detect import CgroupHome, Ownership, detect
from s0d.process.environment import attempt_environment
from s0d.process.errors import LimitUnavailable, SpawnError, SpawnErrorKind
from s0d.process.input import InputWriter
from s0d.process.leader import end_stray
from s0d.process.output import OutputPump, drain
from s0d.process.proc import boot_id
from s0d.process.proc_tree import ProcTree, record_of
from s0d.process.process import Process
from s0d.process.pty import TerminalSize
from s0d.process.request import Identity, ResourceLimits, SpawnRequest
from s0d.process.scanner import Scanner
from s0d.process.spawner import Spawner
from s0d.process.status import ExitStatus
from s0d.process.tree import EndReport, Tree, Usage, nothing

from .bounds import Bounds
from .counts import Counts
from .launch import LaunchPlan
from .sleep import MachineSleep

log = logging.getLogger("s0d.host")

_CPU_PERIOD = 100_000  # microseconds, the kernel's own default (cpu.max)


def open_cgroups(state_dir: str, *, claim: bool) -> tuple[CgroupHome | None, Ownership]:
    """The place for this state directory's cgroups, None where the machine allows none; and why.

    Named by the directory, so that the next daemon finds what this one leaves.
    """
    found = detect()
    if found.base is None:
        return None, found
    name = hashlib.blake2b(os.path.realpath(state_dir).encode(), digest_size=6).hexdigest()
    home = CgroupHome.open(found.base, f"s0d-{name}", claim=claim)
    return home, home.ownership()


def log_ownership(ownership: Ownership) -> None:
    """One line for an operator: by what process trees are owned, and what is missing."""
    extra = {
        "mode": ownership.mode,
        "base": ownership.base or "",
        "controllers": " ".join(ownership.controllers),
        "missing": "; ".join(ownership.missing),
    }
    log.info("ownership of process trees", extra=extra)


class ProcessHost:
    """Starts processes for all sandboxes of a supervisor.

    `environment` is what every process starts from, before the sandbox's and the session's own.
    With `home` each attempt is a cgroup in it, which is proof; without, it is the tree that /proc
    shows.  They run as `run_as`, None for the user we are ourselves, and with the soft limit
    `nofile_soft` of descriptors, None for our own.
    """

    def __init__(
        self,
        spawner: Spawner,
        environment: Mapping[str, str],
        home: CgroupHome | None,
        *,
        run_as: Identity | None = None,
        nofile_soft: int | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self.bounds = Bounds() if bounds is None else bounds
        self.boot_id = boot_id()
        self.counts = Counts()
        self.sleep = MachineSleep()
        self._spawner = spawner
        self._environment = dict(environment)
        self._home = home
        self._run_as = run_as
        self._nofile_soft = nofile_soft
        self._scanner = Scanner()

    async def launch(
        self, plan: LaunchPlan, sandbox_id: str, env_vars: Mapping[str, str]
    ) -> ProcessLaunch:
        """Start the process of `plan`; raises `SpawnError`."""
        cgroup = self._make_cgroup(plan)
        request = SpawnRequest(
            attempt_id=plan.attempt_id,
            argv=plan.argv,
            env=self._child_environment(plan, sandbox_id, env_vars),
            cwd=plan.cwd,
            terminal=plan.terminal,
            limits=_resource_limits(plan.limits, self._nofile_soft),
            run_as=self._run_as,
            cgroup=None if cgroup is None else cgroup.path,
        )
        began = time.perf_counter()
        try:
            process = await self._spawner.spawn(request)
            self.counts.spawn.observe(time.perf_counter() - began)
        except BaseException as error:
            self.counts.spawn_errors += isinstance(error, SpawnError)
            if cgroup is not None:
                _remove(cgroup)
            raise
        tree: Tree = cgroup or ProcTree(record_of(process, plan.attempt_id), self._scanner)
        return ProcessLaunch(process, tree, plan, self.bounds.input_queue)

    def _make_cgroup(self, plan: LaunchPlan) -> CgroupTree | None:
        if self._home is None:
            return None
        try:
            return CgroupTree.create(self._home.path, plan.attempt_id, _cgroup_limits(plan.limits))
        except (OSError, LimitUnavailable) as error:
            # Going on without would be a promise broken in silence.
            number = getattr(error, "errno", None) or errno.ENOTSUP
            raise SpawnError(
                SpawnErrorKind.SYSTEM, self._home.path, number, f"{self._home.path}: {error}"
            ) from error

    def check_limits(self, limits: LimitsSpec) -> None:
        """Refuse, with `InvalidRequest`, limits that this machine cannot enforce."""
        offered = () if self._home is None else self._home.controllers
        for name, controller, value in (
            ("memory_max_bytes", "memory", limits.memory_max_bytes),
            ("pids_max", "pids", limits.pids_max),
            ("cpu_max", "cpu", limits.cpu_max),
        ):
            if value and controller not in offered:
                raise InvalidRequest(
                    f"limits.{name}: cannot be enforced here, the cgroup v2 controller "
                    f"{controller} is not delegated to s0d (see s0d doctor)"
                )

    async def end_recorded(self, record: TreeRecord) -> EndReport:
        """End what is left of an attempt of a dead daemon: only processes proved to be its."""
        return await ProcTree(record, self._scanner).end(0)

    async def end_leftovers(self) -> None:
        """End and remove the cgroups that a dead daemon left in `home`."""
        for tree in self._home.leftovers() if self._home is not None else []:
            report = await tree.end(0)
            if report.survivors:
                log.error("processes of a former daemon survive SIGKILL: %s", report.survivors)
            _remove(tree)

    def close(self) -> None:
        if self._home is not None:
            self._home.close()

    def _child_environment(
        self, plan: LaunchPlan, sandbox_id: str, env_vars: Mapping[str, str]
    ) -> dict[str, str]:
        term = {"TERM": plan.term} if plan.terminal is not None else {}
        identity = {"S0D_ATTEMPT_ID": plan.attempt_id, "S0D_SANDBOX_ID": sandbox_id}
        if plan.session_id:
            identity["S0D_SESSION_ID"] = plan.session_id
        return attempt_environment(self._environment, env_vars, term, plan.env, identity=identity)


class ProcessLaunch:
    """A started process with its tree and plumbing (see `launch.Launch`)."""

    def __init__(self, process: Process, tree: Tree, plan: LaunchPlan, input_queue: int) -> None:
        self._process = process
        self._tree = tree
        self._plan = plan
        self.outputs = _outputs(process)
        self.input = _input(process, self.outputs, input_queue)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def start_time(self) -> int:
        return self._process.start_time

    async def wait(self) -> ExitStatus:
        return await self._process.wait()

    async def drain(self) -> None:
        await drain(self.outputs.values())

    def finish(self) -> None:
        for pump in self.outputs.values():
            pump.finish()

    def signal(self, signum: int) -> None:
        self._process.signal(signum)

    def resize(self, size: TerminalSize) -> None:
        self._process.resize(size)

    async def freeze(self) -> None:
        await self._tree.freeze()

    async def thaw(self) -> None:
        await self._tree.thaw()

    async def end(
        self, grace: float, signum: int | None = None, told: Callable[[], None] = nothing
    ) -> EndReport:
        if signum is not None:
            report = await self._tree.end(grace, signum=signum, told=told)
        else:
            report = await self._tree.end(
                grace, terminal=self._process.terminal, signum=self._plan.stop_signal, told=told
            )
        return report if report.survivors else await self._with_leader(report)

    async def _with_leader(self, report: EndReport) -> EndReport:
        stray = await end_stray(self._process, self._plan.attempt_id)
        if stray is None:
            return report
        log.error(
            "process %d, a leader outside of its own tree, had to be ended by itself",
            self.pid,
            extra={"session_id": self._plan.session_id, "attempt_id": self._plan.attempt_id},
        )
        processes = report.processes + stray.processes
        resident = report.resident_bytes + stray.resident_bytes
        return replace(stray, processes=processes, resident_bytes=resident)

    async def usage(self) -> Usage:
        if isinstance(self._tree, ProcTree):
            # A look of its own for each of a thousand attempts that end at once takes minutes.
            return await self._tree.usage_shared()
        return await trio.to_thread.run_sync(self._tree.usage)

    @property
    def peak_bytes(self) -> int | None:
        return self._process.peak_bytes

    async def wait_empty(self) -> None:
        await self._tree.wait_empty()
        await self._process.wait()

    def close(self) -> None:
        _remove(self._tree)
        self._process.close()


def _resource_limits(limits: LimitsSpec, nofile_soft: int | None) -> ResourceLimits:
    nofile = limits.nofile or None
    core = None if limits.core is UNSET else limits.core
    return ResourceLimits(nofile, core, nofile_soft if nofile is None else None)


def _cgroup_limits(limits: LimitsSpec) -> CgroupLimits:
    cpu = (round(limits.cpu_max * _CPU_PERIOD), _CPU_PERIOD) if limits.cpu_max else None
    return CgroupLimits(limits.memory_max_bytes or None, limits.pids_max or None, cpu)


def _remove(tree: Tree) -> None:
    try:
        tree.close()
    except OSError as error:
        log.warning("a cgroup cannot be removed: %s", error)


def _outputs(process: Process) -> dict[str, OutputPump]:
    if process.master_fd is not None:
        return {"pty": OutputPump(process.master_fd, terminal=True)}
    assert process.stdout_fd is not None
    assert process.stderr_fd is not None
    return {"stdout": OutputPump(process.stdout_fd), "stderr": OutputPump(process.stderr_fd)}


def _input(process: Process, outputs: dict[str, OutputPump], limit: int) -> InputWriter:
    def expect_replies() -> None:
        for pump in outputs.values():
            pump.expect_reply()

    if process.master_fd is not None:
        return InputWriter(process.master_fd, terminal=True, limit=limit, on_write=expect_replies)
    assert process.stdin_fd is not None
    return InputWriter(
        process.stdin_fd, limit=limit, close_stdin=process.close_stdin, on_write=expect_replies
    )
