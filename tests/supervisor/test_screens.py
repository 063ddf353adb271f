"""Screens on demand: what they show, when they cost something, and how they are bounded."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.model import event as ev
from s0d.model.errors import LimitExceeded, SessionConflict
from s0d.supervisor import screens as module
from s0d.supervisor.screens import Screens, View
from tests.support.terminals import PIPES, TerminalSession, screen_of, terminal_session

LIMIT = 30.0
LINES = b"".join(b"line %d\r\n" % n for n in range(3000))
MOVING = b"".join(b"\x1b[%d;%dHword %d" % (n % 24 + 1, n % 70 + 1, n) for n in range(20_000))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[TerminalSession]:
    with terminal_session(tmp_path) as made:
        yield made


async def look(screens: Screens, session: Any, scrollback: int = 0) -> View:
    with screens.looking(session) as screen, trio.fail_after(LIMIT):
        return await screen.look(scrollback)


async def test_what_is_shown_is_all_that_was_written_before(session: TerminalSession) -> None:
    screens = Screens()
    assert (await look(screens, session)).snapshot == screen_of().snapshot()
    seq = session.write(b"\x1b[31mhello", b"\r\nworld\x1b]2;title\x07")
    view = await look(screens, session)
    assert view.attempt_id == "att-1"
    assert view.seq == seq
    assert view.snapshot == screen_of(b"\x1b[31mhello\r\nworld\x1b]2;title\x07").snapshot()
    assert not view.snapshot.history_cut


async def test_seq_is_that_of_the_last_event_that_shows(session: TerminalSession) -> None:
    screens = Screens()
    seq = session.write(b"x")
    session.append(ev.SIGNAL_SENT, signal="SIGUSR1")
    assert (await look(screens, session)).seq == seq
    session.write(b"not on the screen", stream="stdout")
    seq = session.resize(30, 90)
    view = await look(screens, session)
    assert (view.seq, view.snapshot.rows, view.snapshot.cols) == (seq, 30, 90)
    assert view.snapshot.lines[0][0].text == "x"


async def test_a_screen_that_was_looked_at_equals_one_that_was_not(
    session: TerminalSession,
) -> None:
    often, once = Screens(), Screens()
    fed = screen_of()
    for rows, cols, data in [(24, 80, LINES), (10, 40, MOVING[:9000]), (30, 100, LINES[:5000])]:
        session.resize(rows, cols)
        fed.resize(rows, cols)
        for start in range(0, len(data), 7000):
            session.write(data[start : start + 7000])
            await look(often, session)
        fed.feed(data)
    expected = fed.snapshot(1000)
    assert (await look(often, session, 1000)).snapshot == expected
    assert (await look(once, session, 1000)).snapshot == expected


async def test_a_repaint_brings_a_fresh_terminal_to_the_same_state(
    session: TerminalSession,
) -> None:
    session.write(b"above\x1b[?1049h\x1b[2;3H\x1b[1mbold\x1b[?2004h\xe6\xbc")
    with Screens().looking(session) as screen:  # type: ignore[arg-type]
        repaint = await screen.repaint(1000)
        view = await screen.look()
    assert repaint.seq == session.journal.latest
    fresh = screen_of(repaint.data, rows=repaint.rows, cols=repaint.cols)
    assert fresh.snapshot() == view.snapshot
    fresh.feed(b"\xa2\x1b[?1049l")
    assert fresh.snapshot().lines[0][0].text == "above"


async def test_a_new_attempt_has_a_new_screen(session: TerminalSession) -> None:
    screens = Screens()
    session.write(b"old")
    await look(screens, session)
    session.begin(2, 5, 20)
    session.write(b"new")
    view = await look(screens, session)
    assert view.attempt_id == "att-2"
    assert view.snapshot == screen_of(b"new", rows=5, cols=20).snapshot()
    assert len(screens) == 1


async def test_nobody_looking_costs_nothing(session: TerminalSession) -> None:
    screens = Screens()
    opened: list[Any] = []
    original = session.journal.cursor

    def cursor(after: int | None = None) -> Any:
        opened.append(after)
        return original(after)

    session.journal.cursor = cursor  # type: ignore[method-assign]
    session.write(LINES)
    assert opened == []
    for _ in range(5):
        await look(screens, session)
    assert opened == [0]
    session.write(b"x")
    await look(screens, session)
    assert len(opened) == 2
    assert session.journal.tail.readers == 0


async def test_a_look_that_is_cancelled_is_finished_by_the_next(session: TerminalSession) -> None:
    screens = Screens()
    session.write(MOVING[: 200 << 10])
    expected = screen_of(MOVING[: 200 << 10]).snapshot()
    for steps in (1, 3, 5, 7):
        with trio.CancelScope() as scope:

            async def cancel(scope: trio.CancelScope = scope, steps: int = steps) -> None:
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
                scope.cancel()

            async with trio.open_nursery() as nursery:
                nursery.start_soon(cancel)
                await look(screens, session)
                nursery.cancel_scope.cancel()
    assert (await look(screens, session)).snapshot == expected


async def test_many_lookers_at_once_see_the_same(session: TerminalSession) -> None:
    screens = Screens()
    session.write(MOVING[: 100 << 10])
    views: list[View] = []

    async def one() -> None:
        views.append(await look(screens, session))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(one)
    assert len(views) == 10
    assert all(view is views[0] for view in views)


@pytest.mark.parametrize("far", [False, True], ids=["drawn", "searched"])
async def test_others_run_while_a_screen_catches_up(session: TerminalSession, far: bool) -> None:
    for _ in range(40 if far else 1):
        for start in range(0, len(MOVING), 60_000):
            session.write(MOVING[start : start + 60_000])
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            await trio.lowlevel.checkpoint()
            turns += 1

    began = time.thread_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(other)
        await look(Screens(), session)
        nursery.cancel_scope.cancel()
    # An echo takes some five of them, and has 10 ms.
    assert turns >= (time.thread_time() - began) / 0.002


# -- history that is too long, or not there --------------------------------------------------


async def test_only_the_end_of_a_long_history_is_read(session: TerminalSession) -> None:
    for _ in range(300):
        session.write(LINES)
    size = sum(segment.end for segment in session.journal.store.segments)
    assert size > 1.5 * module.SPAN
    read: list[int] = []
    original = session.journal.cursor

    def cursor(after: int | None = None) -> Any:
        assert after is not None
        read.append(session.journal.latest - after)
        return original(after)

    session.journal.cursor = cursor  # type: ignore[method-assign]
    session.resize(12, 60)
    view = await look(Screens(), session, 1000)
    searched, events = read
    assert searched == session.journal.latest  # from the beginning on
    assert 0.8 * module.SPAN < events * len(LINES) < 1.3 * module.SPAN
    expected = screen_of(LINES)
    expected.resize(12, 60)
    assert view.snapshot.text() == screen_of(LINES, rows=12, cols=60).snapshot(1000).text()
    assert not view.snapshot.history_cut  # all that can be seen is there


SET = (
    b"\x1b[?1049h\x1b[?1h\x1b=\x1b[?2004h\x1b[?1002h\x1b[?1006h\x1b]2;title\x1b\\"
    b"\x1b[5 q\x1b[?25l\x1b[3;20r\x1b[4h"
)


def set_in(view: View) -> Any:
    shot = view.snapshot
    return shot.modes, shot.title, shot.margins, shot.alternate, shot.cursor.shape


@pytest.mark.parametrize("split", [len(SET), 1, 5])
async def test_what_was_set_long_ago_is_known_at_the_first_look(
    session: TerminalSession, split: int
) -> None:
    session.write(*(SET[at : at + split] for at in range(0, len(SET), split)))
    for _ in range(30):
        session.write(MOVING)
    assert sum(segment.end for segment in session.journal.store.segments) > 2 * module.SPAN
    view = await look(Screens(), session)
    assert view.snapshot.history_cut
    assert set_in(view) == set_in(View("", 0, screen_of(SET).snapshot()))
    assert view.snapshot.lines[2:20] == screen_of(SET, MOVING, MOVING).snapshot().lines[2:20]


async def test_what_was_set_while_nobody_looked_is_known_too(session: TerminalSession) -> None:
    screens = Screens()
    session.write(b"\x1b[?2004h\x1b[?1000h\x1b]2;old\x07before")
    await look(screens, session)
    session.write(b"\x1b[?2004l\x1b]2;new\x07\x1b[2;5r")
    session.resize(20, 70)
    for _ in range(300):
        session.write(LINES)
    view = await look(screens, session)
    assert set_in(view)[1:4] == ("new", (0, 19), False)
    assert not view.snapshot.modes.bracketed_paste
    assert view.snapshot.modes.mouse == "normal"


async def test_what_another_attempt_set_does_not_count(session: TerminalSession) -> None:
    session.write(SET)
    session.begin(2)
    session.write(b"\x1b[?1h")
    session.write(b"\x1b[?2004h", stream="stdout")
    for _ in range(300):
        session.write(LINES)
    view = await look(Screens(), session)
    assert set_in(view) == set_in(View("", 0, screen_of(b"\x1b[?1h").snapshot()))


async def test_how_far_back_is_searched_is_bounded(
    session: TerminalSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.write(b"\x1b[?2004h")
    for _ in range(300):
        session.write(LINES)
    session.write(b"\x1b[?1h")
    for _ in range(300):
        session.write(LINES)
    for name, bound in (("REACH", 10 << 20), ("MAX_EVENTS", 250)):
        with monkeypatch.context() as bounded:
            bounded.setattr(module, name, bound)
            modes = (await look(Screens(), session)).snapshot.modes
        assert (modes.application_cursor, modes.bracketed_paste) == (True, False)
    assert (await look(Screens(), session)).snapshot.modes.bracketed_paste


async def test_a_search_goes_on_where_retention_has_gone_by(tmp_path: Path) -> None:
    with terminal_session(tmp_path, max_bytes=8 << 20) as session:
        for _ in range(180):
            session.write(LINES)
        session.write(b"\x1b[?1h")
        for _ in range(100):
            session.write(LINES)
        original = session.journal.cursor
        opened = 0

        def cursor(after: int | None = None) -> Any:
            nonlocal opened
            opened += 1
            if opened == 1:  # what was to be searched first goes at this moment
                for _ in range(30):
                    session.write(LINES)
            return original(after)

        session.journal.cursor = cursor  # type: ignore[method-assign]
        modes = (await look(Screens(), session)).snapshot.modes
        assert opened >= 3
    assert modes.application_cursor


async def test_a_screen_that_fell_far_behind_starts_anew_and_says_so(
    session: TerminalSession,
) -> None:
    screens = Screens()
    session.write(b"before")
    await look(screens, session)
    for _ in range(300):
        session.write(LINES)
    session.write(b"\x1b[2J\x1b[3J\x1b[Hafter")
    snapshot = (await look(screens, session)).snapshot
    assert snapshot.text().split() == ["after"]
    assert snapshot.history_cut


async def test_retention_that_took_the_beginning_is_said(tmp_path: Path) -> None:
    with terminal_session(tmp_path, max_bytes=256 << 10) as session:
        session.write(b"\x1b[5;5Hfirst")
        for _ in range(10):
            session.write(b"\x1b[2J" * 10_000)
        session.write(b"\x1b[Hlast")
        assert session.journal.earliest > 1
        snapshot = (await look(Screens(), session)).snapshot
    assert snapshot.text().split() == ["last"]
    assert snapshot.history_cut


async def test_nothing_retained_is_an_empty_screen(session: TerminalSession) -> None:
    session.write(b"x")
    session.journal.store.segments[:] = []
    snapshot = (await look(Screens(), session)).snapshot
    assert snapshot.text().split() == []
    assert snapshot.history_cut


# -- which sessions have one, and how many there are ------------------------------------------


async def test_pipes_and_sessions_that_never_ran_have_none(tmp_path: Path) -> None:
    with (
        terminal_session(tmp_path, begun=False) as idle,
        pytest.raises(SessionConflict, match="has not been started"),
    ):
        await look(Screens(), idle)
    (tmp_path / "pipes").mkdir()
    with (
        terminal_session(tmp_path / "pipes", spec=PIPES) as pipes,
        pytest.raises(SessionConflict, match="not a terminal"),
    ):
        await look(Screens(), pipes)


@contextmanager
def several(directory: Path, count: int) -> Iterator[list[TerminalSession]]:
    with ExitStack() as stack:
        sessions = []
        for n in range(count):
            path = directory / str(n)
            path.mkdir()
            sessions.append(stack.enter_context(terminal_session(path)))
            sessions[-1].id = f"ses-{n:012x}"
        yield sessions


async def test_the_screen_looked_at_longest_ago_makes_room(tmp_path: Path) -> None:
    screens = Screens(limit=2)
    with several(tmp_path, 3) as sessions:
        for session in sessions:
            session.write(session.id.encode())
            await look(screens, session)
            assert len(screens) <= 2
        with screens.looking(sessions[1]) as screen:  # type: ignore[arg-type]
            assert screen.seq > 0  # still there
        with screens.looking(sessions[0]) as screen:  # type: ignore[arg-type]
            assert screen.seq == 0  # made again


async def test_too_many_looked_at_at_once_are_refused(tmp_path: Path) -> None:
    screens = Screens(limit=1)
    with several(tmp_path, 2) as (first, second):
        with (
            screens.looking(first),  # type: ignore[arg-type]
            pytest.raises(LimitExceeded, match="try again later"),
        ):
            await look(screens, second)
        await look(screens, second)
        assert len(screens) == 1


async def test_large_screens_count_for_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_CELLS", 5000)
    screens = Screens()
    with several(tmp_path, 3) as sessions:
        for session in sessions:
            await look(screens, session)
    assert len(screens) == 2  # of 24 x 80


async def test_a_screen_is_dropped_when_nobody_has_looked_for_a_while(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    screens = Screens(keep=300)
    with terminal_session(tmp_path) as session:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(screens.run)
            with screens.looking(session):  # type: ignore[arg-type]
                await trio.sleep(1000)
                assert len(screens) == 1
            await trio.sleep(299)
            assert len(screens) == 1
            await trio.sleep(80)
            assert len(screens) == 0
            nursery.cancel_scope.cancel()


async def test_a_deleted_session_leaves_no_screen(session: TerminalSession) -> None:
    screens = Screens()
    await look(screens, session)
    screens.forget(session.id)
    screens.forget(session.id)
    assert len(screens) == 0
