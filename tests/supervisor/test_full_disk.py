"""A disk of 1 MiB that is full: the child waits, stop and delete answer, everything heals."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from s0d.model.errors import Unavailable
from s0d.model.session import Phase
from s0d.supervisor import open_supervisor
from tests.support.sessions import (
    PATIENCE,
    create,
    healed,
    lives,
    output_of,
    reach,
    read_events,
    shell,
    spec_of,
    stalled,
    told,
)

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="mounting a file system needs root")

# Told to by its input, it writes more than the room that a journal keeps for control events.
SAYS_MUCH = "echo ready; read x; head -c 200000 /dev/zero | tr '\\0' 'x'; echo; echo done; read x"
READY = {"type": "output", "output": "ready"}


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """An empty file system of 1 MiB."""
    where = tmp_path / "disk"
    where.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m,mode=0700", "tmpfs", str(where)]
    if subprocess.run(mount, capture_output=True).returncode != 0:
        pytest.skip("a tmpfs cannot be mounted here")
    yield where
    subprocess.run(["umount", str(where)], check=True)


def fill(disk: Path) -> Path:
    """Use up every block that is left."""
    filler = disk / f"filler-{len(os.listdir(disk))}"
    descriptor = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        while os.write(descriptor, b"x" * 4096):
            pass
    except OSError:
        pass  # that is what full means
    finally:
        os.close(descriptor)
    return filler


async def test_the_child_waits_and_nothing_is_lost(small_disk: Path) -> None:
    async with open_supervisor(small_disk / "state") as supervisor:
        session = await create(supervisor, shell(SAYS_MUCH, readiness=READY))
        await reach(session, Phase.RUNNING)
        filler = fill(small_disk)
        await session.input("go", b"\n")
        await stalled(session)
        assert session.phase is Phase.RUNNING
        more = fill(small_disk)  # what the journal gave back when it gave up
        with pytest.raises(Unavailable, match="cannot be stored"):
            await create(supervisor, spec_of("true"))
        assert [s.id for s in supervisor.default.sessions()] == [session.id]
        filler.unlink()
        more.unlink()
        await healed(session)
        await session.input("end", b"\n")
        await reach(session, Phase.EXITED)
        events = await read_events(session)
        assert output_of(events) == b"ready\n" + b"x" * 200000 + b"\ndone\n"
        stalls = [reason for type_, reason in told(events) if type_ == "journal.stalled"]
        assert stalls
        assert "No space left" in stalls[0]


async def test_stop_and_delete_answer_on_a_full_disk(small_disk: Path) -> None:
    async with open_supervisor(small_disk / "state") as supervisor:
        stops = await create(supervisor, shell(SAYS_MUCH, readiness=READY))
        goes = await create(supervisor, shell(SAYS_MUCH, readiness=READY))
        for session in (stops, goes):
            await reach(session, Phase.RUNNING)
        pids = [s.record.attempt.pid for s in (stops, goes) if s.record.attempt]
        filler = fill(small_disk)
        for session in (stops, goes):
            await session.input("go", b"\n")
        for session in (stops, goes):
            await stalled(session)
        with trio.fail_after(PATIENCE):
            await stops.stop()
            await goes.delete()
        assert not any(lives(pid) for pid in pids if pid)
        assert [s.id for s in supervisor.default.sessions()] == [stops.id]
        filler.unlink()
        await reach(stops, Phase.STOPPED)
        events = await read_events(stops)
        assert events[-1].type in ("session.stopped", "journal.stalled")
        exited = [e.seq for e in events if e.type == "attempt.exited"]
        assert exited[0] > max(e.seq for e in events if e.type == "output")


async def test_it_starts_on_a_full_disk(small_disk: Path) -> None:
    state = small_disk / "state"
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, spec_of("sleep", "1000"))
        await reach(session, Phase.RUNNING)
    for generation in (2, 3, 4):
        fill(small_disk)
        async with open_supervisor(state) as supervisor:
            assert supervisor.default.generation == generation
            await reach(supervisor.default.session(session.id), Phase.RUNNING)
