"""Waiting for something to become true of a session: its phase, its exit, its output, its screen.

Each condition is a coroutine that returns the `Match` that it was waiting for; `wait_any` runs
several and takes the first.  Nothing here ends by itself: the caller has the deadline, and leaving
(a client that hangs up) leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
import trio
from msgspec import UNSET, UnsetType

from s0d.journal import Block, CursorExpired, JournalError, Record
from s0d.model import event as ev
from s0d.model.errors import EventCursorExpired, SessionNotFound, Unavailable
from s0d.model.session import AttemptRecord, Phase
from s0d.terminal import Snapshot

from .patterns import Pattern, Search
from .screens import Screens

if TYPE_CHECKING:
    from .session import Session

FRAME: Final = 1 / 30
"""Seconds between two looks at a screen, at least."""
_AT_REST: Final = frozenset({Phase.EXITED, Phase.STOPPED, Phase.FAILED, Phase.SUSPENDED})
_FIRST_LOOK, _LONGEST_LOOK = 0.02, 0.25
_SHOWN: Final = 1024
_LISTEN: Final = "0A"
"""The state of a listening socket in /proc/net/tcp."""


class Match(msgspec.Struct, kw_only=True):
    """What came true: which condition, as of which event, and what goes with it.

    `text` is what was found, at most 1,024 bytes of it; `row` is where on the screen it begins.
    """

    matched: str
    seq: int
    attempt_id: str | UnsetType = UNSET
    phase: Phase | UnsetType = UNSET
    text: str | UnsetType = UNSET
    stream: str | UnsetType = UNSET
    row: int | UnsetType = UNSET
    exit_code: int | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    signal: str | UnsetType = UNSET
    port: int | UnsetType = UNSET


Condition = Callable[[], Awaitable[Match]]


async def wait_any(conditions: Sequence[Condition]) -> Match:
    """The first match; of several at once one.  An error of a condition is raised as it is."""
    matches: list[Match] = []
    errors: list[Exception] = []
    async with trio.open_nursery() as nursery:

        async def wait(condition: Condition) -> None:
            try:
                matches.append(await condition())
            except Exception as error:
                errors.append(error)
            nursery.cancel_scope.cancel()

        for condition in conditions:
            nursery.start_soon(wait, condition)
    if matches:
        return matches[0]
    raise errors[0]


async def wait_phase(session: Session, phases: Collection[Phase]) -> Match:
    """Until the session is in one of `phases`; one that lasts no longer than an event is missed."""
    await _until(session, lambda s: s.phase in phases)
    record = session.record
    return Match(
        matched="phase", seq=record.seq, phase=record.phase, attempt_id=_attempt_id(session)
    )


async def wait_exit(session: Session) -> Match:
    """Until the current attempt has ended; at once where none runs and none is to come."""
    record = session.record
    number = record.attempts
    if record.unfinished is None and record.phase not in _AT_REST:
        number += 1  # a start or a restart is on its way
    after = record.seq

    def ended(session: Session) -> bool:
        attempt = session.record.attempt
        if attempt is None:  # never started, and nothing to come
            return session.phase in _AT_REST
        return attempt.number > number or (attempt.number == number and attempt.finished)

    await _until(session, ended)
    attempt = session.record.attempt
    if attempt is None or attempt.number == number:
        return _exit_of(session, attempt)
    return await _exit_event(session, after)  # the next one has begun already


def _exit_of(session: Session, attempt: AttemptRecord | None) -> Match:
    match = Match(matched="exit", seq=session.record.seq, phase=session.phase)
    if attempt is not None:
        match.attempt_id = attempt.id
        match.exit_code = UNSET if attempt.exit_code is None else attempt.exit_code
        match.reason = attempt.reason or UNSET
        match.signal = attempt.signal or UNSET
    return match


async def _exit_event(session: Session, after: int) -> Match:
    with session.journal.cursor(after) as cursor:
        while True:
            for record in (await _next(session, cursor.read)).records:
                if record.type == ev.ATTEMPT_EXITED:
                    fields = record.fields
                    return Match(
                        matched="exit",
                        seq=record.seq,
                        phase=session.phase,
                        attempt_id=record.attempt or UNSET,
                        exit_code=fields.get("exit_code", UNSET),
                        reason=fields.get("reason", UNSET),
                        signal=fields.get("signal", UNSET),
                    )


async def wait_output(
    session: Session, pattern: Pattern, stream: str | None = None, after: int | None = None
) -> Match:
    """Until `pattern` has been written, on `stream` or on any (each for itself).

    Without `after` in what the current attempt has written and will write, or the one that comes
    after it; with it in all output beyond that event.
    """
    searches: dict[str, Search] = {}
    attempt: str | None = None
    with session.cursor(after) as cursor:
        while True:
            block = await _next(session, cursor.read)
            if after is None and (current := _current(session)) != attempt:
                attempt = current
                searches.clear()
            records = [
                record
                for record in block.records
                if record.type == ev.OUTPUT
                and stream in (None, record.fields["stream"])
                and (after is not None or record.attempt == attempt)
            ]
            for name in dict.fromkeys(record.fields["stream"] for record in records):
                search = searches.setdefault(name, Search(pattern))
                match = await _search(search, name, records)
                if match is not None:
                    return match


async def _search(search: Search, stream: str, records: list[Record]) -> Match | None:
    ours = [record for record in records if record.fields["stream"] == stream]
    hit = await search.feed(b"".join([record.fields["data"] for record in ours]))
    if hit is None:
        return None
    at = 0
    for record in ours:
        at += len(record.fields["data"])
        if at >= hit.end:
            break
    return Match(
        matched="output",
        seq=record.seq,
        attempt_id=record.attempt or UNSET,
        stream=stream,
        text=_shown(hit.matched),
    )


async def wait_screen(session: Session, screens: Screens, pattern: Pattern) -> Match:
    """Until `pattern` stands on the terminal's screen.

    Its lines are joined by newlines, without the blanks at their ends, whatever their colour.
    """
    seen: tuple[str, int] | None = None
    while True:
        began = trio.current_time()
        with screens.looking(session) as screen:
            view = await screen.look()
            position = screen.position
        if (view.attempt_id, view.seq) != seen:
            seen = view.attempt_id, view.seq
            text = _text(view.snapshot).encode()
            found = await pattern.find(text)
            if found is not None:
                return Match(
                    matched="screen",
                    seq=view.seq,
                    attempt_id=view.attempt_id,
                    text=_shown(text[found[0] : found[1]]),
                    row=text.count(b"\n", 0, found[0]),
                )
        await _more(session, position)
        await trio.sleep(pause(trio.current_time() - began))


def _text(snapshot: Snapshot) -> str:
    return "".join([f"{line.rstrip(' ')}\n" for line in snapshot.text().split("\n")[:-1]])


def pause(spent: float) -> float:
    """Seconds to wait after a look that took so many: 30 looks a second, and half the time off."""
    return max(FRAME - spent, min(spent, 1.0) / 2, 0.0)


async def wait_port(session: Session, port: int) -> Match:
    """Until something on this machine listens on the TCP port; there is no event to wait for."""
    delay = _FIRST_LOOK
    while not await trio.to_thread.run_sync(is_listening, port):
        if session.journal.ended:
            raise SessionNotFound("no such session")
        await trio.sleep(delay)
        delay = min(2 * delay, _LONGEST_LOOK)
    return Match(matched="port", seq=session.record.seq, port=port, attempt_id=_attempt_id(session))


def is_listening(port: int, tables: Sequence[str] = ("/proc/net/tcp", "/proc/net/tcp6")) -> bool:
    """Does a socket listen on the TCP port, on any address?  (proc(5), tcp(7).)

    Looked up and not connected to: a server that serves one client only is left alone.
    """
    wanted = f"{port:04X}"
    for table in tables:
        try:
            lines = Path(table).read_text().splitlines()[1:]
        except OSError:  # no IPv6
            continue
        for fields in map(str.split, lines):
            if fields[3] == _LISTEN and fields[1].rpartition(":")[2] == wanted:
                return True
    return False


async def _until(session: Session, condition: Callable[[Session], bool]) -> None:
    await session.wait_for(lambda s: condition(s) or s.journal.ended)
    if not condition(session):
        raise SessionNotFound("no such session")


async def _next(session: Session, read: Callable[[], Awaitable[Block | None]]) -> Block:
    try:
        block = await read()
    except CursorExpired as error:
        raise EventCursorExpired(error.earliest, error.latest) from None
    except JournalError:
        if session.removing:  # its files are going away
            raise SessionNotFound("no such session") from None
        raise
    if block is not None:
        return block
    if session.removing:
        raise SessionNotFound("no such session")
    raise Unavailable("s0d is shutting down")


async def _more(session: Session, position: int) -> None:
    """Until the journal goes on beyond `position`."""
    try:
        with session.journal.cursor(position) as bell:
            await _next(session, bell.read)
    except (CursorExpired, EventCursorExpired):
        return  # far beyond


def _current(session: Session) -> str | None:
    attempt = session.record.attempt
    return None if attempt is None else attempt.id


def _attempt_id(session: Session) -> str | UnsetType:
    return _current(session) or UNSET


def _shown(found: bytes) -> str:
    return found[:_SHOWN].decode("utf-8", "replace")
