"""Orphans are reaped, attempts are not.  In a process of its own: it becomes a subreaper."""

from __future__ import annotations

import os
import subprocess

import pytest

from .conftest import python

PROGRAM = """
import os, sys, time, trio
from s0d.process import libc, proc
from s0d.process.children import ChildRegistry
from s0d.process.reaper import Reaper
from s0d.process.request import Identity, SpawnRequest
from s0d.process.spawner import Spawner

ENV = {"PATH": "/usr/bin:/bin"}
codes = []

def zombies():
    stats = [s for pid in proc.list_pids() if (s := proc.read_stat(pid))]
    return [s.pid for s in stats if s.ppid == os.getpid() and not s.alive]

async def one(spawner, number, identity):
    # Two orphans each: one that ends before the leader, one after it.
    script = f"(sleep 0.01 &) ; (sleep 0.1 &) ; exit {number % 256}"
    request = SpawnRequest("a", ["/bin/sh", "-c", script], ENV, "/", run_as=identity)
    process = await spawner.spawn(request)
    if number % 3 == 0:
        await trio.sleep(0.05)  # a status that nobody fetches for a while
    codes.append(((await process.wait()).exit_code, number % 256))
    if number % 2:
        await trio.sleep(0.05)  # a leader that stays a zombie for a while
    process.close()

async def main(identity):
    registry = ChildRegistry()
    reaper = Reaper(registry)
    async with trio.open_nursery() as reaping:
        await reaping.start(reaper.run)
        assert libc.is_subreaper()
        async with Spawner(registry) as spawner, trio.open_nursery() as nursery:
            for number in range(COUNT):
                nursery.start_soon(one, spawner, number, identity)
        with trio.fail_after(30):
            while reaper.reaped < 2 * COUNT:
                await trio.sleep(0.01)
        reaping.cancel_scope.cancel()
    assert not libc.is_subreaper()
    assert zombies() == [], zombies()
    assert all(found == wanted for found, wanted in codes), codes
    print(len(codes), reaper.reaped, len(registry))

COUNT = int(sys.argv[1])
identity = Identity(65534, 65534) if sys.argv[2] == "other" else None
trio.run(main, identity)
"""


def reap(count: int, user: str) -> str:
    command = python("-W", "error", "-c", PROGRAM, str(count), user)
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_status_kept_every_orphan_reaped() -> None:
    assert reap(60, "own") == "60 120 0\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its identity")
def test_leaders_whose_thread_has_ended_are_not_taken_for_orphans() -> None:
    assert reap(30, "other") == "30 60 0\n"


EMBEDDED = """
import os, subprocess, trio
from s0d.process.request import SpawnRequest
from s0d.process.spawner import Spawner

async def main():
    others = [subprocess.Popen(["/bin/sh", "-c", f"exit {n}"]) for n in range(20)]
    async with Spawner() as spawner:
        for _ in range(20):
            process = await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/"))
            await process.wait()
            process.close()
    assert [other.wait() for other in others] == list(range(20))

trio.run(main)
"""


def test_embedded_no_other_childs_status_is_taken() -> None:
    subprocess.run(python("-W", "error", "-c", EMBEDDED), check=True, timeout=60)
