"""A child is held before its first instruction, and let go or killed, never forgotten."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from s0d.process import libc, proc
from s0d.process.children import ChildRegistry
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.gate import Gate, end_unborn
from s0d.process.libc import FileActions, posix_spawn
from s0d.process.request import ResourceLimits

from .conftest import MakeTree, Run, Start, python


@pytest.fixture
def gate() -> Iterator[Gate]:
    name = Path("/proc/thread-self/comm").read_text().strip()
    gate = Gate()
    yield gate
    gate.close()
    libc.set_thread_name(name)


def spawn(gate: Gate, *argv: str) -> int:
    actions = FileActions()
    gate.add_to(actions)
    return posix_spawn(argv[0].encode(), [a.encode() for a in argv], [], actions)


def test_work_is_done_on_the_child_before_it_execs(gate: Gate) -> None:
    seen = []

    def work(pid: int) -> None:
        stat = proc.read_stat(pid)
        assert stat is not None
        seen.append((pid, stat.ppid, os.readlink(f"/proc/{pid}/exe")))

    pid = gate.spawn(lambda: spawn(gate, "/bin/true"), work)
    assert os.waitpid(pid, 0) == (pid, 0)
    assert seen == [(pid, os.getpid(), os.readlink("/proc/self/exe"))]


def test_a_failed_spawn_releases_the_keeper_and_the_gate_works_on(gate: Gate) -> None:
    worked = []
    for _ in range(20):
        with pytest.raises(FileNotFoundError):
            gate.spawn(lambda: spawn(gate, "/no/such/program"), worked.append)
        # Before it came to the gate at all: no program is even tried.
        with pytest.raises(OSError, match="Operation not permitted"):
            gate.spawn(_refused, worked.append)
        pid = gate.spawn(lambda: spawn(gate, "/bin/true"), worked.append)
        assert os.waitpid(pid, 0) == (pid, 0)
    assert len(worked) == 40


def _refused() -> int:
    raise PermissionError(1, "Operation not permitted")


def test_failed_work_means_that_the_program_never_runs(gate: Gate, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    pids = []

    def work(pid: int) -> None:
        pids.append(pid)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        gate.spawn(lambda: spawn(gate, "/bin/touch", str(marker)), work)
    assert proc.read_stat(pids[0]) is None
    assert not marker.exists()


def test_a_child_killed_at_the_gate_is_a_killed_child(gate: Gate, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    pid = gate.spawn(
        lambda: spawn(gate, "/bin/touch", str(marker)), lambda pid: os.kill(pid, signal.SIGKILL)
    )
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    assert not marker.exists()


def test_other_threads_run_python_while_a_child_is_held(gate: Gate) -> None:
    ran = threading.Event()
    other = threading.Thread(target=ran.set)

    def work(pid: int) -> None:
        other.start()
        assert ran.wait(20)

    pid = gate.spawn(lambda: spawn(gate, "/bin/true"), work)
    os.waitpid(pid, 0)
    other.join()


def test_a_name_is_used_once(gate: Gate) -> None:
    """An earlier child that has given itself the name it saw then is not mistaken."""
    names = []
    for _ in range(3):
        pid = gate.spawn(lambda: spawn(gate, "/bin/true"), lambda _: None)
        names.append(Path("/proc/thread-self/comm").read_text().strip())
        os.waitpid(pid, 0)
    assert len(set(names)) == 3


def test_found_by_a_full_look_where_the_last_pid_is_not_told(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proc, "last_pid", lambda: 0)
    seen: list[int] = []
    pid = gate.spawn(lambda: spawn(gate, "/bin/true"), seen.append)
    os.waitpid(pid, 0)
    assert seen == [pid]


def test_short_of_descriptors_the_child_waits(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    real, failures = proc.last_pid, iter(range(3))

    def scarce() -> int:
        if next(failures, None) is not None:
            raise OSError(24, "Too many open files")
        return real()

    monkeypatch.setattr(proc, "last_pid", scarce)
    seen: list[int] = []
    pid = gate.spawn(lambda: spawn(gate, "/bin/true"), seen.append)
    os.waitpid(pid, 0)
    assert seen == [pid]


KILLED = """
import os, signal
from s0d.process.gate import Gate
from s0d.process.libc import FileActions, posix_spawn
gate, actions = Gate(), FileActions()
gate.add_to(actions)
gate.spawn(lambda: posix_spawn(b"/bin/true", [b"true"], [], actions),
           lambda pid: (os.write(1, b"%d\\n" % pid), os.kill(os.getpid(), signal.SIGKILL)))
"""


def test_what_a_killed_daemon_left_at_its_gate_is_ended() -> None:
    with subprocess.Popen(python("-c", KILLED), stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        pid = int(daemon.stdout.readline())  # the child keeps the pipe open
        daemon.wait(30)
    pidfd = os.pidfd_open(pid)
    try:
        assert end_unborn(daemon.pid) == 1
        assert select.select([pidfd], [], [], 30)[0]
        assert end_unborn(daemon.pid) == 0
    finally:
        os.close(pidfd)


# --- what it is for ---------------------------------------------------------------------------


async def test_limits_are_in_force_and_only_for_the_child(run: Run) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    script = "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Hc"
    result = await run("/bin/sh", "-c", script, limits=ResourceLimits(nofile=77, core=0))
    assert result.stdout.split() == [b"77", b"77", b"0", b"0"]
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


async def test_the_soft_limit_alone(run: Run) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    result = await run(
        "/bin/sh", "-c", "ulimit -Sn; ulimit -Hn", limits=ResourceLimits(nofile_soft=64)
    )
    assert result.stdout.split() == [b"64", str(hard).encode()]


async def test_the_program_sees_no_trace_of_the_gate(run: Run) -> None:
    script = "cat /proc/$$/comm /proc/$$/environ; ls /proc/$$/fd; readlink /proc/$$/fd/0"
    result = await run("/bin/sh", "-c", script, env={}, limits=ResourceLimits(core=0))
    lines = result.stdout.decode().split()
    assert lines[:4] == ["sh", "0", "1", "2"]
    assert lines[4].startswith("pipe:")


async def test_a_limit_that_cannot_be_set_is_named(start: Start) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("/bin/true", limits=ResourceLimits(nofile=2**62))
    assert caught.value.kind is SpawnErrorKind.LIMIT
    assert "nofile" in caught.value.message


async def test_a_cgroup_that_is_not_there_is_named(start: Start, public_dir: Path) -> None:
    marker = public_dir / "ran"
    with pytest.raises(SpawnError) as caught:
        await start("/bin/touch", str(marker), cgroup="/no/such/cgroup")
    assert caught.value.kind is SpawnErrorKind.CGROUP
    assert caught.value.path == "/no/such/cgroup/cgroup.procs"
    assert not marker.exists()


async def test_in_its_cgroup_at_the_first_instruction(run: Run, make_tree: MakeTree) -> None:
    if make_tree.home is None:
        pytest.skip("for cgroups")
    result = await run("/bin/cat", "/proc/self/cgroup", make=make_tree, attempt_id="first")
    expected = f"/{Path(make_tree.home.path).name}/first\n"
    assert expected in result.stdout.decode()


async def test_registry_is_left_empty_by_failures(start: Start, spawner: object) -> None:
    registry: ChildRegistry = spawner.registry  # type: ignore[attr-defined]
    with pytest.raises(SpawnError):
        await start("/bin/true", limits=ResourceLimits(nofile=2**62))
    with pytest.raises(SpawnError):
        await start("/no/such")
    assert len(registry) == 0
