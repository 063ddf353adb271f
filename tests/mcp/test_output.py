"""Pages of output: bounded, in order, nothing missed and nothing twice."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.mcp.fake import FakeDaemon, fails, run


async def pages(daemon: FakeDaemon, **arguments: Any) -> list[str]:
    """All pages from the beginning on."""
    texts, cursor = [], "0"
    while True:
        page = await run(daemon, "session_output", name="shell", after=cursor, **arguments)
        texts.append(page["text"])
        if not page.get("more"):
            return texts
        assert page["cursor"] != cursor
        cursor = page["cursor"]


async def test_the_newest_part_by_default() -> None:
    daemon = FakeDaemon()
    daemon.write(*(b"line %d\r\n" % n for n in range(5000)))
    page = await run(daemon, "session_output", name="shell")
    assert page["text"].endswith("line 4998\nline 4999\n")
    assert page["text"].startswith("line ")
    assert 7000 < len(page["text"]) <= 8000
    assert page["earlier_left_out"] is True
    assert page["cursor"] == str(daemon.latest)
    assert page["status"] == "IDLE"
    assert "more" not in page


async def test_little_output_is_whole() -> None:
    daemon = FakeDaemon()
    daemon.write(b"hello\r\n", gap=2)
    page = await run(daemon, "session_output", name="shell")
    assert page == {"text": "hello\n", "cursor": "6", "status": "IDLE"}
    again = await run(daemon, "session_output", name="shell", after=page["cursor"])
    assert again == {"text": "", "cursor": "6", "status": "IDLE"}
    daemon.write(b"more\r\n")
    assert (await run(daemon, "session_output", name="shell", after=6))["text"] == "more\n"


async def test_nothing_yet() -> None:
    page = await run(FakeDaemon(), "session_output", name="shell")
    assert page == {"text": "", "cursor": "3", "status": "IDLE"}


@pytest.mark.parametrize("seed", range(5))
async def test_pages_from_the_beginning_are_the_whole(seed: int) -> None:
    rng = random.Random(seed)
    daemon = FakeDaemon()
    text = ""
    for _ in range(rng.randrange(1, 60)):
        chunk = "".join(rng.choice("ab \u00e9\u20ac\n") for _ in range(rng.randrange(1, 400)))
        text += chunk
        data = chunk.encode()
        cut = rng.randrange(len(data) + 1)
        for part in filter(None, (data[:cut], data[cut:])):
            daemon.write(part, gap=rng.randrange(3))
    most = rng.randrange(8, 500)
    read = await pages(daemon, max_bytes=most, strip_ansi=False)
    assert "".join(read) == text
    assert max(len(page.encode()) for page in read) <= most


async def test_a_page_may_end_inside_an_event() -> None:
    daemon = FakeDaemon()
    daemon.write(b"x" * 50_000, b"y" * 50_000)
    page = await run(daemon, "session_output", name="shell", after=0, max_bytes=60_000)
    assert (len(page["text"]), page["cursor"], page["more"]) == (60_000, "4+10000", True)
    page = await run(daemon, "session_output", name="shell", after=page["cursor"])
    assert page["text"] == "y" * 8000
    assert "".join(await pages(daemon)) == "x" * 50_000 + "y" * 50_000


async def test_half_a_sequence_waits_for_its_rest() -> None:
    daemon = FakeDaemon()
    daemon.write(b"red: \x1b[3")
    page = await run(daemon, "session_output", name="shell")
    assert page["text"] == "red: "
    daemon.write(b"1mred\x1b[0m \xe2\x82")
    page = await run(daemon, "session_output", name="shell", after=page["cursor"])
    assert page["text"] == "red "
    daemon.write(b"\xac\r\n")
    page = await run(daemon, "session_output", name="shell", after=page["cursor"])
    assert page["text"] == "\u20ac\n"


async def test_of_an_ended_program_everything_is_given() -> None:
    daemon = FakeDaemon(phase="exited", attempt={"exit_code": 143, "signal": "SIGTERM"})
    daemon.write(b"half \xe2\x82")
    page = await run(daemon, "session_output", name="shell")
    assert page == {
        "text": "half \ufffd",
        "cursor": "4",
        "status": "EXITED",
        "exit_code": 143,
        "signal": "SIGTERM",
    }


async def test_one_stream() -> None:
    daemon = FakeDaemon()
    for n in range(30):
        daemon.write(b"out %d\n" % n, stream="stdout")
        daemon.write(b"err %d\n" % n, stream="stderr")
    page = await run(daemon, "session_output", name="shell", stream="stderr")
    assert page["text"] == "".join(f"err {n}\n" for n in range(30))
    assert "".join(await pages(daemon, stream="stdout", max_bytes=20)) == "".join(
        f"out {n}\n" for n in range(30)
    )


async def test_a_stream_in_a_flood_of_another_is_looked_for_within_bounds() -> None:
    daemon = FakeDaemon()
    daemon.write(*[b"x" * 65536] * 600, stream="stdout")
    daemon.write(b"here\n", stream="stderr")
    page = await run(daemon, "session_output", name="shell", after=0, stream="stderr")
    assert (page["text"], page["more"]) == ("", True)
    assert "".join(await pages(daemon, stream="stderr")) == "here\n"


@pytest.mark.parametrize("cursor", ["x", "-1", "1+", "1+2+3", "99999999999999999"])
async def test_what_is_no_cursor(cursor: str) -> None:
    error = await fails(FakeDaemon(), "session_output", name="shell", after=cursor)
    assert error["code"] == "invalid_request"
    assert error["message"].startswith("after: ")


@pytest.mark.parametrize("most", [0, 100_001])
async def test_the_bound_has_bounds(most: int) -> None:
    error = await fails(FakeDaemon(), "session_output", name="shell", max_bytes=most)
    assert error["message"].startswith("max_bytes: ")
