"""A leader does not outlive its tree, also one that should have been in it and is not."""

from __future__ import annotations

import signal

import pytest
import trio

from s0d.process import leader, proc
from s0d.process.leader import end_stray

from .conftest import Start


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leader, "PATIENCE", 0.1)


async def test_one_that_has_ended_is_left_alone(start: Start) -> None:
    running = await start("/bin/true")
    await running.process.wait()
    assert await end_stray(running.process, "any") is None


async def test_one_that_is_about_to_end_is_waited_for(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leader, "PATIENCE", 30.0)
    running = await start("/bin/sleep", "100")
    running.process.signal(signal.SIGTERM)
    assert await end_stray(running.process, "any") is None
    assert (await running.process.wait()).signal == "SIGTERM"


async def test_one_that_lives_is_ended_with_its_own(start: Start, attempt_id: str) -> None:
    script = "trap '' TERM; sleep 100 & setsid sleep 100 & echo $!; wait"
    running = await start("/bin/sh", "-c", script, attempt_id=attempt_id)
    kin = int(await running.output(b"\n"))
    report = await end_stray(running.process, attempt_id)
    assert report is not None
    assert (report.survivors, report.killed, report.processes) == ((), True, 3)
    assert (await running.process.wait()).signal == "SIGKILL"
    stat = proc.read_stat(kin)
    assert stat is None or not stat.alive


async def test_no_other_is_touched(start: Start, attempt_id: str) -> None:
    stranger = await start("/bin/sleep", "100")
    running = await start("/bin/sleep", "100", attempt_id=attempt_id)
    await end_stray(running.process, attempt_id)
    await trio.testing.wait_all_tasks_blocked()
    assert stranger.process.status is None
