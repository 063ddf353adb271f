"""A machine that sleeps: what counts running time stands still, the rest has gone on."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from s0d.model.sandbox import SandboxConfig
from s0d.model.session import Phase
from s0d.supervisor import open_supervisor, sleep
from s0d.supervisor.sleep import ClockChanges, MachineSleep
from tests.support.fakes import FakeHost, make_session
from tests.support.sessions import PATIENCE, gone, reach, spec_of


class Machine:
    """Sleeps when it is told to; a wake is told like a set clock, which it may also be."""

    def __init__(self) -> None:
        self.asleep = 1234.5
        self.fails: OSError | None = None
        self._send, self._changes = trio.open_memory_channel[None](10)

    def slept(self) -> float:
        return self.asleep

    def sleeps(self, seconds: float) -> None:
        self.asleep += seconds
        self._send.send_nowait(None)

    def __call__(self) -> Machine:
        if self.fails is not None:
            raise self.fails
        return self

    async def wait(self) -> None:
        await self._changes.receive()

    def close(self) -> None:
        pass


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(sleep, "ClockChanges", machine)
    monkeypatch.setattr(sleep, "slept", machine.slept)
    return machine


async def test_each_wake_is_told_once_with_what_was_slept(machine: Machine) -> None:
    told: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MachineSleep().watch, told.append)
        await trio.testing.wait_all_tasks_blocked()
        for seconds in (60.0, 0.0, 0.00002, 7.0):  # in between the wall clock was set
            machine.sleeps(seconds)
            await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert told == [pytest.approx(60, abs=0.01), pytest.approx(7, abs=0.01)]


async def test_where_the_kernel_does_not_tell_it_is_looked_at(
    machine: Machine, autojump_clock: MockClock
) -> None:
    machine.fails = OSError(errno.EINVAL, "no such thing")
    told: list[float] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(MachineSleep().watch, told.append)
        await trio.testing.wait_all_tasks_blocked()
        machine.asleep += 100
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    assert told == [pytest.approx(100)]


async def test_the_kernel_is_asked_for_every_change_of_the_clock() -> None:
    """The clock of the machine cannot be moved here; what the kernel says of the timer can be
    read: of the wall clock (0), by absolute time and cancelled when that is set (1 and 2)."""
    changes = ClockChanges()
    try:
        said = Path(f"/proc/self/fdinfo/{changes.fd}").read_text()
        fields = dict(line.split(": ") for line in said.splitlines() if ": " in line)
        assert (fields["clockid"], int(fields["settime flags"], 8)) == ("0", 3)
        assert fields["it_value"] > "(1000000"
        with pytest.raises(BlockingIOError):
            os.read(changes.fd, 8)
    finally:
        changes.close()


async def test_limits_of_life_go_on_and_running_time_does_not(
    tmp_path: Path, machine: Machine
) -> None:
    lifecycle = {"max_lifetime_seconds": 3600}
    quiet = {"idle_timeout_seconds": 3600}
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await trio.testing.wait_all_tasks_blocked()
        main = supervisor.registry.default
        mortal, _ = await main.create(spec_of("sleep", "1000", lifecycle=lifecycle))
        ended, _ = await main.create(spec_of("true", lifecycle=lifecycle))
        idle, _ = await main.create(spec_of("sleep", "1000", lifecycle=quiet))
        leased = await supervisor.registry.create(config=SandboxConfig(ttl=3600))
        limited = await supervisor.registry.create(config=SandboxConfig(hard_ttl=3600))
        with trio.fail_after(PATIENCE):
            await ended.wait_for(lambda session: session.phase is Phase.EXITED)

        machine.sleeps(3500)
        await trio.testing.wait_all_tasks_blocked()
        assert mortal.phase is Phase.RUNNING
        assert not leased.record.paused

        machine.sleeps(100.5)
        with trio.fail_after(PATIENCE):
            await mortal.wait_for(lambda session: session.phase is Phase.STOPPED)
            await ended.wait_for(lambda session: session.phase is Phase.STOPPED)
        await gone(limited, supervisor.registry.table)
        with trio.fail_after(PATIENCE):
            await leased.runtime.change.wait_for(lambda: leased.record.paused)
        assert idle.phase is Phase.RUNNING


async def test_a_renewed_lease_begins_at_the_renewal(tmp_path: Path, machine: Machine) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await trio.testing.wait_all_tasks_blocked()
        leased = await supervisor.registry.create(config=SandboxConfig(ttl=3600))
        for _ in range(3):
            machine.sleeps(3000)
            await trio.testing.wait_all_tasks_blocked()
            await leased.refresh()
        assert not leased.record.paused


async def test_a_life_that_began_after_the_sleep_is_not_charged_with_it(
    tmp_path: Path, machine: Machine
) -> None:
    """Which may not have been noticed yet."""
    lifecycle = {"max_lifetime_seconds": 3600}
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await trio.testing.wait_all_tasks_blocked()
        leased = await supervisor.registry.create(config=SandboxConfig(ttl=3600))
        machine.asleep += 3000
        await leased.refresh()
        young, _ = await supervisor.registry.default.create(
            spec_of("sleep", "1000", lifecycle=lifecycle)
        )
        limited = await supervisor.registry.create(config=SandboxConfig(hard_ttl=3600))
        machine.sleeps(3000)
        await trio.testing.wait_all_tasks_blocked()
        assert young.phase is Phase.RUNNING
        assert not leased.record.paused
        assert limited.id in supervisor.registry.table
        machine.sleeps(601)
        with trio.fail_after(PATIENCE):
            await young.wait_for(lambda session: session.phase is Phase.STOPPED)
            await leased.runtime.change.wait_for(lambda: leased.record.paused)
        await gone(limited, supervisor.registry.table)


async def test_backoff_waits_as_long_as_the_machine_runs(autojump_clock: MockClock) -> None:
    host = FakeHost()
    host.on_launch = lambda launch: launch.exit(1)
    restart = {"policy": "always", "initial_backoff_ms": 5000, "max_backoff_ms": 5000}
    session, _ = make_session(host, lifecycle={"restart": restart})
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await reach(session, Phase.BACKOFF)
        session.slept(3600)
        await trio.sleep(4.9)
        assert len(host.launches) == 1
        await trio.sleep(0.2)
        assert len(host.launches) == 2
        nursery.cancel_scope.cancel()
