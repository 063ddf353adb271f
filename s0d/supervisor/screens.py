"""The screens of terminals, each made when somebody asks for it and fed only while somebody looks.

A screen is a reader of the journal like any other: output is recorded and sent without it.  Whoever
looks brings it up to date first, in slices with a checkpoint between, so that no other task waits
longer than a slice takes.  What a look that was cancelled has left to do, the next one does.

A screen that is not up to date starts at most `SPAN` bytes back in the journal; what came before is
then said to be cut (`history_cut`), and is only searched for modes and the like, as far back as
`REACH` bytes and `MAX_EVENTS` events.  `terminal.resized` events apply where they stand between the
output, so a screen that is made later equals one that was looked at all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import trio

from s0d.journal import CursorExpired, Journal, JournalError, Record
from s0d.model import event as ev
from s0d.model.errors import LimitExceeded, SessionConflict
from s0d.model.session import AttemptRecord
from s0d.model.spec import IOMode
from s0d.terminal import Screen, Snapshot

from .change import Change
from .feeding import Feeder
from .past import Past
from .turns import Turns

if TYPE_CHECKING:
    from .session import Session

SCROLLBACK: Final = 1000
MAX_SCREENS: Final = 64
MAX_CELLS: Final = 2_000_000
"""Cells of all screens of a sandbox; a thousand usual terminals, or four of the largest."""
KEEP: Final = 300.0
"""Seconds that a screen stays in memory when nobody has looked at it."""
SPAN: Final = 4 << 20
"""Bytes of journal that a look goes back, about."""
REACH: Final = 64 << 20
"""Bytes of journal that are searched for what stays set: a journal of the default size."""
MAX_EVENTS: Final = 1 << 16
"""Events searched, 0.2 s: what a small one costs does not depend on its size."""
_READ: Final = 1 << 20
_TRIES: Final = 3


class View(NamedTuple):
    """What an attempt's terminal shows after event `seq`, the newest that changed it."""

    attempt_id: str
    seq: int
    snapshot: Snapshot


class Repaint(NamedTuple):
    """Bytes that bring a fresh terminal to this state; the output goes on after event `seq`."""

    data: bytes
    seq: int
    rows: int
    cols: int


class AttemptScreen:
    """The screen of one attempt, as far as somebody wanted to see it."""

    def __init__(self, session: Session, attempt: AttemptRecord) -> None:
        self.attempt_id = attempt.id
        self.seq = 0
        self.lookers = 0
        self.idle_since = trio.current_time()
        self._session = session
        self._attempt = attempt
        self._feeder = Feeder(Screen(*_size(session, attempt), SCROLLBACK))
        self._position = 0
        self._cut = True  # until the attempt's beginning is found
        self._work: Iterator[None] = iter(())
        self._lock = trio.Lock()
        self._last: View | None = None

    @property
    def cells(self) -> int:
        """How large it is."""
        rows, cols = self._feeder.screen.size
        return rows * cols

    @property
    def position(self) -> int:
        """The event up to which it has read the journal."""
        return self._position

    async def look(self, scrollback: int = 0) -> View:
        """What it shows now, with up to `scrollback` of the lines above it."""
        async with self._lock:
            await self._catch_up()
            last = self._last
            if last is not None and last.seq == self.seq and not scrollback:
                return last
            snapshot = self._feeder.screen.snapshot(scrollback)
            # Where the scrollback is full, what was left out could not be seen in it.
            if self._cut and snapshot.scrollback_lines < SCROLLBACK:
                snapshot = msgspec.structs.replace(snapshot, history_cut=True)
            view = View(self.attempt_id, self.seq, snapshot)
            if not scrollback:
                self._last = view
            return view

    async def refresh(self) -> int:
        """Bring it up to date and return `seq`, for those who may not need the picture."""
        async with self._lock:
            await self._catch_up()
            return self.seq

    async def repaint(self, scrollback: int = 0) -> Repaint:
        """What a terminal that attaches now is to be sent first."""
        async with self._lock:
            await self._catch_up()
            screen = self._feeder.screen
            return Repaint(screen.repaint(scrollback), self._position, *screen.size)

    async def _catch_up(self) -> None:
        await self._finish()
        past, records = await self._read()
        if records:
            self._work = self._steps(past, records)
            await self._finish()

    async def _finish(self) -> None:
        turns = Turns()
        for _ in self._work:
            await turns.rest()

    async def _read(self) -> tuple[bytes, list[Record]]:
        """All events up to now, from where it stopped or from where the journal's end begins.

        In the latter case also what brings the screen to what was set before that.
        """
        while True:
            try:
                past, start = await self._leave_out()
                return past, await self._read_from(start, self._session.journal.latest)
            except CursorExpired:
                await trio.lowlevel.checkpoint()  # retention went by: look again from what is left
            except JournalError:
                if self._session.removing:  # its files are going away: it stays as it is
                    return b"", []
                raise

    async def _leave_out(self) -> tuple[bytes, int]:
        """The event to read on after, and what stands for what is left out before it."""
        journal, position = self._session.journal, self._position
        start = _start(journal, position, SPAN)
        if start == position:
            return b"", start
        past = Past(self.attempt_id)
        done = max(_start(journal, position, REACH), start - MAX_EVENTS)
        for _ in range(_TRIES):
            await past.read(journal, done, start)
            done, start = start, _start(journal, position, SPAN)  # it was written to meanwhile
            if start == done:
                break
        return past.settings.anew(), done

    async def _read_from(self, start: int, last: int) -> list[Record]:
        records: list[Record] = []
        if start >= last:
            return records
        # Past the session's own check: what is being deleted is shown to its end.
        with self._session.journal.cursor(start) as cursor:
            while cursor.position < last:
                block = await cursor.read_available(_READ)
                if block is None:
                    break
                records += block.records
        return records

    def _steps(self, past: bytes, records: list[Record]) -> Iterator[None]:
        """Feed the events, with `past` for those left out; a yield wherever others may run."""
        if past:
            self._cut = True
            yield from self._feeder.begin(past, *_size(self._session, self._attempt))
        ours = [r for r in records if self._shows(r)]
        following = sum(len(r.fields["data"]) for r in ours if r.type == ev.OUTPUT)
        seq = self.seq
        for record in ours:
            fields = record.fields
            if record.type == ev.OUTPUT:
                following -= len(fields["data"])
                yield from self._feeder.take(fields["data"], following)
            elif record.type == ev.TERMINAL_RESIZED:
                yield from self._feeder.resize(fields["rows"], fields["cols"], following)
            elif record.type == ev.ATTEMPT_STARTING:
                self._begin(record)
            elif record.type == ev.JOURNAL_GAP:
                self._cut = True
            else:
                continue
            seq = record.seq
        yield from self._feeder.flush()
        self.seq = seq
        self._position = records[-1].seq

    def _shows(self, record: Record) -> bool:
        if record.type == ev.OUTPUT and record.fields["stream"] != "pty":
            return False
        return record.attempt == self.attempt_id or record.type == ev.JOURNAL_GAP

    def _begin(self, record: Record) -> None:
        self._cut = False
        if "rows" in record.fields:
            size = record.fields["rows"], record.fields["cols"]
            self._feeder = Feeder(Screen(*size, SCROLLBACK))


class Screens:
    """The screens of a sandbox that are in memory: few, and those that were looked at last."""

    def __init__(self, limit: int = MAX_SCREENS, keep: float = KEEP) -> None:
        self._limit = limit
        self._keep = keep
        self._screens: dict[str, AttemptScreen] = {}
        self._change = Change()

    def __len__(self) -> int:
        return len(self._screens)

    @contextmanager
    def looking(self, session: Session) -> Iterator[AttemptScreen]:
        """The screen of the session's current attempt, or of its last one, while it is looked at.

        Raises `SessionConflict` where there is no terminal, `LimitExceeded` where too many others
        are being looked at.
        """
        screen = self._screen(session)
        screen.lookers += 1
        try:
            yield screen
        finally:
            screen.lookers -= 1
            screen.idle_since = trio.current_time()

    def forget(self, session_id: str) -> None:
        """The session is going away."""
        self._screens.pop(session_id, None)

    async def run(self) -> None:
        """Drop what nobody has looked at for a while."""
        while True:
            await self._change.wait_for(lambda: bool(self._screens))
            await trio.sleep(self._keep / 4)
            self._drop(trio.current_time() - self._keep)

    def _screen(self, session: Session) -> AttemptScreen:
        attempt = session.record.attempt
        if session.record.spec.io.mode is not IOMode.PTY:
            raise SessionConflict("the session has pipes, not a terminal: it has no screen")
        if attempt is None:
            raise SessionConflict("the session has not been started: it has no screen yet")
        screen = self._screens.get(session.id)
        if screen is None or screen.attempt_id != attempt.id:
            self.forget(session.id)
            screen = AttemptScreen(session, attempt)
            self._make_room(screen.cells)
            self._screens[session.id] = screen
            self._change.notify()
        return screen

    def _make_room(self, cells: int) -> None:
        self._drop(trio.current_time() - self._keep)
        while not self._fits(cells):
            idle = [(s.idle_since, id) for id, s in self._screens.items() if not s.lookers]
            if not idle:
                raise LimitExceeded("too many screens are being looked at: try again later")
            del self._screens[min(idle)[1]]

    def _fits(self, cells: int) -> bool:
        if not self._screens:
            return True
        total = cells + sum(screen.cells for screen in self._screens.values())
        return len(self._screens) < self._limit and total <= MAX_CELLS

    def _drop(self, before: float) -> None:
        for id, screen in list(self._screens.items()):
            if not screen.lookers and screen.idle_since <= before:
                del self._screens[id]


def _size(session: Session, attempt: AttemptRecord) -> tuple[int, int]:
    """The terminal's present size; the specification's for an attempt of an older s0d."""
    terminal = session.record.spec.io.terminal
    if attempt.rows and attempt.cols:
        return attempt.rows, attempt.cols
    return (terminal.rows, terminal.cols) if terminal else (24, 80)


def _start(journal: Journal, position: int, span: int) -> int:
    """Where to read on after `position`: further on where more than `span` bytes follow it."""
    start, size = journal.latest, 0
    for segment in reversed(journal.store.segments):
        if segment.first <= position + 1:
            return position
        start = segment.first - 1
        size += segment.end
        if size >= span:
            # Records of one size are taken for granted: being wrong only costs time.
            share = (size - span) / segment.end
            start += int((segment.last - start) * share)
            break
    return start
