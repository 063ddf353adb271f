"""A child is held before its first instruction, and let go or killed, never forgotten."""

from __future__ import annotations

import os
import resource
import select
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from s0d.process import libc, proc
from s0d.process.children import ChildRegistry
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.gate import Gate, end_unborn
from s0d.process.libc import FileActions, posix_spawn
from s0d.process.pty import TerminalSize
from s0d.process.request import Identity, ResourceLimits, SpawnRequest
from s0d.process.spawner import Spawner

from .conftest import MakeTree, Run, Start, children, descriptors, python

T = TypeVar("T")


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


# --- other threads that fork -------------------------------------------------------------------


class Forks:
    """Processes that have a copy of every descriptor there was, and call no exec."""

    def __init__(self) -> None:
        self._pids: list[int] = []

    def fork(self) -> None:
        pid = os.fork()
        if pid == 0:
            while True:
                signal.pause()
        self._pids.append(pid)

    def end(self) -> None:
        while self._pids:
            pid = self._pids.pop()
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


@pytest.fixture
def forks() -> Iterator[Forks]:
    forks = Forks()
    yield forks
    forks.end()


def rendezvous(gate: Gate, forks: Forks, moment: str) -> int:
    """Let one child through, with a fork at that moment."""

    def at(now: str) -> None:
        if now == moment:
            forks.fork()

    def spawning() -> int:
        pid = spawn(gate, "/bin/true")
        at("let go")  # the gate is still open for the child
        return pid

    at("before")
    pid = gate.spawn(spawning, lambda _: at("held"))
    at("after")
    assert os.waitpid(pid, 0) == (pid, 0)
    return pid


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("moment", ["before", "held", "let go", "after"])
def test_a_child_is_held_whatever_a_fork_has_copies_of(
    gate: Gate, forks: Forks, tmp_path: Path, moment: str
) -> None:
    for number in range(5):
        rendezvous(gate, forks, moment)
        marker = tmp_path / f"ran-{moment}-{number}"
        seen: list[tuple[str, bool]] = []

        def work(pid: int, marker: Path = marker, seen: list[tuple[str, bool]] = seen) -> None:
            # Were it not held, it would have run by now: this is not waited for.
            _until_blocked_or_gone(pid)
            seen.append((os.readlink(f"/proc/{pid}/exe"), marker.exists()))

        pid = gate.spawn(lambda marker=marker: spawn(gate, "/bin/touch", str(marker)), work)  # type: ignore[misc]
        assert os.waitpid(pid, 0) == (pid, 0)
        assert seen == [(os.readlink("/proc/self/exe"), False)]
        assert marker.exists()


def _until_blocked_or_gone(pid: int) -> None:
    """Until the child waits (in the kernel's `wait_for_partner`), or has left this program."""
    ours = os.readlink("/proc/self/exe")
    with suppress(OSError):
        while os.readlink(f"/proc/{pid}/exe") == ours:
            if (proc.read_stat(pid) or pytest.fail("gone")).state == "S":
                return


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_descriptors_are_not_used_up_by_forks(gate: Gate, forks: Forks) -> None:
    rendezvous(gate, forks, "let go")
    before = descriptors().keys()
    for _ in range(5):
        rendezvous(gate, forks, "let go")
    assert descriptors().keys() == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("copied", [False, True])
def test_a_child_that_is_not_found_does_not_run(
    gate: Gate, forks: Forks, monkeypatch: pytest.MonkeyPatch, copied: bool
) -> None:
    """It is refused by the gate; where a copy keeps that from working it is ended at once."""
    before = children()

    def nowhere(name: str) -> None:
        if copied:
            forks.fork()

    monkeypatch.setattr("s0d.process.gate.find_unborn", nowhere)
    with pytest.raises(SpawnError, match="gone before its program began"):
        gate.spawn(lambda: spawn(gate, "/bin/sleep", "100"), lambda _: None)
    forks.end()
    assert children() == before


def test_a_refused_child_never_runs(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Also where it may not be killed: then the gate alone is in its way."""
    marker = tmp_path / "ran"

    def kill(pid: int, signum: int) -> None:
        raise PermissionError

    def work(pid: int) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(os, "kill", kill)
    with pytest.raises(ZeroDivisionError):
        gate.spawn(lambda: spawn(gate, "/bin/touch", str(marker)), work)
    assert not marker.exists()


def test_a_child_that_another_was_taken_for_is_not_handed_out(
    gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = children()
    with subprocess.Popen(["/bin/sleep", "100"]) as other:
        monkeypatch.setattr("s0d.process.gate.find_unborn", lambda _: other.pid)
        with pytest.raises(SpawnError, match="not held"):
            gate.spawn(lambda: spawn(gate, "/bin/sleep", "100"), lambda _: None)
        assert children() - before == {other.pid}
        other.kill()


def test_a_child_that_does_not_come_to_the_gate_is_not_handed_out(gate: Gate) -> None:
    before = children()

    def astray() -> int:
        return posix_spawn(b"/bin/sleep", [b"sleep", b"100"], [], FileActions())

    with pytest.raises(SpawnError, match="not held"):
        gate.spawn(astray, lambda _: None)
    assert children() == before


def test_a_child_killed_before_the_work_is_an_error(gate: Gate) -> None:
    before = children()

    def work(pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        raise ProcessLookupError

    with pytest.raises(SpawnError, match="gone before its program began"):
        gate.spawn(lambda: spawn(gate, "/bin/true"), work)
    assert children() == before


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_new_fifo_is_made_whatever_the_umask(gate: Gate, forks: Forks) -> None:
    before = os.umask(0o777)
    try:
        for _ in range(3):
            rendezvous(gate, forks, "let go")
    finally:
        os.umask(before)


class ForkStorm:
    """Threads that fork without end: programs by vfork, and copies that live for a moment."""

    def __init__(self) -> None:
        self._over = False
        self._threads = [
            threading.Thread(target=storm) for storm in (self._programs, self._copies) * 2
        ]

    def __enter__(self) -> None:
        for thread in self._threads:
            thread.start()

    def __exit__(self, *_: object) -> None:
        self._over = True
        for thread in self._threads:
            thread.join()

    def _programs(self) -> None:
        while not self._over:
            subprocess.run(["/bin/true"], stderr=subprocess.PIPE, check=True)

    def _copies(self) -> None:
        while not self._over:
            pid = os.fork()
            if pid == 0:
                select.select([], [], [], 0.02)
                os._exit(0)
            os.waitpid(pid, 0)


def cgroup_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cgroup").read_text().strip().rpartition("/")[2]


def limit_of(pid: int) -> tuple[int, int]:
    # Not prlimit(2): for another user's process even root needs a capability.
    lines = Path(f"/proc/{pid}/limits").read_text().splitlines()
    soft, hard = next(line for line in lines if line.startswith("Max open files")).split()[3:5]
    return int(soft), int(hard)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("other_user", [False, True])
@pytest.mark.parametrize("limits", [ResourceLimits(nofile_soft=64), ResourceLimits(nofile=64)])
async def test_limits_hold_while_other_threads_fork(
    spawner: Spawner, limits: ResourceLimits, other_user: bool
) -> None:
    run_as = None
    if other_user:
        if os.geteuid() != 0:
            pytest.skip("only root starts as another user")
        run_as = Identity(65534, 65534, ())
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1] if limits.nofile is None else 64
    asked = SpawnRequest("a", ["/bin/sleep", "9"], {}, "/", limits=limits, run_as=run_as)
    with ForkStorm():
        found = {await _look_at(spawner, asked, limit_of) for _ in range(60)}
    assert found == {(64, hard)}


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@pytest.mark.parametrize("terminal", [None, TerminalSize(24, 80)])
async def test_none_is_outside_of_its_cgroup_while_other_threads_fork(
    spawner: Spawner, make_tree: MakeTree, attempt_id: str, terminal: TerminalSize | None
) -> None:
    tree = make_tree.before(attempt_id)
    if tree is None:
        pytest.skip("for cgroups")
    asked = SpawnRequest("a", ["/bin/sleep", "9"], {}, "/", terminal, cgroup=tree.path)
    with ForkStorm():
        found = {await _look_at(spawner, asked, cgroup_of) for _ in range(60)}
    await tree.wait_empty()
    tree.close()
    assert found == {tree.path.rpartition("/")[2]}


async def _look_at(spawner: Spawner, asked: SpawnRequest, look: Callable[[int], T]) -> T:
    """What `look` sees of a process that has just been started."""
    process = await spawner.spawn(asked)
    try:
        return look(process.pid)
    finally:
        process.signal(signal.SIGKILL)
        await process.wait()
        process.close()


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
