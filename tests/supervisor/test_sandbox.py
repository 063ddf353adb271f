"""Sessions with real processes, in one supervisor."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from s0d.model.errors import (
    EventCursorExpired,
    InputBufferFull,
    InvalidRequest,
    SessionConflict,
    SessionNotFound,
    Unavailable,
)
from s0d.model.session import Phase
from s0d.supervisor import Supervisor, open_supervisor
from tests.journal.disks import FailDisk
from tests.support.sessions import (
    PATIENCE,
    create,
    follow_until,
    lives,
    output_of,
    reach,
    read_events,
    shell,
    spec_of,
    told,
)


@pytest.fixture(params=["cgroups", "proc"])
async def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with opened(tmp_path, cgroups=request.param == "cgroups") as supervisor:
        yield supervisor


@asynccontextmanager
async def opened(tmp_path: Path, *, cgroups: bool = True) -> AsyncIterator[Supervisor]:
    before = set(os.listdir("/proc/self/fd"))
    async with open_supervisor(tmp_path / "state", cgroups=cgroups) as supervisor:
        yield supervisor
    assert set(os.listdir("/proc/self/fd")) == before


async def test_output_comes_before_the_exit_and_in_order(supervisor: Supervisor) -> None:
    script = "for i in 1 2 3; do echo out$i; echo err$i >&2; done; exit 3"
    session = await create(supervisor, shell(script))
    events = await follow_until(session, "attempt.exited")
    assert output_of(events) == b"out1\nout2\nout3\n"
    assert output_of(events, "stderr") == b"err1\nerr2\nerr3\n"
    assert told(events) == [
        ("session.created", ""),
        ("attempt.starting", "created"),
        ("attempt.started", ""),
        ("session.ready", ""),
        ("attempt.exited", "exited"),
    ]
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    attempt = session.record.attempt
    assert attempt is not None
    assert (session.phase, attempt.exit_code) == (Phase.EXITED, 3)


async def test_input_and_eof_reach_a_pipe(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("cat; echo end; read x; exec sleep 1000"))
    attempt = session.record.attempt
    assert attempt is not None
    first = await session.input("i1", b"hello ", attempt_id=attempt.id)
    assert (first.attempt_id, first.duplicate) == (attempt.id, False)
    again = await session.input("i1", b"hello ")
    assert (again.attempt_id, again.duplicate) == (attempt.id, True)
    with pytest.raises(SessionConflict, match="other content"):
        await session.input("i1", b"other")
    with pytest.raises(SessionConflict, match="another attempt"):
        await session.input("i2", b"x", attempt_id="att-other")
    await session.input("i2", b"world\n", eof=True)
    with pytest.raises(SessionConflict, match="closed"):
        await session.input("i3", b"late")
    with session.attach() as cursor, trio.fail_after(PATIENCE):
        text = b""
        while not text.endswith(b"end\n"):
            block = await cursor.read()
            assert block is not None
            text += output_of(block.records)
    assert text == b"hello world\nend\n"
    await session.stop()
    # A receipt outlives its attempt; a new input does not.
    assert (await session.input("i1", b"hello ")).duplicate
    with pytest.raises(SessionConflict, match="not running"):
        await session.input("i9", b"x")


async def test_bad_input_changes_nothing(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    before = session.journal.latest
    for input_id, data in (("", b"x"), ("i", b"")):
        with pytest.raises(InvalidRequest):
            await session.input(input_id, data)
    assert session.journal.latest == before


async def test_a_full_input_queue_takes_nothing_in_part(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("sleep", "1000"))
    await session.input("big", b"x" * (2 << 20))
    before = session.journal.latest
    with pytest.raises(InputBufferFull):
        await session.input("more", b"y")
    assert session.journal.latest == before
    with trio.fail_after(PATIENCE):
        await session.stop()


async def test_a_terminal_has_its_size_and_is_controlling(supervisor: Supervisor) -> None:
    io = {"mode": "pty", "terminal": {"rows": 33, "cols": 99, "term": "vt220"}}
    script = "stty size; echo $TERM; tty -s && echo tty; ps -o tpgid= -p $$ >/dev/null; read x"
    session = await create(supervisor, shell(script, io=io))
    await session.resize(40, 120)
    await session.input("enter", b"\n")
    await reach(session, Phase.EXITED)
    with pytest.raises(SessionConflict, match="not running"):
        await session.resize(1, 1)
    text = output_of(await read_events(session), "pty")
    assert b"33 99" in text or b"40 120" in text  # the resize may come before stty looks
    assert text.split()[-2:] == [b"vt220", b"tty"]  # the echo of our line may come in between


async def test_a_pipes_session_has_no_size(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    with pytest.raises(SessionConflict, match="pipes"):
        await session.resize(24, 80)


async def test_a_signal_that_ends_the_process_is_an_exit(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("sleep", "1000"))
    await session.signal(signal.SIGUSR1)
    events = await follow_until(session, "attempt.exited")
    attempt = session.record.attempt
    assert attempt is not None
    assert (attempt.exit_code, attempt.signal, attempt.reason) == (138, "SIGUSR1", "signaled")
    assert ("signal.sent", "SIGUSR1") in told(events)
    with pytest.raises(SessionConflict):
        await session.signal(signal.SIGTERM)


async def test_stop_ends_background_children_too(supervisor: Supervisor) -> None:
    script = "setsid sleep 1000 & echo $!; trap '' TERM; sleep 1000 & echo $!; wait"
    lifecycle = {"stop_grace_period_seconds": 1}
    session = await create(supervisor, shell(script, lifecycle=lifecycle))
    with session.attach() as cursor, trio.fail_after(PATIENCE):
        text = b""
        while text.count(b"\n") < 2:
            block = await cursor.read()
            assert block is not None
            text += output_of(block.records)
    await session.stop()
    assert not any(lives(int(pid)) for pid in text.split())
    assert session.phase is Phase.STOPPED


async def test_output_of_a_background_child_is_waited_for_after_the_leader(
    supervisor: Supervisor,
) -> None:
    count = "i=0; while [ $i -lt 10 ]; do echo $i; i=$((i+1)); sleep 0.02; done"
    session = await create(supervisor, shell(f"({count}) & exit 3"))
    await reach(session, Phase.EXITED)
    events = await read_events(session)
    assert output_of(events) == b"".join(b"%d\n" % n for n in range(10))
    assert told(events)[-1] == ("attempt.exited", "exited")


async def test_a_background_child_that_holds_stdout_is_ended_after_the_leader(
    supervisor: Supervisor,
) -> None:
    session = await create(supervisor, shell("sleep 1000 & echo $!; exit 0"))
    events = await follow_until(session, "attempt.exited")
    assert not lives(int(output_of(events)))
    assert session.record.attempt is not None
    assert session.record.attempt.exit_code == 0


async def test_one_key_makes_one_session(supervisor: Supervisor) -> None:
    spec = spec_of("sleep", "1000")
    made: list[str] = []

    async def make() -> None:
        made.append((await create(supervisor, spec, "k")).id)

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(make)
    assert len(set(made)) == 1
    assert len(supervisor.default.sessions()) == 1
    with pytest.raises(SessionConflict, match="Idempotency-Key"):
        await create(supervisor, spec_of("true"), "k")
    session = supervisor.default.session(made[0])
    await session.stop()
    assert (await create(supervisor, spec, "k")).id == session.id, "compared as it was created"
    await session.delete()
    assert (await create(supervisor, spec_of("true"), "k")).id != session.id


async def test_delete_gives_readers_everything_and_leaves_nothing(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    session = await create(supervisor, shell("echo here; sleep 1000"))
    events = []

    async def read(task_status: trio.TaskStatus[None]) -> None:
        with session.attach() as cursor:
            task_status.started()
            while (block := await cursor.read()) is not None:
                events.extend(block.records)

    async with trio.open_nursery() as nursery:
        await nursery.start(read)
        await session.delete()
    assert told(events)[-2:] == [
        ("attempt.stopping", "session_deleted"),
        ("attempt.exited", "session_deleted"),
    ]
    with pytest.raises(SessionNotFound):
        supervisor.default.session(session.id)
    for command in (session.start, session.stop, session.create_attempt):
        with pytest.raises(SessionNotFound):
            await command()
    sandbox = tmp_path / "state" / "sandboxes" / "local"
    assert os.listdir(sandbox / "sessions") == []


async def test_a_delete_goes_on_where_its_caller_leaves(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    may_end = tmp_path / "may_end"
    script = f"trap '' TERM; echo ready; while [ ! -e {may_end} ]; do sleep 0.01; done"
    session = await create(supervisor, shell(script), "k")
    await follow_until(session, "output")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(session.delete)
        await reach(session, Phase.STOPPING)
        nursery.cancel_scope.cancel()
    assert supervisor.default.sessions() == [session], "the caller left before the end"
    may_end.touch()
    with trio.fail_after(PATIENCE):
        while supervisor.default.sessions():  # noqa: ASYNC110, nothing tells of it from outside
            await trio.sleep(0.01)
    await session.delete()  # waits for the one that is under way
    assert (await create(supervisor, spec_of("true"), "k")).id != session.id, "the key is free"


async def test_two_deletes_at_once_are_one(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("sleep", "1000"))
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(session.delete)
    assert supervisor.default.sessions() == []


async def test_a_slow_reader_holds_nobody_up_and_misses_nothing(supervisor: Supervisor) -> None:
    total = 8 << 20
    session = await create(supervisor, shell(f"head -c {total} /dev/zero"))
    with session.attach() as cursor:
        await reach(session, Phase.EXITED)  # while the reader has not read a byte
        count = 0
        while (block := await cursor.read_available()) is not None:
            count += len(output_of(block.records))
    assert count == total


async def test_a_reader_behind_retention_is_told_where_to_go_on(supervisor: Supervisor) -> None:
    retention = {"max_bytes": 262_144}
    session = await create(
        supervisor, shell("head -c 4000000 /dev/zero", event_retention=retention)
    )
    await reach(session, Phase.EXITED)
    with pytest.raises(EventCursorExpired) as caught:
        session.cursor(0)
    events = await read_events(session, caught.value.earliest - 1)
    assert events[-1].type == "attempt.exited"
    with pytest.raises(InvalidRequest, match="beyond the latest"):
        session.cursor(session.journal.latest + 1)


async def test_cancelling_the_supervisor_ends_every_process(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened(tmp_path) as supervisor:
            session = await create(supervisor, spec_of("sleep", "1000"))
            attempt = session.record.attempt
            assert attempt is not None
            pid = attempt.pid
            assert pid is not None
            assert lives(pid)
            scope.cancel()
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert not lives(pid)
    assert session.phase is Phase.SUSPENDED


async def test_an_error_in_the_block_comes_out_as_itself(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="mine"):
        async with opened(tmp_path):
            raise KeyError("mine")


@pytest.mark.parametrize(
    ("command", "cwd", "at_fault"),
    [
        (["/no/such/program"], "/", "/no/such/program"),
        (["no-such-program"], "/", "no-such-program"),
        (["/etc"], "/", "/etc"),
        (["/etc/passwd"], "/", "/etc/passwd"),
        (["true"], "/no/such/dir", "/no/such/dir"),
        (["true"], "/etc/passwd", "/etc/passwd"),
    ],
)
async def test_what_cannot_start_names_the_path_at_fault(
    supervisor: Supervisor, command: list[str], cwd: str, at_fault: str
) -> None:
    session = await create(supervisor, spec_of(*command, cwd=cwd))
    attempt = session.record.attempt
    assert attempt is not None
    assert (session.phase, attempt.reason) == (Phase.FAILED, "start_failed")
    assert attempt.message is not None
    assert at_fault in attempt.message


async def test_the_environment_is_exactly_what_was_asked_for(tmp_path: Path) -> None:
    async with open_supervisor(
        tmp_path / "state",
        environment={"PATH": os.environ["PATH"], "A": "base", "B": "base", "C": "base"},
        env_vars={"B": "sandbox", "C": "sandbox"},
        root=str(tmp_path),
    ) as supervisor:
        session = await create(supervisor, spec_of("env", env={"C": "session", "D.x": "odd"}))
        events = await follow_until(session, "attempt.exited")
    assert session.record.attempt is not None
    assert dict(line.split("=", 1) for line in output_of(events).decode().splitlines()) == {
        "PATH": os.environ["PATH"],
        "A": "base",
        "B": "sandbox",
        "C": "session",
        "D.x": "odd",
        "S0D_SESSION_ID": session.id,
        "S0D_ATTEMPT_ID": session.record.attempt.id,
        "S0D_SANDBOX_ID": "local",
    }


async def test_limits_reach_the_process_or_are_refused(supervisor: Supervisor) -> None:
    limits = {"nofile": 77, "core": 0}
    session = await create(supervisor, shell("ulimit -n; ulimit -c", limits=limits))
    assert output_of(await follow_until(session, "attempt.exited")) == b"77\n0\n"


async def test_limits_that_cannot_be_enforced_are_refused_by_name(tmp_path: Path) -> None:
    async with opened(tmp_path, cgroups=False) as supervisor:
        with pytest.raises(InvalidRequest, match=r"^limits.pids_max: .*s0d doctor"):
            await create(supervisor, spec_of("true", limits={"pids_max": 5}))
        assert supervisor.default.sessions() == []


async def test_the_stop_signal_is_that_of_the_specification(supervisor: Supervisor) -> None:
    script = "trap 'echo int; exit 0' INT; trap '' TERM; echo ready; while :; do sleep 0.05; done"
    session = await create(
        supervisor,
        shell(script, stop_signal="INT", readiness={"type": "output", "output": "ready"}),
    )
    await reach(session, Phase.RUNNING)
    await session.stop()
    attempt = session.record.attempt
    assert attempt is not None
    assert attempt.exit_code == 0
    assert output_of(await read_events(session)) == b"ready\nint\n"


async def test_usage_is_told_while_it_runs_and_at_its_end(supervisor: Supervisor) -> None:
    burn = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; echo done; read x"
    session = await create(supervisor, shell(burn, readiness={"type": "output", "output": "done"}))
    await reach(session, Phase.RUNNING)
    usage = await session.usage()
    assert usage is not None
    assert usage.processes == 1
    assert usage.resident_bytes > 100_000
    assert usage.cpu_seconds > 0
    await session.stop()
    exited = (await read_events(session))[-2]
    assert exited.fields["cpu_seconds"] >= round(usage.cpu_seconds, 3)
    assert await session.usage() is None


async def test_a_session_that_cannot_be_moved_away_stays_and_can_be_deleted_later(
    tmp_path: Path,
) -> None:
    disk = FailDisk()
    async with open_supervisor(tmp_path / "state", cgroups=False, disk=disk) as supervisor:
        session, _ = await supervisor.default.create(spec_of("true"))
        await session.wait_for(lambda s: s.phase is Phase.EXITED)
        disk.fail("rename", errno.EIO, name=session.id)
        with pytest.raises(Unavailable, match="cannot be removed"):
            await session.delete()
        assert supervisor.default.sessions() == [session]
        await session.delete()
        assert supervisor.default.sessions() == []


# -- frozen ------------------------------------------------------------------------------------

TIMERS = """
import select, signal, sys, threading, time

def timed(name, wait):
    began = time.monotonic()
    wait()
    said.append(f"{name} {time.monotonic() - began}\\n")

said = []
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
poll, epoll, never = select.poll(), select.epoll(), threading.Event()
waits = {
    "sleep": lambda: time.sleep(SECONDS),
    "event": lambda: never.wait(SECONDS),
    "poll": lambda: poll.poll(SECONDS * 1000),
    "epoll": lambda: epoll.poll(SECONDS),
    "select": lambda: select.select([], [], [], SECONDS),
}
threads = [threading.Thread(target=timed, args=each) for each in waits.items()]
for thread in threads:
    thread.start()
def alarm():
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    print("armed", flush=True)
    signal.sigwait({signal.SIGALRM})

timed("alarm", alarm)
for thread in threads:
    thread.join()
sys.stdout.write("".join(said))
"""


@pytest.mark.parametrize(("frozen", "late"), [(0.2, False), (2.2, True)])
async def test_a_timer_in_a_frozen_child_fires_late_and_never_early(
    supervisor: Supervisor, frozen: float, *, late: bool
) -> None:
    """Its clock is the machine's, which goes on: what comes due meanwhile comes at the thaw."""
    script = f"SECONDS = 2.0\n{TIMERS}"
    session = await create(supervisor, spec_of(sys.executable, "-c", script))
    with session.attach() as cursor, trio.fail_after(PATIENCE):
        text = b""
        while b"armed" not in text:
            block = await cursor.read()
            assert block is not None
            text += output_of(block.records)
    await supervisor.default.pause(memory=True)
    await trio.sleep(frozen)  # nothing else shows that something does not come
    assert session.phase is Phase.PAUSED
    assert text == b"armed\n"
    await supervisor.default.resume()
    await reach(session, Phase.EXITED)
    events = await read_events(session)
    fired = [line.split() for line in output_of(events).decode().splitlines()[1:]]
    assert {name for name, _ in fired} == {"sleep", "event", "poll", "epoll", "select", "alarm"}
    for name, elapsed in fired:
        assert float(elapsed) >= (frozen if late else 2.0) - 0.01, name
    told_at = {event.type: event.seq for event in events}
    if late:
        assert told_at["output"] > told_at["session.resumed"]
