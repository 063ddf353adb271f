"""Pages of events: bounded in count and bytes, complete when walked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.journal import JournalError
from tests.api.fake import FakeSession, FakeSupervisor
from tests.api.harness import AUTH, LIMIT, Served, b64, request, serving


def target(session: FakeSession, query: str = "") -> str:
    return f"/api/v1/sessions/{session.id}/events{query}"


async def sequences(served: Served, session: FakeSession, query: str) -> list[int]:
    data = (await served.ask("GET", target(session, query))).data
    return [event["seq"] for event in data["events"]]


@pytest.fixture
def ten(supervisor: FakeSupervisor) -> FakeSession:
    """Sequence 4 is a `session.ready`, 8 an `attempt.exited`, the rest is output."""
    session = supervisor.default.add()
    kinds = {4: "session.ready", 8: "attempt.exited"}
    for n in range(1, 11):
        session.append(kinds.get(n, "output"), **({} if n in kinds else {"data": b"%d" % n}))
    return session


async def test_page_and_cursor(served: Served, ten: FakeSession) -> None:
    data = (await served.ask("GET", target(ten, "?after=8&limit=1"))).data
    assert data == {
        "events": [
            {
                "seq": 9,
                "session_id": ten.id,
                "runtime_generation": 1,
                "attempt_id": "att-1",
                "type": "output",
                "stream": "stdout",
                "data_base64": b64(b"9"),
                "occurred_at": "2001-09-09T01:46:40.000000Z",
            }
        ],
        "cursor": {"earliest": 1, "latest": 10},
    }


async def test_empty_journal(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    for query in ("", "?after=0", "?tail=5"):
        data = (await served.ask("GET", target(session, query))).data
        assert data == {"events": [], "cursor": {"earliest": 0, "latest": 0}}


PAGES: Any = [
    ("", range(1, 11)),
    ("?after=0", range(1, 11)),
    ("?after=10", []),
    ("?after=3&limit=4", range(4, 8)),
    ("?limit=10000", range(1, 11)),
    ("?limit=", range(1, 11)),
    ("?tail=3", range(8, 11)),
    ("?tail=10", range(1, 11)),
    ("?tail=11", range(1, 11)),
    ("?tail=10000", range(1, 11)),
    ("?tail=5&limit=2", range(9, 11)),
    ("?type=session.ready", [4]),
    ("?type=session.ready,attempt.exited", [4, 8]),
    ("?type=session.ready&type=attempt.exited&limit=1", [4]),
    ("?type=attempt.exited&after=8", []),
    ("?type=unknown", []),
    ("?type=session.ready&tail=1", [4]),
    ("?type=output&tail=4", [6, 7, 9, 10]),
    ("?unknown=1", range(1, 11)),
]


async def test_what_a_page_holds(served: Served, ten: FakeSession) -> None:
    for query, expected in PAGES:
        assert await sequences(served, ten, query) == list(expected)


OUT_OF_BOUNDS: Any = [
    "?limit=0",
    "?limit=10001",
    "?limit=-1",
    "?limit=x",
    "?tail=0",
    "?tail=10001",
    "?tail=1&after=1",
    "?after=11",
    "?after=-1",
    "?after=1e3",
    "?after=+1",
    "?after=0x1",
    "?after=%20",
]


async def test_query_out_of_bounds(served: Served, ten: FakeSession) -> None:
    for query in OUT_OF_BOUNDS:
        answer = await served.ask("GET", target(ten, query))
        assert (answer.status, answer.code) == (400, "invalid_request")
        field = query[1:].partition("=")[0]
        assert answer.json["error"]["message"].startswith(f"{field}: ")


async def test_expired_cursor(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add(max_bytes=1 << 18)
    while session.journal.earliest < 3:
        session.append(data=bytes(16 << 10))
    earliest, latest = session.journal.earliest, session.journal.latest
    answer = await served.ask("GET", target(session, f"?after={earliest - 2}"))
    assert (answer.status, answer.code) == (410, "event_cursor_expired")
    assert answer.json["error"]["details"] == {"earliest": earliest, "latest": latest}
    found = await sequences(served, session, f"?after={earliest - 1}")
    assert found == list(range(earliest, latest + 1))
    assert await sequences(served, session, "") == found
    assert await sequences(served, session, "?tail=10000") == found


async def test_page_ends_at_its_bytes(supervisor: FakeSupervisor, short_dir: Path) -> None:
    session = supervisor.default.add()
    for _ in range(40):
        session.append(data=bytes(6000))  # 8,000 on the wire, and the rest of the event
    async with serving(supervisor, short_dir, max_page=100_000) as served:
        walked: list[int] = []
        while True:
            answer = await served.ask("GET", target(session, f"?after={len(walked)}"))
            assert len(answer.body) < 101_000
            events = [event["seq"] for event in answer.data["events"]]
            assert events or len(walked) == answer.data["cursor"]["latest"]
            if not events:
                break
            walked += events
            assert 10 < len(events) < 13 or walked[-1] == 40
        assert walked == list(range(1, 41))
        newest = await sequences(served, session, "?tail=40")
        assert newest == list(range(41 - len(newest), 41))
        assert 10 < len(newest) < 13


async def test_event_larger_than_a_page_still_comes(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    session = supervisor.default.add()
    for _ in range(2):
        session.append(data=bytes(64 << 10))
    async with serving(supervisor, short_dir, max_page=1000) as served:
        assert await sequences(served, session, "") == [1]
        assert await sequences(served, session, "?after=1") == [2]
        assert await sequences(served, session, "?tail=2") == [2]


async def test_tail_finds_what_is_rare(served: Served, supervisor: FakeSupervisor) -> None:
    session = supervisor.default.add()
    session.append("session.ready")
    session.append("session.stopped")
    for _ in range(3000):
        session.append(data=b"x")
    query = "?type=session.ready,session.stopped&tail="
    assert await sequences(served, session, query + "1") == [2]
    assert await sequences(served, session, query + "2") == [1, 2]
    assert await sequences(served, session, query + "3") == [1, 2]


async def test_reading_pages_is_no_attachment(served: Served, ten: FakeSession) -> None:
    await sequences(served, ten, "")
    assert (await served.ask("GET", f"/api/v1/sessions/{ten.id}")).data["attachments"] == 0
    assert ten.journal.tail.readers == 0


@pytest.fixture
def large(supervisor: FakeSupervisor) -> FakeSession:
    """Twenty events of 64 KiB: a page of several pieces, more than a socket holds."""
    session = supervisor.default.add(max_bytes=2 << 20)
    for n in range(20):
        session.append(data=bytes([n]) * (64 << 10))
    return session


async def test_page_of_several_pieces(served: Served, large: FakeSession) -> None:
    everything = list(range(1, 21))
    assert await sequences(served, large, "") == everything
    assert await sequences(served, large, "?type=output") == everything
    assert await sequences(served, large, "?limit=7") == everything[:7]
    assert await sequences(served, large, "?after=3&limit=8") == everything[3:11]
    answer = await served.ask("GET", target(large))
    written = [b64(bytes([n]) * (64 << 10)) for n in range(20)]
    assert [event["data_base64"] for event in answer.data["events"]] == written
    assert answer.data["cursor"] == {"earliest": 1, "latest": 20}
    assert large.journal.tail.readers == 0


async def test_page_that_retention_overtakes_ends_after_a_whole_event(
    served: Served, large: FakeSession
) -> None:
    wire = await served.connect(window=64 << 10)
    async with wire.stream:
        await wire.send(request("GET", target(large), AUTH))
        assert (await wire.head()).status == 200
        while large.journal.earliest <= 20:
            large.append(data=bytes(64 << 10))
        data = json.loads(await wire.rest())["data"]
    got = [event["seq"] for event in data["events"]]
    assert got == list(range(1, len(got) + 1))
    assert 0 < len(got) < 20
    assert data["cursor"]["earliest"] == large.journal.earliest
    gone = await served.ask("GET", target(large, f"?after={got[-1]}"))
    assert (gone.status, gone.code) == (410, "event_cursor_expired")


async def test_page_whose_reader_leaves_lets_go_of_the_journal(
    served: Served, large: FakeSession
) -> None:
    wire = await served.connect(window=64 << 10)
    async with wire.stream:
        await wire.send(request("GET", target(large), AUTH))
        await wire.head()
        assert large.journal.tail.readers == 1
    with trio.fail_after(LIMIT):
        while large.journal.tail.readers:
            await trio.lowlevel.checkpoint()


@pytest.mark.parametrize("query", ["", "?tail=5"])
async def test_a_session_that_goes_while_it_is_read(
    served: Served, ten: FakeSession, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """Found by the soak: its files were renamed by its deletion; with a disk at fault it is 503."""

    def refuse(*_: Any) -> Any:
        raise JournalError("cannot read: No such file or directory")

    monkeypatch.setattr(ten, "cursor", refuse)
    answer = await served.ask("GET", target(ten, query))
    assert (answer.status, answer.code) == (503, "unavailable")
    ten.removing = True
    answer = await served.ask("GET", target(ten, query))
    assert (answer.status, answer.code) == (404, "session_not_found")
