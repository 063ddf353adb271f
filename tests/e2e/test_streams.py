"""Floods, readers that stand still, and readers that retention has overtaken."""

from __future__ import annotations

import base64
import hashlib
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pybase64
import pytest
import trio

from tests.support.client import Client, Event, EventStream, WebSocket, parse_page
from tests.support.crashable import Crashable, crashable

MIB: Final = 1 << 20
PATIENCE: Final = 300.0
MEMORY: Final = 150 * 1000 * 1000  # bytes: what the daemon may ever have had resident
ROOMY: Final = {"max_bytes": 1 << 30}
TIGHT: Final = {"max_bytes": 1 << 18}

# Waits for a line, then writes so many MiB, no two alike, and at last their digest to stderr.
_WRITER = """
import hashlib, os, sys
sys.stdin.readline()
block, total = os.urandom(1 << 20), hashlib.blake2b()
for number in range(int(sys.argv[1])):
    data = number.to_bytes(8, "big") + block[8:]
    total.update(data)
    sys.stdout.buffer.write(data)
sys.stdout.flush()
sys.stderr.write(total.hexdigest())
"""


@pytest.fixture
def daemon(short_dir: Path) -> Iterator[Crashable]:
    with crashable(short_dir) as daemon:
        yield daemon


@pytest.fixture
def stall(request: pytest.FixtureRequest) -> float:
    """Seconds for which a reader stands still."""
    return 60.0 if request.config.getoption("--long") else 3.0


async def create_writer(client: Client, mib: int, retention: dict[str, int]) -> str:
    command = [sys.executable, "-c", _WRITER, str(mib)]
    spec = {"command": command, "cwd": "/", "event_retention": retention}
    answer = await client.ask("POST", "", spec)
    assert answer.status == 201, answer
    return str(answer.data["id"])


async def let_write(client: Client, session: str) -> None:
    line = base64.b64encode(b"go\n").decode()
    body = {"input_id": "go", "data_base64": line, "eof": True}
    assert (await client.ask("POST", f"/{session}/inputs", body)).status == 202


class Content:
    """What a reader was given: every number in order, and the digest of all output."""

    def __init__(self, position: int = 0) -> None:
        self.position = position
        self.size = 0
        self.told = b""
        self.over = False
        self._digest = hashlib.blake2b()

    def take(self, events: Sequence[Event | dict[str, Any]]) -> None:
        for event in events:
            assert isinstance(event, Event)
            self._take(event)

    def _take(self, event: Event) -> None:
        assert event.seq == self.position + 1, f"{event.seq} after {self.position}"
        self.position = event.seq
        fields = event.fields
        if fields["type"] == "output":
            data = pybase64.b64decode(fields["data_base64"])
            if fields["stream"] == "stdout":
                self._digest.update(data)
                self.size += len(data)
            else:
                self.told += data
        elif fields["type"] == "attempt.exited":
            self.over = True

    def assert_whole(self, mib: int) -> None:
        assert self.size == mib * MIB
        assert self.told.decode() == self._digest.hexdigest()


@asynccontextmanager
async def stream(
    client: Client, kind: str, session: str, after: int | None = None
) -> AsyncIterator[EventStream | WebSocket]:
    opened = client.events if kind == "sse" else client.websocket
    async with opened(session, after) as source:
        yield source


async def follow(source: EventStream | WebSocket, content: Content) -> None:
    """Read until the attempt has exited, or the server ends the stream."""
    while not content.over and (events := await source.receive()) is not None:
        content.take(events)


async def read(client: Client, kind: str, session: str, content: Content) -> None:
    """Read a stream of its own from the content's position on."""
    async with stream(client, kind, session, content.position) as source:
        await follow(source, content)


async def take_something(source: EventStream | WebSocket, content: Content) -> None:
    while content.position == 0:
        events = await source.receive()
        assert events is not None
        content.take(events)


def peak_memory(daemon: Crashable) -> int:
    status = Path(f"/proc/{daemon.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.parametrize("kind", ["sse", "ws"])
async def test_every_byte_of_a_flood_arrives(daemon: Crashable, kind: str) -> None:
    await daemon.start()
    content = Content()
    with trio.fail_after(PATIENCE):
        session = await create_writer(daemon.client, 256, ROOMY)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, daemon.client, kind, session, content)
            await let_write(daemon.client, session)
    content.assert_whole(256)
    assert peak_memory(daemon) < MEMORY


@pytest.mark.parametrize("kind", ["sse", "ws"])
async def test_a_reader_that_stands_still_loses_nothing_and_holds_nobody_up(
    daemon: Crashable, kind: str, stall: float
) -> None:
    await daemon.start()
    slow, fast = Content(), Content()
    with trio.fail_after(PATIENCE + stall):
        session = await create_writer(daemon.client, 224, ROOMY)
        async with stream(daemon.client, kind, session) as source:
            await take_something(source, slow)
            stood_still_from = trio.current_time()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(read, daemon.client, "sse", session, fast)
                await let_write(daemon.client, session)
            # Nobody was held up: the child wrote everything and another reader has it all.
            fast.assert_whole(224)
            await trio.sleep_until(stood_still_from + stall)
            assert slow.size == 0
            await follow(source, slow)
    slow.assert_whole(224)
    assert peak_memory(daemon) < MEMORY


async def test_ten_readers_at_once(daemon: Crashable) -> None:
    await daemon.start()
    contents = [Content() for _ in range(10)]
    with trio.fail_after(PATIENCE):
        session = await create_writer(daemon.client, 32, ROOMY)
        async with trio.open_nursery() as nursery:
            for number, content in enumerate(contents):
                kind = "sse" if number % 2 else "ws"
                nursery.start_soon(read, daemon.client, kind, session, content)
            await let_write(daemon.client, session)
    for content in contents:
        content.assert_whole(32)
    assert peak_memory(daemon) < MEMORY


# -- overtaken by retention ------------------------------------------------------------------


async def overtake(client: Client, session: str) -> None:
    """Let the session write far more than it retains, to its end."""
    await let_write(client, session)
    async with client.connect() as connection:
        while True:
            answer = await connection.ask("GET", f"/{session}")
            if answer.data["phase"] == "exited":
                return
            await trio.sleep(0.01)


async def assert_expired(client: Client, session: str, after: int) -> int:
    """Every way of reading on from `after` is refused alike; the place to go on from."""
    pages = f"/{session}/events?after={after}"
    answers = [
        await client.ask("GET", pages),
        await client.refused_stream(session, "events/stream", after),
        await client.refused_stream(session, "ws", after),
    ]
    cursor = (await client.ask("GET", f"/{session}")).data["cursor"]
    for answer in answers:
        assert answer.status == 410
        assert answer.error["code"] == "event_cursor_expired"
        assert answer.error["details"] == cursor
    return int(cursor["earliest"])


async def read_rest(client: Client, kind: str, session: str, earliest: int) -> Content:
    """From `earliest - 1`, the cursor that the refusal names, everything is there."""
    content = Content(earliest - 1)
    await read(client, kind, session, content)
    return content


@pytest.mark.parametrize("kind", ["sse", "ws"])
async def test_an_overtaken_stream_says_where_to_go_on(daemon: Crashable, kind: str) -> None:
    await daemon.start()
    client = daemon.client
    content = Content()
    with trio.fail_after(PATIENCE):
        session = await create_writer(client, 24, TIGHT)
        async with stream(client, kind, session) as source:
            await take_something(source, content)
            await overtake(client, session)
            await follow(source, content)  # without a gap: what was on its way, then the end
        assert not content.over
        cursor = (await client.ask("GET", f"/{session}")).data["cursor"]
        assert content.position < cursor["earliest"] - 1
        if isinstance(source, EventStream):
            # The earliest when the stream ended: the session may have gone on after that.
            said = re.fullmatch(rb": event_cursor_expired earliest=(\d+)", source.comments[-1])
            assert said is not None
            assert content.position + 1 < int(said[1]) <= cursor["earliest"]
        else:
            assert source.closed == (1008, "event_cursor_expired")
        earliest = await assert_expired(client, session, content.position)
        assert earliest == cursor["earliest"]
        assert (await read_rest(client, kind, session, earliest)).over


async def test_a_page_without_a_cursor_never_comes_too_late(daemon: Crashable) -> None:
    """It means the earliest event, wherever that is by the time it is read."""
    await daemon.start()
    client = daemon.client
    with trio.fail_after(PATIENCE):
        spec = {"command": ["cat", "/dev/zero"], "cwd": "/", "event_retention": TIGHT}
        session = (await client.ask("POST", "", spec)).data["id"]
        positions = []
        async with client.connect() as connection:
            for _ in range(20):
                answer = await connection.ask("GET", f"/{session}/events?limit=3")
                events = parse_page(answer)
                assert [e.seq for e in events] == list(range(events[0].seq, events[-1].seq + 1))
                positions.append(events[0].seq)
        assert positions == sorted(positions)
        assert positions[-1] > 10, "retention was at work all the time"
        await client.ask("DELETE", f"/{session}")


async def test_an_overtaken_page_says_where_to_go_on(daemon: Crashable) -> None:
    await daemon.start()
    client = daemon.client
    with trio.fail_after(PATIENCE):
        session = await create_writer(client, 24, TIGHT)
        first = await client.page(session, None, 1)
        await overtake(client, session)
        earliest = await assert_expired(client, session, first[-1].seq)
        rest = await client.page(session, earliest - 1)
        assert rest[0].seq == earliest
        assert [event.seq for event in rest] == list(range(earliest, rest[-1].seq + 1))
        assert rest == await client.page(session, None), "absent means from the earliest"
        assert rest[-1].fields["type"] == "attempt.exited"
        latest = rest[-1].seq
        ahead = await client.ask("GET", f"/{session}/events?after={latest + 1}")
        assert (ahead.status, ahead.error["code"]) == (400, "invalid_request")
