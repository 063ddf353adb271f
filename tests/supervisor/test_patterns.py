"""Texts and expressions across the borders of pieces; expressions that would never end."""

from __future__ import annotations

import threading

import pytest
import trio

from s0d.model.errors import InvalidRequest
from s0d.supervisor.patterns import MAX_PATTERN, Hit, Pattern, Regex, Search, Text
from tests.support.sessions import PATIENCE


async def search(pattern: Pattern, *pieces: bytes) -> tuple[int, Hit] | None:
    """Which piece the match ended in, and the match."""
    looking = Search(pattern)
    for number, piece in enumerate(pieces):
        if (hit := await looking.feed(piece)) is not None:
            return number, hit
    return None


@pytest.mark.parametrize("pattern", [Text("READY"), Regex("REA.Y")], ids=["text", "regex"])
async def test_a_match_is_found_at_every_split(pattern: Pattern) -> None:
    data = b"x\r\nREADY\r\n"
    for split in range(len(data) + 1):
        found = await search(pattern, data[:split], data[split:])
        assert found is not None
        number, hit = found
        assert hit.matched == b"READY"
        assert number == (0 if split >= 8 else 1)
        assert hit.end == (8 if number == 0 else 8 - split)


async def test_byte_by_byte_and_far_apart() -> None:
    data = b"." * 70_000 + b"READY"
    found = await search(Text("READY"), *(bytes([b]) for b in b"READY"))
    assert found is not None
    assert found[0] == 4
    found = await search(Text("READY"), data)
    assert found is not None
    assert (found[0], found[1].end) == (0, len(data))
    assert await search(Text("READY"), b"READ", b"", b"READ", b"Z") is None


async def test_lines_have_beginnings_and_ends() -> None:
    found = await search(Regex(r"^port (\d+)$"), b"a port 1\n", b"po", b"rt 80\nx")
    assert found is not None
    assert (found[0], found[1].matched) == (2, b"port 80")
    assert await search(Regex("^b"), b"a" * 3000, b"b" * 3000) is None
    found = await search(Regex("^b"), b"a" * 5000 + b"\n", b"b")
    assert found is not None


async def test_unicode() -> None:
    found = await search(Regex(r"\pL+ü"), "föü".encode()[:2], "föü".encode()[2:])
    assert found is not None
    assert found[1].matched == "föü".encode()


@pytest.mark.parametrize(
    "expression", [r"(a*)*b", r"(a|aa)+$c", r"(x+x+)+y", r"(.*)(.*)(.*)(.*)(.*)q", r"(a?){100}z"]
)
async def test_no_expression_takes_for_ever(expression: str) -> None:
    """Each takes a backtracking engine longer than the universe has lasted."""
    with trio.fail_after(20):
        assert await search(Regex(expression), b"a" * 200_000) is None


async def test_the_loop_goes_on_while_an_expression_is_looked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And a wait that is given up does not wait for it.

    Counted are the loop's turns during one search that takes many times as long as they need:
    however loaded the machine is, a loop that was held up would have none.
    """
    slow = Regex(r"(x+x+)+y|.{1,150}z")
    began, ended = trio.Event(), threading.Event()
    look = slow._search

    def watched(data: bytes) -> tuple[int, int] | None:
        trio.from_thread.run_sync(began.set)
        try:
            return look(data)
        finally:
            ended.set()

    monkeypatch.setattr(slow, "_search", watched)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slow.find, b"xa" * (32 << 20))
        with trio.fail_after(PATIENCE):
            await began.wait()
        for _ in range(5):
            await trio.sleep(0.001)
        assert not ended.is_set(), "it was looked for all the while"
        nursery.cancel_scope.cancel()
    assert not ended.is_set(), "nor was it waited for"
    assert ended.wait(PATIENCE)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Regex("("), "for.x: not a regular expression"),
        (lambda: Regex("a(?=b)"), "for.x: not a regular expression"),
        (lambda: Regex("(a{1000}){1000}"), "for.x: not a regular expression"),
        (lambda: Regex(r"(\pL{1,100}x){1,9}"), "for.x: "),
        (lambda: Text(""), "must not be empty"),
        (lambda: Text("x" * (MAX_PATTERN + 1)), f"at most {MAX_PATTERN} bytes"),
        (lambda: Text("\ud800"), "must be valid Unicode"),
    ],
)
def test_what_is_refused(make: object, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        make()  # type: ignore[operator]
    assert message.removeprefix("for.x: ") in caught.value.message
