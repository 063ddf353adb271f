"""What a client that attaches is sent before it is live, and what a slow one has missed.

Nothing is held for it: a replay is a place in the journal where its cursor begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from s0d.journal import CursorExpired
from s0d.model import event as ev
from s0d.model.errors import EventCursorExpired

from .screens import Screens

if TYPE_CHECKING:
    from .session import Session

_READ: Final = 1 << 20


@dataclass(frozen=True)
class Replay:
    """The cursor begins after event `start`; events up to `boundary` are replay.

    `skip` bytes of the first output are left out, `size` bytes are left; `dropped` says that there
    was more.  `painted` goes before everything.  `metered` is what the session's meter showed as
    of `boundary`.
    """

    start: int
    boundary: int
    metered: int
    size: int = 0
    skip: int = 0
    dropped: bool = False
    painted: bytes = b""


def replay_none(session: Session) -> Replay:
    latest = session.journal.latest
    return Replay(latest, latest, session.meter.total)


async def replay_after(session: Session, after: int) -> Replay:
    """Exactly what came after an event; `EventCursorExpired`, `InvalidRequest`."""
    session.cursor(after).close()
    boundary, metered = session.journal.latest, session.meter.total
    return Replay(after, boundary, metered, await count_output(session, after, boundary))


async def replay_screen(session: Session, screens: Screens) -> Replay:
    """Sequences that paint what the terminal shows.  `SessionConflict` where there is none."""
    with screens.looking(session) as screen:
        paint = await screen.repaint()
    latest, metered = session.journal.latest, session.meter.total
    since = await count_output(session, paint.seq, latest)
    return Replay(paint.seq, paint.seq, metered - since, painted=paint.data)


async def replay_history(session: Session, most: int) -> Replay:
    """The newest `most` bytes of output: read from the end, a segment at a time."""
    journal = session.journal
    boundary = upto = start = journal.latest
    metered, size = session.meter.total, 0
    for first in reversed(journal.segments_beyond(0)):
        try:
            outputs = await _outputs(session, first - 1, upto)
        except CursorExpired:
            break  # retention has overtaken the search
        for seq, length in reversed(outputs):
            if size + length > most:
                skip = length - (most - size)
                if skip == length:
                    return Replay(start, boundary, metered, size, dropped=True)
                return Replay(seq - 1, boundary, metered, most, skip, dropped=True)
            size += length
            start = seq - 1
        upto = start = first - 1
    return Replay(start, boundary, metered, size, dropped=journal.earliest > 1)


async def count_output(session: Session, after: int, upto: int) -> int:
    """Bytes of output beyond event `after` up to `upto`.  Raises `EventCursorExpired`."""
    try:
        return sum([length for _, length in await _outputs(session, after, upto)])
    except CursorExpired as error:
        raise EventCursorExpired(error.earliest, error.latest) from None


async def count_missed(session: Session, owed: int) -> tuple[int, int]:
    """Of `owed` bytes, all that a reader has not been sent, those that retention has taken; and
    the event to go on with."""
    journal, meter = session.journal, session.meter
    produced = meter.total
    while True:
        earliest, owed = journal.earliest, owed + meter.total - produced
        produced = meter.total
        before = meter.before(earliest)
        if before is not None:
            return owed - (produced - before), earliest
        if earliest > meter.since:  # no output has been written since then
            return owed, earliest
        try:
            kept = await count_output(session, earliest - 1, meter.since)
        except EventCursorExpired:
            continue
        return owed - kept - produced, earliest


async def _outputs(session: Session, after: int, upto: int) -> list[tuple[int, int]]:
    """Number and length of every output beyond `after` up to `upto`."""
    found: list[tuple[int, int]] = []
    if after >= upto:
        return found
    with session.journal.cursor(after) as cursor:
        while cursor.position < upto:
            block = await cursor.read_available(_READ)
            if block is None:
                break
            found += [
                (record.seq, len(record.fields["data"]))
                for record in block.records
                if record.type == ev.OUTPUT and record.seq <= upto
            ]
    return found
