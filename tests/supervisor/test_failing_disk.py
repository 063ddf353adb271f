"""A disk that fails in other ways than by being full: the child waits, everything heals."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from s0d.model.errors import Unavailable
from s0d.model.session import Phase
from s0d.supervisor import Session, Supervisor, open_supervisor
from tests.journal.disks import FailDisk
from tests.support.sessions import (
    create,
    healed,
    output_of,
    reach,
    read_events,
    shell,
    spec_of,
    stalled,
    told,
)

# Told to by a file, it writes more than a segment of the smallest journal holds.
SAYS_MUCH = (
    "echo ready; read x <{}; head -c 100000 /dev/zero | tr '\\0' 'x'; echo; echo done; read x"
)
READY = {"type": "output", "output": "ready"}
SMALL = {"max_bytes": 262_144}


async def waiting(supervisor: Supervisor, gate: Path) -> Session:
    """A session that says much once `gate` is written to."""
    os.mkfifo(gate)
    script = SAYS_MUCH.format(gate)
    session = await create(supervisor, shell(script, readiness=READY, event_retention=SMALL))
    await reach(session, Phase.RUNNING)
    return session


async def says_all(session: Session, error: int) -> None:
    """It goes on to its end, and every byte of it is there."""
    await session.input("end", b"\n")
    await reach(session, Phase.EXITED)
    events = await read_events(session)
    assert output_of(events) == b"ready\n" + b"x" * 100_000 + b"\ndone\n"
    (stall,) = (reason for type_, reason in told(events) if type_ == "journal.stalled")
    assert stall is not None
    assert os.strerror(error) in stall


@pytest.mark.parametrize("error", [errno.EDQUOT, errno.EIO, errno.EROFS])
async def test_writes_that_fail(tmp_path: Path, error: int) -> None:
    disk = FailDisk()
    async with open_supervisor(tmp_path / "state", cgroups=False, disk=disk) as supervisor:
        session = await waiting(supervisor, tmp_path / "gate")
        points = [
            disk.fail(operation, error, name=".seg", times=None)
            for operation in ("writev", "open", "fallocate", "ftruncate", "unlink")
        ]
        (tmp_path / "gate").write_text("go\n")
        await stalled(session)
        assert session.phase is Phase.RUNNING
        with pytest.raises(Unavailable):
            await session.input("refused", b"y")
        with pytest.raises(Unavailable):
            await create(supervisor, spec_of("true"))
        for point in points:
            disk.points.remove(point)
        await healed(session)
        await says_all(session, error)


async def test_no_descriptor_for_a_new_segment(tmp_path: Path) -> None:
    disk = FailDisk()
    async with open_supervisor(tmp_path / "state", cgroups=False, disk=disk) as supervisor:
        session = await waiting(supervisor, tmp_path / "gate")
        point = disk.fail("open", errno.EMFILE, name=".seg", times=None)
        (tmp_path / "gate").write_text("go\n")
        await stalled(session)
        disk.points.remove(point)
        await healed(session)
        await says_all(session, errno.EMFILE)


async def test_a_directory_that_vanishes_and_comes_back(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path / "state", cgroups=False) as supervisor:
        session = await waiting(supervisor, tmp_path / "gate")
        directory = Path(session.journal.path)
        away = directory.with_name("away")
        directory.rename(away)
        (tmp_path / "gate").write_text("go\n")
        await stalled(session)
        away.rename(directory)
        await healed(session)
        await says_all(session, errno.ENOENT)
