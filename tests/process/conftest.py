"""Real children, and the certainty that none of them, nor any descriptor, is left."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trio

from s0d.process import detect, proc
from s0d.process.cgroup_tree import CgroupTree
from s0d.process.output import OutputPump
from s0d.process.proc_tree import ProcTree, record_of
from s0d.process.process import Process
from s0d.process.pty import TerminalSize
from s0d.process.request import SpawnRequest
from s0d.process.spawner import Spawner
from s0d.process.status import ExitStatus
from s0d.process.tree import Tree

PATH = "/usr/local/bin:/usr/bin:/bin"
PATIENCE = 30.0  # seconds until a test that waits is taken to wait in vain


def python(*arguments: str) -> list[str]:
    """A command that runs this Python, also as a user who may not reach its executable."""
    if os.access(sys.executable, os.X_OK):
        return [sys.executable, *arguments]
    found = shutil.which(
        "python3.{}".format(*sys.version_info[1:2]), path="/usr/bin:/usr/local/bin"
    )
    assert found is not None, "no Python that this user may run"
    paths = ":".join(path for path in sys.path if path)
    return ["/usr/bin/env", f"PYTHONPATH={paths}", found, *arguments]


def descriptors() -> dict[str, str]:
    """What is open here, by number."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:  # the one that lists them
            continue
    return found


def children() -> set[int]:
    """The pids whose parent is this process, zombies too."""
    stats = [stat for pid in proc.list_pids() if (stat := proc.read_stat(pid))]
    return {stat.pid for stat in stats if stat.ppid == os.getpid()}


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    open_before, children_before = descriptors(), children()
    yield
    assert children() - children_before == set()
    assert descriptors() == open_before


@pytest.fixture
async def spawner() -> AsyncIterator[Spawner]:
    async with Spawner() as spawner:
        yield spawner


@pytest.fixture
def attempt_id() -> str:
    return f"att-{secrets.token_hex(6)}"


@dataclass
class Result:
    """What came of a program that was run to its end."""

    status: ExitStatus
    stdout: bytes
    stderr: bytes


@dataclass
class Running:
    """A process, its tree, and what it wrote so far by stream; a terminal's is `stdout`."""

    process: Process
    tree: Tree
    written: dict[str, bytearray]
    pumps: list[OutputPump]
    changed: trio.Event

    async def output(self, wanted: bytes) -> bytes:
        """Wait until `wanted` was written to standard output."""
        with trio.fail_after(PATIENCE):
            while wanted not in self.written["stdout"]:
                await self.changed.wait()
        return bytes(self.written["stdout"])

    async def ended(self) -> Result:
        """Wait for the exit and for the end of all output."""
        with trio.fail_after(PATIENCE):
            status = await self.process.wait()
            for pump in self.pumps:
                await pump.ended.wait()
        return Result(status, bytes(self.written["stdout"]), bytes(self.written["stderr"]))


Start = Callable[..., Awaitable[Running]]
Run = Callable[..., Awaitable[Result]]


class MakeTree:
    """Makes the tree before the spawn (a cgroup) or after it (a record)."""

    def __init__(self, home: detect.CgroupHome | None) -> None:
        self.home = home

    def before(self, attempt_id: str) -> CgroupTree | None:
        return CgroupTree.create(self.home.path, attempt_id) if self.home else None


@pytest.fixture(params=["proc", "cgroup"])
def make_tree(request: pytest.FixtureRequest) -> Iterator[MakeTree]:
    """Both ways of owning a tree: a test that uses this runs with each."""
    if request.param == "proc":
        yield MakeTree(None)
        return
    found = detect.detect()
    if found.base is None:
        pytest.skip(f"no cgroups here: {found.missing}")
    home = detect.CgroupHome.open(found.base, f"s0d-test-{secrets.token_hex(4)}")
    yield MakeTree(home)
    assert home.leftovers() == []
    home.close()
    assert not Path(home.path).exists()


@pytest.fixture
async def start_in(
    spawner: Spawner, nursery: trio.Nursery
) -> AsyncIterator[Callable[..., Awaitable[Running]]]:
    """Starts programs that are ended, reaped and closed when the test is over."""
    started: list[Running] = []

    async def start(
        *argv: str,
        make: MakeTree | None = None,
        attempt_id: str = "",
        env: dict[str, str] | None = None,
        cwd: str = "/",
        terminal: bool | TerminalSize = False,
        **options: object,
    ) -> Running:
        attempt_id = attempt_id or f"att-{secrets.token_hex(6)}"
        size = TerminalSize(24, 80) if terminal is True else terminal or None
        made = make.before(attempt_id) if make else None
        if made is not None:
            options["cgroup"] = made.path
        full = {"PATH": PATH, "S0D_ATTEMPT_ID": attempt_id} if env is None else env
        asked = SpawnRequest(attempt_id, argv, full, cwd, size, **options)  # type: ignore[arg-type]
        try:
            process = await spawner.spawn(asked)
        except BaseException:
            if made is not None:
                made.close()
            raise
        tree = made or ProcTree(record_of(process, attempt_id))
        running = _running(process, tree)
        started.append(running)
        for pump, stream in zip(running.pumps, running.written, strict=False):
            nursery.start_soon(pump.run, _recorder(running, stream))
        return running

    yield start
    with trio.fail_after(PATIENCE):
        for running in started:
            report = await running.tree.end(0)
            assert report.survivors == ()
            for pump in running.pumps:
                pump.finish()
                await pump.ended.wait()
            await running.process.wait()
            running.process.close()
            running.tree.close()


def _running(process: Process, tree: Tree) -> Running:
    fds = [process.master_fd] if process.terminal else [process.stdout_fd, process.stderr_fd]
    pumps = [OutputPump(fd, terminal=process.terminal) for fd in fds if fd is not None]
    written = {"stdout": bytearray(), "stderr": bytearray()}
    return Running(process, tree, written, pumps, trio.Event())


def _recorder(running: Running, stream: str) -> Callable[[list[bytes]], Awaitable[None]]:
    async def record(chunks: list[bytes]) -> None:
        running.written[stream] += b"".join(chunks)
        changed, running.changed = running.changed, trio.Event()
        changed.set()
        await trio.lowlevel.checkpoint()

    return record


@pytest.fixture
def start(start_in: Start) -> Start:
    return start_in


@pytest.fixture
def run(start_in: Start) -> Run:
    """Runs a program to its end, standard input at its end from the start."""

    async def run(*argv: str, **options: object) -> Result:
        running = await start_in(*argv, **options)
        running.process.close_stdin()
        return await running.ended()

    return run


@pytest.fixture
def public_dir() -> Iterator[Path]:
    """A directory that any user may enter, which pytest's own are not."""
    path = Path(f"/tmp/s0d-test-{secrets.token_hex(6)}")
    path.mkdir()
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)
