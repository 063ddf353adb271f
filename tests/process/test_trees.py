"""An ended tree is an empty tree, whichever way it is owned and whatever its processes do."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
import trio

from s0d.process import cgroup, cgroup_tree, proc, proc_tree
from s0d.process.attribution import TreeRecord
from s0d.process.cgroup import CgroupLimits
from s0d.process.cgroup_tree import CgroupTree
from s0d.process.errors import LimitUnavailable
from s0d.process.proc_tree import ProcTree, record_of
from s0d.process.scanner import Scanner
from s0d.process.tree import EndReport

from .conftest import PATIENCE, MakeTree, Running, Start, descriptors, python

# Each prints "ready" once all of its processes are there.
SHAPES = {
    "leader only": "echo ready; exec sleep 1000",
    "background child": "sleep 1000 & echo ready; wait",
    "setsid double fork": "(setsid sh -c '(sleep 1000; :) & echo ready; wait' &) ; sleep 1000",
    "daemonized": "(setsid sh -c 'exec <&- >&- 2>&-; cd /; sleep 1000 & exit' &); "
    "sleep 0.1; echo ready; sleep 1000",
    "ignores everything": "trap '' TERM HUP INT QUIT; sleep 1000 & echo ready; wait",
    "stopped child": "sh -c 'kill -STOP $$' & sleep 0.05; echo ready; wait",
    "leader gone": "(trap '' TERM HUP; echo ready; exec sleep 1000) & sleep 0.1; exit 0",
    "group left": 'python3 -c \'import os,time; os.setpgid(0,0); print("ready", flush=True); '
    "time.sleep(1000)' & wait",
    "marker dropped": "env -i sh -c 'sleep 1000 & echo ready; wait'",
}
OBSTINATE = {"ignores everything", "leader gone"}


async def alive(running: Running, shape: str = "") -> list[int]:
    """The members, at the moment all of the shape's processes are there."""
    await running.output(b"ready")
    if shape == "leader gone":
        await running.process.wait()
    return running.tree.members()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("terminal", [False, True])
async def test_nothing_survives(
    start: Start, make_tree: MakeTree, shape: str, terminal: bool
) -> None:
    running = await start("/bin/sh", "-c", SHAPES[shape], make=make_tree, terminal=terminal)
    pids = await alive(running, shape)
    assert pids
    grace = 0.3 if shape in OBSTINATE else 15
    began = trio.current_time()
    with trio.fail_after(PATIENCE):
        report = await running.tree.end(grace, terminal=terminal)
    took = trio.current_time() - began
    assert report == EndReport(killed=shape in OBSTINATE)
    assert took >= 0.3 if shape in OBSTINATE else took < 15
    assert running.tree.members() == []
    assert [pid for pid in pids if (stat := proc.read_stat(pid)) and stat.alive] == []
    await running.process.wait()


@pytest.mark.parametrize("shape", SHAPES)
async def test_without_grace_it_is_killed_at_once(
    start: Start, make_tree: MakeTree, shape: str
) -> None:
    running = await start("/bin/sh", "-c", SHAPES[shape], make=make_tree)
    await alive(running, shape)
    with trio.fail_after(PATIENCE):
        assert await running.tree.end(0) == EndReport(killed=True)
    assert running.tree.members() == []


async def test_an_empty_tree_has_ended(start: Start, make_tree: MakeTree) -> None:
    running = await start("/bin/true", make=make_tree)
    await running.process.wait()
    assert await running.tree.end(10) == EndReport()
    assert running.tree.members() == []


async def test_the_grace_is_not_waited_out(start: Start, make_tree: MakeTree) -> None:
    script = "trap 'sleep 0.2; exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    await alive(running)
    with trio.fail_after(PATIENCE):
        report = await running.tree.end(1000)
    assert (report, (await running.process.wait()).exit_code) == (EndReport(), 3)


async def test_a_fork_storm_ends(start: Start, make_tree: MakeTree) -> None:
    """Every process starts the next one in a session of its own and goes.

    It ends by itself long after the test: should the test be killed, nobody else could end it.
    """
    code = (
        "import os, signal, time\n"
        "end = time.monotonic() + 60\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "if os.fork(): signal.alarm(60); signal.pause()\n"
        "os.write(1, b'ready')\n"
        "while time.monotonic() < end:\n"
        "    if os.fork(): os._exit(0)\n"
        "    os.setsid()\n"
    )
    running = await start("python3", "-c", code, make=make_tree)
    await alive(running)
    with trio.fail_after(PATIENCE):
        report = await running.tree.end(0.2)
    assert report == EndReport(killed=True)
    assert running.tree.members() == []


async def test_three_hundred_members(start: Start, make_tree: MakeTree) -> None:
    script = "for i in $(seq 300); do sleep 1000 & done; echo ready; wait"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    assert len(await alive(running)) == 301
    with trio.fail_after(PATIENCE):
        assert await running.tree.end(15) == EndReport()


async def test_signal_reaches_all(start: Start, make_tree: MakeTree) -> None:
    script = "setsid sleep 1000 & sleep 1000 & sleep 0.05; echo ready; exec sleep 1000"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    await alive(running)
    assert running.tree.signal(signal.SIGTERM) == 3
    with trio.fail_after(PATIENCE):
        await running.tree.wait_empty()


async def test_wait_empty_waits_for_the_last(start: Start, make_tree: MakeTree) -> None:
    script = "setsid sleep 0.3 & echo ready"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    began = trio.current_time()
    with trio.fail_after(PATIENCE):
        await running.tree.wait_empty()
    assert trio.current_time() - began > 0.2
    assert running.tree.members() == []


COUNTER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done & sleep 0.05; echo ready; wait"


async def test_freeze_and_thaw(start: Start, make_tree: MakeTree) -> None:
    running = await start("/bin/sh", "-c", COUNTER, make=make_tree)
    await running.output(b"ready")
    await running.tree.freeze()
    await trio.sleep(0.1)  # what was written before may still come
    size = len(running.written["stdout"])
    await trio.sleep(0.2)  # silence has to last a while to be one
    assert len(running.written["stdout"]) == size
    await running.tree.thaw()
    with trio.fail_after(PATIENCE):
        while len(running.written["stdout"]) == size:
            await running.changed.wait()


async def test_a_frozen_tree_can_be_ended_politely(start: Start, make_tree: MakeTree) -> None:
    script = "trap 'exit 3' TERM; echo ready; while :; do sleep 0.01; done"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    await alive(running)
    await running.tree.freeze()
    with trio.fail_after(PATIENCE):
        assert await running.tree.end(15) == EndReport()
    assert (await running.process.wait()).exit_code == 3


async def test_what_was_stopped_stays_so_after_a_freeze(start: Start, make_tree: MakeTree) -> None:
    script = "sh -c 'kill -STOP $$; echo bad' & echo $!; sleep 0.05; echo ready; wait"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    pid = int((await running.output(b"ready")).split()[0])
    await running.tree.freeze()
    await running.tree.thaw()
    stat = proc.read_stat(pid)
    assert stat is not None
    assert stat.state == "T"


async def test_usage(start: Start, make_tree: MakeTree) -> None:
    code = (
        "x = bytearray(30_000_000)\nfor i in range(3_000_000): pass\nprint('ready', flush=True)\n"
    )
    code += "import time; time.sleep(1000)"
    running = await start("python3", "-c", code, make=make_tree)
    await running.output(b"ready")
    usage = running.tree.usage()
    assert usage.processes == 1
    assert 30_000_000 < usage.resident_bytes < 200_000_000
    assert 0.02 < usage.cpu_seconds < 10
    await running.tree.end(0)
    after = running.tree.usage()
    assert (after.processes, after.resident_bytes) == (0, 0)
    assert after.cpu_seconds >= usage.cpu_seconds


async def test_cancelled_in_the_grace_period_the_rest_is_up_to_the_caller(
    start: Start, make_tree: MakeTree
) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 0.01; done"
    running = await start("/bin/sh", "-c", script, make=make_tree)
    await alive(running)
    with trio.move_on_after(0.05) as scope:
        await running.tree.end(1000)
    assert scope.cancelled_caught
    states = [stat.state for pid in running.tree.members() if (stat := proc.read_stat(pid))]
    assert states
    assert "T" not in states
    assert await running.tree.end(0) == EndReport(killed=True)


async def test_ended_although_descriptors_are_short(
    start: Start, make_tree: MakeTree, nursery: trio.Nursery
) -> None:
    running = await start("/bin/sh", "-c", SHAPES["ignores everything"], make=make_tree)
    await alive(running)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    hogs: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, descriptors())) + 5, hard))
    try:
        while (fd := duplicate(0)) is not None:
            hogs.append(fd)
        ended = trio.Event()

        async def end() -> None:
            assert await running.tree.end(0.05) == EndReport(killed=True)
            ended.set()

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as ending:
                ending.start_soon(end)
                await trio.sleep(0.2)  # long enough for each step to have found none
                assert not ended.is_set()
                for fd in hogs:
                    os.close(fd)
                hogs.clear()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for fd in hogs:
            os.close(fd)


def duplicate(fd: int) -> int | None:
    try:
        return os.dup(fd)
    except OSError:
        return None


# --- by /proc ---------------------------------------------------------------------------------


async def test_a_survivor_is_reported(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running = await start("/bin/sleep", "1000")
    with monkeypatch.context() as patch:
        patch.setattr(proc_tree, "send", lambda *_: True)  # as if uninterruptible
        patch.setattr(proc_tree, "KILL_PATIENCE", 0.1)
        report = await running.tree.end(0)
    assert report == EndReport((running.process.pid,), killed=True)


async def test_a_recycled_pid_is_never_signalled(start: Start) -> None:
    running = await start("/bin/sleep", "1000")
    record = record_of(running.process, "att-other")
    stranger = ProcTree(TreeRecord("att-other", record.pid, record.start_time - 1, record.boot_id))
    assert await stranger.end(0) == EndReport()
    stat = proc.read_stat(record.pid)
    assert stat is not None
    assert not proc_tree.send(stat._replace(start_time=stat.start_time + 1), signal.SIGKILL)
    assert running.tree.members() == [record.pid]


async def test_a_tree_of_another_boot_is_empty(start: Start) -> None:
    running = await start("/bin/sleep", "1000", attempt_id="att-x")
    record = record_of(running.process, "att-x")
    other = ProcTree(TreeRecord(record.attempt_id, record.pid, record.start_time, "another"))
    assert other.members() == []
    assert await other.end(1) == EndReport()
    assert running.tree.members() == [record.pid]


DYING = """
import os, sys, trio
from s0d.process.spawner import Spawner
from s0d.process.request import SpawnRequest
from s0d.process.proc_tree import record_of
async def main():
    async with Spawner() as s:
        env = {"PATH": "/usr/bin:/bin", "S0D_ATTEMPT_ID": sys.argv[1]}
        script = "trap '' TERM; (setsid sleep 1000 &); sleep 1000 & echo up; %s"
        p = await s.spawn(SpawnRequest(sys.argv[1], ["/bin/sh", "-c", script], env, "/"))
        await trio.lowlevel.wait_readable(p.stdout_fd)
        if script.endswith("exit"): await p.wait()
        r = record_of(p, sys.argv[1])
        print(r.pid, r.start_time, r.boot_id, flush=True)
        os.kill(os.getpid(), 9)
trio.run(main)
"""


@pytest.mark.parametrize("leader", ["wait", "exit"])
async def test_the_tree_of_a_dead_daemon_is_ended_by_its_record(
    attempt_id: str, leader: str
) -> None:
    run = await trio.run_process(
        python("-c", DYING % leader, attempt_id), capture_stdout=True, check=False
    )
    pid, start, boot = run.stdout.decode().split()
    tree = ProcTree(TreeRecord(attempt_id, int(pid), int(start), boot))
    assert len(tree.members()) == (3 if leader == "wait" else 2)
    with trio.fail_after(PATIENCE):
        report = await tree.end(0.2)
    assert report == EndReport(killed=True)
    assert tree.members() == []


async def test_a_stranger_in_a_session_of_that_number_is_told_but_not_touched(
    start: Start,
) -> None:
    running = await start("/bin/sh", "-c", "sleep 1000 & echo ready; wait", attempt_id="att-live")
    await running.output(b"ready")
    record = record_of(running.process, "att-dead")
    # As if the number had been given away since: another start time, another marker.
    dead = ProcTree(TreeRecord("att-dead", record.pid, record.start_time - 1, record.boot_id))
    assert sorted(dead.unproved()) == sorted(running.tree.members())
    assert await dead.end(0) == EndReport()
    assert len(running.tree.members()) == 2


async def test_looks_are_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    scanner = Scanner()
    began = []

    def look(oldest: int) -> object:
        began.append(oldest)
        return object()

    monkeypatch.setattr("s0d.process.scanner.look", look)
    found = []

    async def ask(oldest: int) -> None:
        found.append(await scanner.look(oldest))

    async with trio.open_nursery() as nursery:
        for oldest in range(50, 150):
            nursery.start_soon(ask, oldest)
    assert len(found) == 100
    assert len(began) <= 3
    assert min(began) == 50


# --- by cgroup --------------------------------------------------------------------------------


async def test_a_cgroup_that_will_not_empty_is_reported(
    start: Start, make_tree: MakeTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    if make_tree.home is None:
        pytest.skip("for cgroups")
    running = await start("/bin/sleep", "1000", make=make_tree)
    with monkeypatch.context() as patch:
        patch.setattr(cgroup, "write_file", lambda *_: None)
        patch.setattr(cgroup_tree, "KILL_PATIENCE", 0.1)
        report = await running.tree.end(0)
    assert report == EndReport((running.process.pid,), killed=True)


async def test_cgroups_made_inside_are_ended_and_removed(start: Start, make_tree: MakeTree) -> None:
    if make_tree.home is None:
        pytest.skip("for cgroups")
    inner = f"{make_tree.home.path}/outer/a"
    script = f"mkdir -p {inner}/b; sleep 1000 & echo $! > {inner}/b/cgroup.procs; echo ready; wait"
    running = await start("/bin/sh", "-c", script, make=make_tree, attempt_id="outer")
    assert len(await alive(running)) == 2
    assert await running.tree.end(0) == EndReport(killed=True)
    running.tree.close()
    assert not os.path.exists(f"{make_tree.home.path}/outer")


async def test_leftovers_of_a_dead_daemon(start: Start, make_tree: MakeTree) -> None:
    if make_tree.home is None:
        pytest.skip("for cgroups")
    await start("/bin/sleep", "1000", make=make_tree, attempt_id="left")
    (leftover,) = make_tree.home.leftovers()
    assert leftover.path == f"{make_tree.home.path}/left"
    assert await leftover.end(5) == EndReport()
    leftover.close()
    assert not leftover.exists
    assert await leftover.end(5) == EndReport()
    assert leftover.members() == []


class Steps(trio.abc.Instrument):
    """How often a task of this name goes on."""

    def __init__(self, name: str) -> None:
        self.taken = 0
        self._name = name

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.taken += task.name == self._name


async def test_waiting_does_not_spin(start: Start, make_tree: MakeTree) -> None:
    """Steps are counted, not time: how long the one look takes depends on the whole machine."""
    running = await start("/bin/sleep", "1000", make=make_tree)
    steps = Steps("waiting")
    trio.lowlevel.add_instrument(steps)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(running.tree.wait_empty, name="waiting")
        await trio.sleep(0.5)
        assert 0 < steps.taken < 10
        nursery.cancel_scope.cancel()
    trio.lowlevel.remove_instrument(steps)


def test_limits_are_written_where_there_is_a_controller(tmp_path: Path) -> None:
    expected = {"memory.max": "1073741824", "pids.max": "50", "cpu.max": "50000 100000"}
    for name in expected:
        (tmp_path / name).touch()
    limits = CgroupLimits(memory_max_bytes=2**30, pids_max=50, cpu_max=(50_000, 100_000))
    cgroup.set_limits(str(tmp_path), limits)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == expected


def test_a_limit_without_its_controller_is_refused_and_leaves_nothing(
    make_tree: MakeTree,
) -> None:
    if make_tree.home is None:
        pytest.skip("for cgroups")
    if "pids" in make_tree.home.controllers:
        pytest.skip("the pids controller is delegated here")
    with pytest.raises(LimitUnavailable, match="pids controller"):
        CgroupTree.create(make_tree.home.path, "x", CgroupLimits(pids_max=5))
    assert make_tree.home.leftovers() == []
