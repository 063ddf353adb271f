"""What the real host promises of a process that is not where it should be."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import trio

from s0d.model.session import Phase
from s0d.process import launch, leader
from s0d.supervisor import open_supervisor
from tests.support.sessions import PATIENCE, create, lives, reach, read_events, shell


async def test_a_leader_outside_of_its_cgroup_does_not_hold_up_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The end is proved by more than an empty cgroup, and an operator is told."""
    monkeypatch.setattr(launch, "_join_cgroup", lambda pid, cgroup: None)
    monkeypatch.setattr(leader, "PATIENCE", 0.1)
    async with open_supervisor(tmp_path / "state") as supervisor:
        if supervisor.ownership.mode != "cgroup":
            pytest.skip("for cgroups")
        session = await create(supervisor, shell("trap '' TERM; sleep 1000 & wait"))
        await reach(session, Phase.RUNNING)
        assert session.record.attempt is not None
        pid = session.record.attempt.pid
        assert pid is not None
        with caplog.at_level(logging.ERROR), trio.fail_after(PATIENCE):
            await session.stop()
            await reach(session, Phase.STOPPED)
        assert not lives(pid)
        (exited,) = [e for e in await read_events(session) if e.type == "attempt.exited"]
        assert exited.fields["signal"] == "SIGKILL"
    (record,) = [record for record in caplog.records if record.name == "s0d.host"]
    assert record.levelname == "ERROR"
    assert str(pid) in record.getMessage()
    assert record.__dict__["session_id"] == session.id
