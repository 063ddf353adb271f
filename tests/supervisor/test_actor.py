"""The actor's policy on Trio's mock clock, with processes that do what the test says."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from s0d.model.errors import SessionConflict, StopIncomplete
from s0d.model.parse import parse_spec
from s0d.model.session import Phase
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.supervisor.session import Session
from tests.support.fakes import FakeHost, FakeLaunch, MemoryJournal, make_session


@pytest.fixture
def host() -> FakeHost:
    return FakeHost()


@asynccontextmanager
async def running(host: FakeHost, **spec: Any) -> AsyncIterator[tuple[Session, MemoryJournal]]:
    session, journal = make_session(host, **spec)
    session.begin()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        yield session, journal
        nursery.cancel_scope.cancel()
    assert all(launch.closed for launch in host.launches)


async def phase(session: Session, wanted: Phase) -> None:
    with trio.fail_after(10_000):
        await session.wait_for(lambda s: s.phase is wanted)


def always(**more: Any) -> dict[str, Any]:
    return {"restart": {"policy": "always", **more}}


def exits(code: int) -> Callable[[FakeLaunch], None]:
    return lambda launch: launch.exit(code)


# -- restart ---------------------------------------------------------------------------------


async def test_restarts_wait_longer_each_time_and_then_it_fails(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.on_launch = exits(1)
    async with running(host, lifecycle=always(max_restarts=4)) as (session, journal):
        await phase(session, Phase.FAILED)
        gaps = [round(b - a, 3) for a, b in zip(host.times, host.times[1:], strict=False)]
        assert gaps == [0.25, 0.5, 1.0, 2.0]
        assert session.record.restart_count == 4
        assert journal.told()[-2:] == [
            ("attempt.exited", "exited"),
            ("session.failed", "restart_limit_exceeded"),
        ]
        backoffs = [reason for type_, reason in journal.told() if type_ == "session.backoff"]
        assert backoffs == ["250ms", "500ms", "1s", "2s"]


async def test_exits_far_apart_never_reach_the_limit(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    lifecycle = always(max_restarts=1, window_seconds=10)
    async with running(host, lifecycle=lifecycle) as (session, _):
        for _ in range(5):
            await trio.sleep(11)
            host.now.exit(0)
            await phase(session, Phase.BACKOFF)
            await phase(session, Phase.RUNNING)
        assert session.record.restart_count == 5


@pytest.mark.parametrize(("code", "restarted"), [(0, False), (1, True)])
async def test_on_failure_restarts_failures_alone(
    host: FakeHost, autojump_clock: MockClock, code: int, restarted: bool
) -> None:
    async with running(host, lifecycle={"restart": {"policy": "on_failure"}}) as (session, _):
        host.now.exit(code)
        await phase(session, Phase.BACKOFF if restarted else Phase.EXITED)


async def test_a_manual_start_out_of_backoff_is_no_restart_and_clears_the_window(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, lifecycle=always(max_restarts=1)) as (session, _):
        host.now.exit(1)
        await phase(session, Phase.BACKOFF)
        before = trio.current_time()
        await session.start()
        assert (session.phase, trio.current_time()) == (Phase.RUNNING, before)
        assert session.record.restart_count == 1
        host.now.exit(1)
        await phase(session, Phase.BACKOFF)
        assert session.record.restart_count == 2


async def test_stop_in_backoff_cancels_the_restart(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, lifecycle=always()) as (session, journal):
        host.now.exit(1)
        await phase(session, Phase.BACKOFF)
        await session.stop()
        assert session.phase is Phase.STOPPED
        await trio.sleep(3600)
        assert len(host.launches) == 1
        assert journal.told()[-1] == ("session.stopped", "desired_state_stopped")


# -- the ends of an attempt ------------------------------------------------------------------


async def test_a_command_that_cannot_start_fails_and_says_why(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.error = SpawnError(SpawnErrorKind.NOT_FOUND, "/nope", 2, "/nope: No such file")
    async with running(host) as (session, journal):
        assert session.phase is Phase.FAILED
        assert journal.told()[-2:] == [
            ("attempt.exited", "start_failed"),
            ("session.failed", "start_failed"),
        ]
        attempt = session.record.attempt
        assert attempt is not None
        assert (attempt.message, attempt.exit_code) == ("/nope: No such file", None)
        host.error = None
        await session.start()
        assert session.phase is Phase.RUNNING


async def test_stop_gives_the_grace_of_the_specification(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 100.0
    async with running(host, lifecycle={"stop_grace_period_seconds": 7}) as (session, journal):
        before = trio.current_time()
        await session.stop()
        assert trio.current_time() - before == pytest.approx(7)
        assert journal.told()[-4:] == [
            ("session.desired_state", "stopped"),
            ("attempt.stopping", "desired_state_stopped"),
            ("attempt.exited", "desired_state_stopped"),
            ("session.stopped", "desired_state_stopped"),
        ]


async def test_two_stops_at_once_are_one(host: FakeHost, autojump_clock: MockClock) -> None:
    host.stubborn = 3.0
    async with running(host) as (session, journal):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.stop)
            nursery.start_soon(session.stop)
        assert [type_ for type_, _ in journal.told()].count("session.stopped") == 1
        assert session.phase is Phase.STOPPED


async def test_start_while_it_stops_gives_a_new_attempt_after_the_old_one(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 3.0
    async with running(host) as (session, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.stop)
            await phase(session, Phase.STOPPING)
            nursery.start_soon(session.start)
        assert session.phase is Phase.RUNNING
        assert [launch.closed for launch in host.launches] == [True, False]


async def test_what_survives_sigkill_is_said_and_blocks_a_new_attempt(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, _):
        host.now.unkillable = True
        with pytest.raises(StopIncomplete, match=str(host.now.pid)):
            await session.stop()
        assert session.phase is Phase.STOPPING
        host.now.exit(137, "SIGKILL")
        await phase(session, Phase.STOPPED)


async def test_replacing_ends_the_old_attempt_first(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        with pytest.raises(SessionConflict, match="replace_current"):
            await session.create_attempt()
        await session.create_attempt(replace_current=True)
        assert [launch.closed for launch in host.launches] == [True, False]
        told = journal.told()
        assert told[-5:] == [
            ("attempt.stopping", "attempt_replaced"),
            ("attempt.exited", "attempt_replaced"),
            ("attempt.starting", "attempt_created"),
            ("attempt.started", ""),
            ("session.ready", ""),
        ]
        assert session.record.restart_count == 0


async def test_a_bug_fails_its_session_and_leaves_no_process(
    host: FakeHost, autojump_clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    async with running(host) as (session, _):
        host.now.outputs["stdout"].write("not bytes")  # type: ignore[arg-type]
        host.now.outputs["stdout"].emit = None
        monkey = session._actor.recorder

        def broken(stream: str, chunks: list[bytes]) -> int:
            raise RuntimeError("a bug")

        monkey.output = broken  # type: ignore[method-assign,assignment]
        await phase(session, Phase.FAILED)
        await session.wait_for(lambda s: host.now.closed)
        assert "a bug" in caplog.text
        await session.start()
        assert session.phase is Phase.RUNNING


# -- update ----------------------------------------------------------------------------------


def changed(session: Session, **fields: Any) -> Any:
    import msgspec

    given = msgspec.to_builtins(session.record.spec)
    return parse_spec(msgspec.json.encode({**given, **fields}))


async def test_a_change_of_what_runs_replaces_the_attempt(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        await session.update(changed(session, env={"A": "1"}))
        assert host.now.plan.env == {"A": "1"}
        assert ("attempt.exited", "spec_replaced") in journal.told()
        assert ("attempt.starting", "spec_updated") in journal.told()
        assert session.record.spec_version == 2


async def test_any_other_change_touches_no_attempt(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        await session.update(changed(session, name="n", event_retention={"max_bytes": 300_000}))
        assert len(host.launches) == 1
        assert journal.limits is not None
        assert journal.limits.max_bytes == 300_000
        host.now.exit(0)
        await phase(session, Phase.EXITED)
        await session.update(changed(session, name="m"))
        assert session.phase is Phase.EXITED
        await session.update(changed(session, command=["y"]))
        assert (session.phase, host.now.plan.argv) == (Phase.RUNNING, ("y",))


async def test_an_update_can_stop_and_start(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host) as (session, journal):
        await session.update(changed(session, lifecycle={"desired_state": "stopped"}))
        assert session.phase is Phase.STOPPED
        await session.update(changed(session, lifecycle={"desired_state": "running"}))
        assert session.phase is Phase.RUNNING
        assert ("attempt.starting", "desired_state_running") in journal.told()


async def test_the_same_specification_changes_nothing(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):
        before = journal.told()
        await session.update(session.record.spec)
        assert (journal.told(), session.record.spec_version) == (before, 1)


# -- readiness -------------------------------------------------------------------------------


async def test_delay_readiness_is_reached_after_the_delay(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, readiness={"type": "delay", "delay_ms": 1500}) as (session, _):
        assert session.phase is Phase.STARTING
        before = trio.current_time()
        await phase(session, Phase.RUNNING)
        assert trio.current_time() - before == pytest.approx(1.5)


async def test_an_exit_before_the_delay_is_never_ready(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, readiness={"type": "delay", "delay_ms": 1500}) as (session, journal):
        host.now.exit(0)
        await phase(session, Phase.EXITED)
        await trio.sleep(10)
        assert ("session.ready", "") not in journal.told()


async def test_output_readiness_is_found_across_chunks_of_one_stream(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, readiness={"type": "output", "output": "READY"}) as (session, _):
        out, err = host.now.outputs["stdout"], host.now.outputs["stderr"]
        out.write(b"REA")
        err.write(b"DY")
        out.write(b"D")
        await trio.sleep(1)
        assert session.phase is Phase.STARTING
        out.write(b"Y!")
        await phase(session, Phase.RUNNING)


async def test_a_readiness_timeout_ends_the_attempt_and_is_a_failure(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    readiness = {"type": "output", "output": "READY", "timeout_ms": 2000}
    async with running(host, readiness=readiness) as (session, journal):
        before = trio.current_time()
        await phase(session, Phase.FAILED)
        assert trio.current_time() - before == pytest.approx(2.0)
        assert journal.told()[-3:] == [
            ("attempt.stopping", "readiness_timeout"),
            ("attempt.exited", "readiness_timeout"),
            ("session.failed", "readiness_timeout"),
        ]


async def test_a_readiness_timeout_is_restarted_by_policy(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    readiness = {"type": "output", "output": "READY", "timeout_ms": 2000}
    lifecycle = {"restart": {"policy": "on_failure"}}
    async with running(host, readiness=readiness, lifecycle=lifecycle) as (session, _):
        await phase(session, Phase.BACKOFF)
        host.on_launch = lambda launch: launch.outputs["stdout"].write(b"READY")
        await phase(session, Phase.RUNNING)


# -- expiry ----------------------------------------------------------------------------------


async def test_idle_time_counts_from_the_last_activity(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, lifecycle={"idle_timeout_seconds": 10}) as (session, journal):
        begin = trio.current_time()
        await trio.sleep(8)
        host.now.outputs["stdout"].write(b"x")
        await trio.sleep(8)
        await session.input("i1", b"x")
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - begin == pytest.approx(26)
        assert journal.told()[-4:] == [
            ("session.expired", "idle_timeout"),
            ("attempt.stopping", "session_expired"),
            ("attempt.exited", "session_expired"),
            ("session.stopped", "session_expired"),
        ]
        await session.start()
        assert session.phase is Phase.RUNNING


async def test_past_its_lifetime_a_session_cannot_be_started(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    lifecycle = always(max_restarts=1000) | {"max_lifetime_seconds": 100}
    async with running(host, lifecycle=lifecycle) as (session, journal):
        begin = trio.current_time()
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - begin == pytest.approx(100, abs=0.2)
        assert ("session.expired", "max_lifetime") in journal.told()
        for command in (session.start, session.create_attempt):
            with pytest.raises(SessionConflict, match="max_lifetime"):
                await command()
        longer = always() | {"max_lifetime_seconds": 500}
        await session.update(changed(session, lifecycle={**longer, "desired_state": "running"}))
        assert session.phase is Phase.RUNNING


async def test_a_lifetime_ends_also_between_attempts(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host, lifecycle={"max_lifetime_seconds": 100}) as (session, journal):
        host.now.exit(0)
        await phase(session, Phase.EXITED)
        await phase(session, Phase.STOPPED)
        assert journal.told()[-2:] == [
            ("session.expired", "max_lifetime"),
            ("session.stopped", "session_expired"),
        ]


# -- recovery --------------------------------------------------------------------------------


@asynccontextmanager
async def recovered(host: FakeHost, session: Session) -> AsyncIterator[None]:
    session.recover()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.run)
        await session.wait_launched()
        yield
        nursery.cancel_scope.cancel()


async def _after_a_kill(host: FakeHost, **spec: Any) -> tuple[Session, MemoryJournal]:
    """A session whose daemon died while it ran: the same record in a new generation."""
    async with running(host, **spec) as (session, journal):
        records = list(journal.records)
        import copy

        record = copy.deepcopy(session.record)
    journal.records = records
    host.generation += 1
    return Session(record, journal, host), journal  # type: ignore[arg-type]


async def test_recovery_restarts_what_ran(host: FakeHost, autojump_clock: MockClock) -> None:
    session, journal = await _after_a_kill(host)
    async with recovered(host, session):
        assert journal.told()[-4:] == [
            ("attempt.exited", "runtime_replaced"),
            ("attempt.starting", "runtime_recovered"),
            ("attempt.started", ""),
            ("session.ready", ""),
        ]
        assert (session.phase, session.record.attempts) == (Phase.RUNNING, 2)
        assert journal.records[-1].generation == 2
        assert session.record.restart_count == 0


async def test_recovery_may_stop_instead(host: FakeHost, autojump_clock: MockClock) -> None:
    session, journal = await _after_a_kill(host, lifecycle={"runtime_recovery": "stop"})
    async with recovered(host, session):
        assert journal.told()[-3:] == [
            ("attempt.exited", "runtime_replaced"),
            ("session.desired_state", "stopped"),
            ("session.stopped", "runtime_recovery_policy"),
        ]
        assert session.phase is Phase.STOPPED
        assert len(host.launches) == 1


async def test_suspending_keeps_what_is_wanted(host: FakeHost, autojump_clock: MockClock) -> None:
    async with running(host) as (session, journal):
        await session.suspend()
        assert session.phase is Phase.SUSPENDED
        assert journal.told()[-1] == ("attempt.exited", "runtime_replaced")
        assert session.record.spec.lifecycle.desired_state == "running"


async def test_a_signal_that_comes_too_late_is_a_conflict(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    async with running(host) as (session, journal):

        def gone(signum: int) -> None:
            raise ProcessLookupError("the process has ended")

        host.now.signal = gone  # type: ignore[method-assign]
        before = journal.told()
        with pytest.raises(SessionConflict, match="ended"):
            await session.signal(15)
        assert journal.told() == before


# -- kill ------------------------------------------------------------------------------------


async def test_a_kill_is_answered_when_its_signal_has_been_sent(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 3.0
    async with running(host, lifecycle=always()) as (session, journal):
        await session.kill(signal.SIGINT, 5.0)
        assert (host.now.first_signal, trio.current_time() - host.times[0]) == (signal.SIGINT, 0)
        assert session.phase is Phase.STOPPING
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - host.times[0] == 3.0
        assert journal.told()[-5:] == [
            ("session.desired_state", "stopped"),
            ("attempt.stopping", "killed"),
            ("signal.sent", "SIGINT"),
            ("attempt.exited", "killed"),
            ("session.stopped", "desired_state_stopped"),
        ]


@pytest.mark.parametrize(("signum", "grace"), [(signal.SIGKILL, 60.0), (signal.SIGTERM, 0.0)])
async def test_a_kill_without_grace_is_answered_when_all_have_ended(
    host: FakeHost, autojump_clock: MockClock, signum: int, grace: float
) -> None:
    host.stubborn = 100.0
    async with running(host) as (session, _):
        await session.kill(signum, grace)
        assert session.phase is Phase.STOPPED
        assert session.record.attempt is not None
        assert session.record.attempt.reason == "killed"


async def test_a_second_kill_may_shorten_the_time_and_never_lengthens_it(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.stubborn = 1000.0
    async with running(host) as (session, _):
        await session.kill(signal.SIGTERM, 60.0)
        await session.kill(signal.SIGINT, 10.0)
        await trio.sleep(5)
        await session.kill(signal.SIGHUP, 60.0)
        assert host.now.first_signal == signal.SIGHUP
        await phase(session, Phase.STOPPED)
        assert trio.current_time() - host.times[0] == 10.0


async def test_a_kill_overrules_a_stop(host: FakeHost, autojump_clock: MockClock) -> None:
    host.stubborn = 1000.0
    async with running(host, lifecycle={"stop_grace_period_seconds": 500}) as (session, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.stop)
            await phase(session, Phase.STOPPING)
            await session.kill(signal.SIGKILL, 5.0)
        assert session.phase is Phase.STOPPED
        assert trio.current_time() - host.times[0] == 0


async def test_a_kill_leaves_what_has_ended_as_it_is(
    host: FakeHost, autojump_clock: MockClock
) -> None:
    host.on_launch = exits(3)
    async with running(host) as (session, journal):
        await phase(session, Phase.EXITED)
        before = journal.told()
        await session.kill(signal.SIGKILL, 0.0)
        assert journal.told() == before


async def test_a_kill_ends_a_backoff(host: FakeHost, autojump_clock: MockClock) -> None:
    host.on_launch = exits(1)
    async with running(host, lifecycle=always()) as (session, _):
        await phase(session, Phase.BACKOFF)
        await session.kill(signal.SIGTERM, 5.0)
        assert session.phase is Phase.STOPPED
        await trio.sleep(100)
        assert len(host.launches) == 1
