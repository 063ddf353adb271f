"""The lock on a state directory, and what a killed holder leaves behind."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from s0d.model.errors import StateDirectoryError
from s0d.process.proc import read_stat
from s0d.supervisor import lock
from s0d.supervisor.lock import locked
from tests.support.leftovers import wait_gone

# Holds the lock in `argv[1]`, and a child that never becomes a program; prints its pid.
_HOLDER = """
import os, sys, time, trio
from s0d.process import libc
from s0d.process.gate import Gate
from s0d.process.libc import FileActions
from s0d.supervisor.lock import locked

def work(pid):
    print(pid, flush=True)
    time.sleep(1000)

async def main():
    async with locked(sys.argv[1]):
        gate = Gate()
        actions = FileActions()
        gate.add_to(actions)
        gate.spawn(lambda: libc.posix_spawn(b"/bin/true", [b"true"], [], actions), work)

trio.run(main)
"""


@pytest.fixture
def state(tmp_path: Path) -> str:
    return str(tmp_path / "state")


@contextmanager
def holder(state: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A process that holds the lock, and its child at the gate."""
    with subprocess.Popen([sys.executable, "-c", _HOLDER, state], stdout=subprocess.PIPE) as made:
        assert made.stdout is not None
        child = int(made.stdout.readline())
        try:
            yield made, child
        finally:
            made.kill()
            made.wait()
            if (stat := read_stat(child)) is not None and stat.name.startswith("s0d"):
                os.kill(child, signal.SIGKILL)


async def test_a_living_holder_keeps_the_lock_and_is_named(state: str) -> None:
    with holder(state) as (process, child):
        with pytest.raises(StateDirectoryError, match=f"process {process.pid}$"):
            async with locked(state):
                pass
        assert read_stat(child) is not None, "a living daemon's child is none of our business"


async def test_an_unborn_child_of_a_killed_holder_is_ended(state: str) -> None:
    with holder(state) as (process, child):
        process.kill()
        process.wait()
        assert read_stat(child) is not None, "nobody lets it through the gate any more"
        async with locked(state):
            wait_gone(child)


async def test_an_unborn_child_holds_nothing_of_its_parent(state: str) -> None:
    """Clients of a killed daemon would wait for what a child keeps open."""
    with holder(state) as (process, child):
        assert sorted(os.listdir(f"/proc/{child}/fd")) == ["0", "1", "2", "3", "4"]
        process.kill()
        process.wait()
        async with locked(state):
            pass


async def test_another_child_of_a_killed_holder_is_waited_for(
    state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What else holds a dead holder's lock is not proved to be its child, and is left alone."""
    async with locked(state):
        pass
    dead = write_dead_holder(state)
    with held_by_another_descriptor(state) as descriptor:
        monkeypatch.setattr(lock, "PATIENCE", 0.05)
        with pytest.raises(StateDirectoryError, match=f"process {dead}$"):
            async with locked(state):
                pass
        monkeypatch.setattr(lock, "PATIENCE", 30)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_and_leave, state)
            await trio.testing.wait_all_tasks_blocked()
            fcntl.flock(descriptor, fcntl.LOCK_UN)


def write_dead_holder(state: str) -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    (Path(state) / lock.NAME).write_text(f"{process.pid} 1\n")
    return process.pid


@contextmanager
def held_by_another_descriptor(state: str) -> Iterator[int]:
    with open(Path(state) / lock.NAME) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


async def take_and_leave(state: str) -> None:
    async with locked(state):
        pass
