"""Where replays begin, and how much a slow reader has missed: with real journals and children."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio

from s0d.model.errors import EventCursorExpired, InvalidRequest
from s0d.model.session import Phase
from s0d.supervisor import Session, open_supervisor
from s0d.supervisor.replay import (
    count_missed,
    count_output,
    replay_after,
    replay_history,
    replay_none,
)
from s0d.supervisor.seats import Seats
from tests.support.sessions import create, reach, read_events, shell

TIGHT = {"max_bytes": 1 << 18}


@asynccontextmanager
async def writing(state: Path, script: str, **spec: object) -> AsyncIterator[Session]:
    async with open_supervisor(state, cgroups=False) as supervisor:
        session = await create(supervisor, shell(script, **spec))
        await reach(session, Phase.EXITED)
        yield session


def output(events: list[object]) -> bytes:
    return b"".join(e.fields["data"] for e in events if e.type == "output")  # type: ignore[attr-defined]


async def replayed(session: Session, most: int) -> tuple[bytes, bool]:
    replay = await replay_history(session, most)
    events = await read_events(session, replay.start)
    data = output([e for e in events if e.seq <= replay.boundary])
    assert len(data) - replay.skip == replay.size
    return data[replay.skip :], replay.dropped


async def test_history_of_many_small_events(tmp_path: Path) -> None:
    script = "for i in 1 2 3 4 5 6 7 8 9; do echo $i; sleep 0.01; done"
    async with writing(tmp_path, script) as session:
        whole = b"".join(b"%d\n" % i for i in range(1, 10))
        assert session.meter.total == len(whole)
        for most in range(len(whole) + 3):
            data, dropped = await replayed(session, most)
            assert data == whole[max(0, len(whole) - most) :]
            assert dropped is (most < len(whole))


async def test_history_over_segments_and_what_retention_took(tmp_path: Path) -> None:
    async with writing(tmp_path, "seq 200000", event_retention=TIGHT) as session:
        whole = b"".join(b"%d\n" % i for i in range(1, 200_001))
        kept = output(await read_events(session))
        assert whole.endswith(kept)
        assert 0 < len(kept) < len(whole)
        for most in (0, 1, 10_000, 70_000, len(kept) - 1, len(kept), 1 << 30):
            data, dropped = await replayed(session, most)
            assert data == kept[max(0, len(kept) - most) :]
            assert dropped is True  # if only by retention


async def test_a_session_without_output_has_no_history(tmp_path: Path) -> None:
    async with writing(tmp_path, "true") as session:
        assert await replayed(session, 1 << 20) == (b"", False)
        assert replay_none(session).start == session.journal.latest


async def test_after_is_exact_or_refused(tmp_path: Path) -> None:
    async with writing(tmp_path, "seq 200000", event_retention=TIGHT) as session:
        earliest, latest = session.journal.earliest, session.journal.latest
        for after in (earliest - 1, earliest, latest):
            replay = await replay_after(session, after)
            assert (replay.start, replay.boundary) == (after, latest)
            assert replay.size == len(output(await read_events(session, after)))
        with pytest.raises(EventCursorExpired):
            await replay_after(session, 0)
        with pytest.raises(InvalidRequest):
            await replay_after(session, latest + 1)


async def test_what_was_missed_is_known_to_the_byte(tmp_path: Path) -> None:
    script = "read line; seq 100000; read line; seq 100000"
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        session = await create(supervisor, shell(script, event_retention=TIGHT))
        await reach(session, Phase.RUNNING)
        replay = replay_none(session)
        with session.cursor(replay.start) as cursor:
            await session.input("1", b"\n")
            first = await cursor.read()
            assert first is not None
            sent = len(output(list(first.records)))
            await session.input("2", b"\n")
            await reach(session, Phase.EXITED)
        owed = session.meter.total - replay.metered - sent
        missed, earliest = await count_missed(session, owed)
        kept = len(output(await read_events(session)))
        assert earliest == session.journal.earliest
        assert missed == owed - kept > 0


async def test_what_was_missed_of_a_former_daemons_output(tmp_path: Path) -> None:
    """Nothing was metered then: what is kept of it is counted."""
    script = "seq 100000"
    async with writing(tmp_path, script, event_retention=TIGHT) as session:
        written = len(output(await read_events(session)))
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        [session] = supervisor.default.sessions()
        assert session.meter.total == 0
        whole = await count_output(session, session.journal.earliest - 1, session.journal.latest)
        assert whole == written
        assert await count_missed(session, whole) == (0, session.journal.earliest)
        assert await count_missed(session, whole + 77) == (77, session.journal.earliest)
        # The newer output takes the room of the older.
        before = session.journal.earliest
        await session.start()
        await reach(session, Phase.EXITED)
        assert session.journal.earliest > before
        missed, earliest = await count_missed(session, whole + session.meter.total)
        kept = len(output(await read_events(session)))
        assert earliest == session.journal.earliest
        assert missed == whole + session.meter.total - kept


async def test_a_takeover_frees_all_other_seats() -> None:
    seats = Seats()
    with ExitStack() as stack:
        one, two, elsewhere = (stack.enter_context(seats.seat(id)) for id in ("a", "a", "b"))
        three = stack.enter_context(seats.seat("a", takeover=True))
        four = stack.enter_context(seats.seat("a"))
        lost = [seat.is_set() for seat in (one, two, elsewhere, three, four)]
        assert lost == [True, True, False, False, False]
    await trio.lowlevel.checkpoint()
