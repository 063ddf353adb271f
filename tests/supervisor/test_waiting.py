"""Waiting for sessions with real children: what matches, where, and what ends a wait."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest
import trio

from s0d.model.errors import SessionConflict, SessionNotFound
from s0d.model.session import Phase
from s0d.model.spec import SessionSpec
from s0d.supervisor import Session, Supervisor, open_supervisor
from s0d.supervisor.patterns import Regex, Text
from s0d.supervisor.waiting import (
    FRAME,
    Match,
    is_listening,
    pause,
    wait_any,
    wait_exit,
    wait_output,
    wait_phase,
    wait_port,
    wait_screen,
)
from tests.support.sessions import PATIENCE, create, read_events, shell, spec_of


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with open_supervisor(tmp_path / "state") as opened:
        yield opened


def in_terminal(script: str) -> SessionSpec:
    return shell(script, io={"mode": "pty"})


async def test_output_that_is_there_and_output_that_comes(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("echo one; read x; echo two; exec cat"))
    with trio.fail_after(PATIENCE):
        first = await wait_output(session, Text("one"))
        assert (first.matched, first.text, first.stream) == ("output", "one", "stdout")
        async with trio.open_nursery() as nursery:
            found: list[Match] = []

            async def wait() -> None:
                found.append(await wait_output(session, Regex("^t.o$"), after=first.seq))

            nursery.start_soon(wait)
            await session.input("i", b"go\n")
    assert found[0].text == "two"
    [event] = [e for e in await read_events(session) if e.seq == found[0].seq]
    assert event.fields["data"] == b"two\n"


async def test_output_of_one_stream_and_beyond_a_sequence(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("echo x >&2; echo x; exec cat"))
    with trio.fail_after(PATIENCE):
        out = await wait_output(session, Text("x"), "stdout")
        error = await wait_output(session, Text("x"), "stderr")
        assert (out.stream, error.stream) == ("stdout", "stderr")
        with trio.move_on_after(0.1) as scope:
            await wait_output(session, Text("x"), after=session.journal.latest)
    assert scope.cancelled_caught


async def test_output_of_an_earlier_attempt_does_not_count(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("echo $S0D_ATTEMPT_ID READY; exec cat"))
    with trio.fail_after(PATIENCE):
        first = await wait_output(session, Text("READY"))
        await session.create_attempt(replace_current=True)
        second = await wait_output(session, Text("READY"))
        assert session.record.attempt is not None
        assert second.attempt_id == session.record.attempt.id != first.attempt_id
        again = await wait_output(session, Text("READY"), after=0)
    assert again.seq == first.seq


async def test_an_exit(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("read x; exit 7"))
    found: list[Match] = []
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                found.append(await wait_exit(session))

            nursery.start_soon(wait)
            await session.input("i", b"\n")
        found.append(await wait_exit(session))  # it has ended: at once
    for match in found:
        assert (match.matched, match.exit_code, match.reason) == ("exit", 7, "exited")
        assert match.phase is Phase.EXITED
    [exited] = [e for e in await read_events(session) if e.type == "attempt.exited"]
    assert exited.seq == found[0].seq


async def test_the_exit_of_an_attempt_that_was_replaced_at_once(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("exec cat"))
    assert session.record.attempt is not None
    first = session.record.attempt.id
    found: list[Match] = []
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                found.append(await wait_exit(session))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await session.create_attempt(replace_current=True)
    assert (found[0].attempt_id, found[0].reason) == (first, "attempt_replaced")
    assert found[0].signal == "SIGTERM"


async def test_a_phase(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("exec cat"))
    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.stop)
            match = await wait_phase(session, {Phase.STOPPED, Phase.FAILED})
    assert (match.matched, match.phase) == ("phase", Phase.STOPPED)
    assert match.seq == session.record.seq


async def test_a_screen(supervisor: Supervisor) -> None:
    script = r"printf 'a\033[3;1Hfirst'; read x; printf '\033[2J\033[2;5Hsecond'; exec cat"
    session = await create(supervisor, in_terminal(script))
    screens = supervisor.default.screens
    found: list[Match] = []
    with trio.fail_after(PATIENCE):
        first = await wait_screen(session, screens, Text("first"))
        assert (first.matched, first.text, first.row) == ("screen", "first", 2)
        async with trio.open_nursery() as nursery:

            async def wait() -> None:
                found.append(await wait_screen(session, screens, Regex(r"^ +sec")))

            nursery.start_soon(wait)
            await session.input("i", b"\n")
    assert (found[0].text, found[0].row) == ("    sec", 1)


async def test_a_screen_needs_a_terminal(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    with pytest.raises(SessionConflict):
        await wait_screen(session, supervisor.default.screens, Text("x"))


async def test_a_port(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    with socket.socket() as listener, trio.fail_after(PATIENCE):
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert not is_listening(port)
        async with trio.open_nursery() as nursery:
            found: list[Match] = []

            async def wait() -> None:
                found.append(await wait_port(session, port))

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked(0.01)
            assert found == []
            listener.listen()
    assert (found[0].matched, found[0].port) == ("port", port)


def test_listening_is_read_from_the_kernels_tables(tmp_path: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        assert is_listening(port)
        assert not is_listening(port, [str(tmp_path / "none")])
        with socket.create_connection(("127.0.0.1", port)) as client:
            assert not is_listening(client.getsockname()[1])
    assert not is_listening(port)


async def test_the_first_of_several_wins(supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("echo up; exit 3"))
    with trio.fail_after(PATIENCE):
        match = await wait_any(
            [partial(wait_output, session, Text("never")), partial(wait_exit, session)]
        )
    assert match.exit_code == 3
    assert session.journal.tail.readers == 0


async def test_an_error_of_one_is_raised_as_it_is(supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    screens = supervisor.default.screens
    with pytest.raises(SessionConflict):
        await wait_any(
            [partial(wait_exit, session), partial(wait_screen, session, screens, Text("x"))]
        )


async def test_deleting_ends_every_wait(supervisor: Supervisor) -> None:
    session = await create(supervisor, in_terminal("exec cat"))
    screens = supervisor.default.screens
    ended: list[str] = []

    async def waits(name: str, wait: partial[object]) -> None:
        with pytest.raises(SessionNotFound):
            await wait()
        ended.append(name)

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            for name, wait in _waits(session, supervisor):
                nursery.start_soon(waits, name, wait)
            await trio.testing.wait_all_tasks_blocked(0.05)
            await session.delete()
    assert sorted(ended) == ["output", "phase", "port", "screen"]
    assert len(screens) <= 1
    assert session.journal.tail.readers == 0


def _waits(session: Session, supervisor: Supervisor) -> list[tuple[str, partial[object]]]:
    screens = supervisor.default.screens
    return [
        ("output", partial(wait_output, session, Text("never"))),
        ("phase", partial(wait_phase, session, {Phase.BACKOFF})),
        ("port", partial(wait_port, session, 1)),
        ("screen", partial(wait_screen, session, screens, Text("never"))),
    ]


@pytest.mark.parametrize(
    ("spent", "least", "most"),
    [(0, FRAME, FRAME), (0.01, 0.02, 0.03), (0.2, 0.1, 0.1), (9, 0.5, 0.5)],
)
def test_looks_leave_half_the_time_to_others(spent: float, least: float, most: float) -> None:
    assert least <= pause(spent) <= most
