"""What an attached client is shown of a block of events, however they fall together."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.api.streams import Streams
from s0d.api.transcript import End, Transcript
from s0d.journal import Block, Entry, Record
from s0d.model.session import Phase
from s0d.supervisor.replay import Replay
from s0d.wire.attach import Reason
from tests.api.fake import LIMIT, SPEC, FakeSession

Event = tuple[str, dict[str, Any]]


class FakeDuplex:
    """Keeps what it is told: bytes for output, dictionaries for frames."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    async def output(self, chunks: Iterable[bytes]) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(b"".join(chunks))

    async def tell(self, message: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(json.loads(message))


@dataclass
class FakeMeter:
    total: int = 0


@pytest.fixture
def session(tmp_path: Path) -> FakeSession:
    session: Any = FakeSession(tmp_path, 1, SPEC, 64 << 20)
    session.meter = FakeMeter()
    return session  # type: ignore[no-any-return]


def out(data: bytes) -> Event:
    return "output", {"stream": "pty", "data": data}


def exited(then: str, **fields: Any) -> Event:
    return "attempt.exited", {"then": then, **fields}


def resized(cols: int) -> Event:
    return "terminal.resized", {"rows": 24, "cols": cols}


def append(session: FakeSession, *events: Event) -> None:
    """All of them as one block."""
    entries = [Entry(10**18, 1, "att-1", type, fields) for type, fields in events]
    session.journal.append(entries)


async def shown(
    session: FakeSession,
    *events: Event,
    boundary: int = 0,
    own: set[int] | None = None,
    skip: int = 0,
) -> tuple[list[Any], End]:
    """What a client is sent of `events`, to the end of the session if no other comes before."""
    duplex: Any = FakeDuplex()
    replay = Replay(0, boundary, 0, skip=skip)
    with session.journal.cursor(0) as cursor, trio.fail_after(LIMIT):
        append(session, *events)
        session.end()
        transcript = Transcript(session, cursor, replay, duplex, Streams(), own or set())  # type: ignore[arg-type]
        end = await transcript.send()
    return duplex.sent, end


async def test_the_exit_comes_after_output_of_the_same_block(session: FakeSession) -> None:
    sent, end = await shown(session, out(b"a"), out(b"b"), exited("end", exit_code=3), out(b"c"))
    assert sent == [{"type": "LIVE", "seq": 0}, b"ab"]
    assert isinstance(end, bytes)
    assert json.loads(end)["exit_code"] == 3


@pytest.mark.parametrize(
    ("then", "reason", "status"),
    [
        ("end", "exited", "EXITED"),
        ("end", "killed", "KILLED"),
        ("fail", "start_failed", "FAILED"),
        ("stop", "desired_state_stopped", "KILLED"),
        ("suspend", "runtime_replaced", "KILLED"),
    ],
)
async def test_an_end_of_the_session_is_told(
    session: FakeSession, then: str, reason: str, status: str
) -> None:
    _, end = await shown(session, exited(then, reason=reason, exit_code=137, signal="SIGKILL"))
    assert isinstance(end, bytes)
    assert json.loads(end) == {
        "type": "EXIT",
        "exit_code": 137,
        "signaled": True,
        "signal": 9,
        "status": status,
    }


@pytest.mark.parametrize("then", ["restart", "replace", "delete"])
async def test_an_end_of_an_attempt_alone_is_not(session: FakeSession, then: str) -> None:
    sent, end = await shown(session, exited(then, exit_code=0), out(b"more"))
    assert sent[-1] == b"more"
    assert end is Reason.DELETED


async def test_live_begins_where_the_replay_ends(session: FakeSession) -> None:
    sent, _ = await shown(session, out(b"a"), exited("restart"), out(b"b"), out(b"c"), boundary=3)
    assert sent == [b"ab", {"type": "LIVE", "seq": 3}, b"c"]


async def test_ends_and_sizes_of_the_past_are_past(session: FakeSession) -> None:
    sent, end = await shown(session, out(b"a"), exited("end"), resized(90), out(b"b"), boundary=3)
    assert sent == [b"a", {"type": "LIVE", "seq": 3}, b"b"]
    assert end is Reason.DELETED


async def test_the_beginning_of_the_first_output_alone_is_skipped(session: FakeSession) -> None:
    sent, _ = await shown(session, resized(90), out(b"abc"), out(b"abc"), boundary=3, skip=2)
    assert sent == [b"cabc", {"type": "LIVE", "seq": 3}]


async def test_sizes_are_told_in_their_place_but_for_the_clients_own(session: FakeSession) -> None:
    sent, _ = await shown(session, out(b"a"), resized(90), out(b"b"), resized(91), own={4})
    told = {"type": "RESIZED", "cols": 90, "rows": 24}
    assert sent == [{"type": "LIVE", "seq": 0}, b"a", told, b"b"]


class DamagedCursor:
    """Reads a block that no journal writes, but a damaged one reads."""

    def __init__(self, *events: Event) -> None:
        records = [Record(n, 1, 1, "att-1", *event) for n, event in enumerate(events, 1)]
        self._blocks: list[Block | None] = [Block(1, records, [1] * len(records)), None]
        self.position = 0

    async def read(self, max_bytes: int) -> Block | None:
        await trio.lowlevel.checkpoint()
        return self._blocks.pop(0)

    async def read_available(self, max_bytes: int) -> None:
        await trio.lowlevel.checkpoint()


async def test_what_damage_took_is_told_and_skipped_numbers_are_not(session: FakeSession) -> None:
    duplex: Any = FakeDuplex()
    cursor: Any = DamagedCursor(
        out(b"a"),
        ("journal.gap", {"first": 2, "last": 2, "reason": "damage"}),
        out(b"b"),
        ("journal.gap", {"first": 4, "last": 4, "reason": "unclean_end"}),
        out(b"c"),
    )
    session.end()
    await Transcript(session, cursor, Replay(0, 0, 0), duplex, Streams(), set()).send()  # type: ignore[arg-type]
    dropped = {"type": "OUTPUT_DROPPED", "dropped_bytes": 0, "seq": 3}
    assert duplex.sent == [{"type": "LIVE", "seq": 0}, b"a", dropped, b"bc"]


async def test_a_session_that_has_ended_ends_when_all_is_read(session: FakeSession) -> None:
    session.record.phase = Phase.STOPPED
    append(session, out(b"a"))
    duplex: Any = FakeDuplex()
    with session.journal.cursor(0) as cursor, trio.fail_after(LIMIT):
        replay = Replay(0, 1, 0)
        transcript = Transcript(session, cursor, replay, duplex, Streams(), set())  # type: ignore[arg-type]
        end = await transcript.send()
    assert duplex.sent == [b"a", {"type": "LIVE", "seq": 1}]
    assert isinstance(end, bytes)
    assert json.loads(end)["status"] == "KILLED"


async def test_a_shutdown_ends_it(session: FakeSession) -> None:
    streams, duplex = Streams(), FakeDuplex()
    with session.journal.cursor(0) as cursor, trio.fail_after(LIMIT):
        transcript = Transcript(session, cursor, Replay(0, 0, 0), duplex, streams, set())  # type: ignore[arg-type]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.testing.wait_all_tasks_blocked)
            streams.stop()
            assert await transcript.send() is Reason.SHUTDOWN
