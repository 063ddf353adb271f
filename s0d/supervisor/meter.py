"""How much output a session has written, so that what a reader has missed can be told in bytes."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Protocol

from s0d.journal import Record


class Segments(Protocol):
    """What is needed of a journal: where its segments begin."""

    @property
    def earliest(self) -> int: ...
    @property
    def newest_segment(self) -> int: ...
    def segments_beyond(self, seq: int) -> list[int]: ...


class OutputMeter:
    """Bytes of output since this daemon opened the session: `total`, of the events beyond `since`.

    Retention removes whole segments, so it is enough to keep the totals at their beginnings.
    """

    def __init__(self, since: int) -> None:
        self.since = since
        self.total = 0
        self._marks: deque[tuple[int, int]] = deque()
        self._segment = 0

    def wrote(self, records: Sequence[Record], journal: Segments) -> None:
        """Output was recorded: these events, the newest there are."""
        if journal.newest_segment != self._segment:
            self._mark(records, journal)
        self.total += sum([len(record.fields["data"]) for record in records])

    def before(self, seq: int) -> int | None:
        """The total before event `seq`, which begins a segment; None for one before `since`."""
        for first, total in self._marks:
            if first == seq:
                return total
        return None

    def _mark(self, records: Sequence[Record], journal: Segments) -> None:
        for first in journal.segments_beyond(max(self._segment, self.since)):
            earlier = sum([len(r.fields["data"]) for r in records if r.seq < first])
            self._marks.append((first, self.total + earlier))
        self._segment = journal.newest_segment
        while len(self._marks) > 1 and self._marks[0][0] < journal.earliest:
            self._marks.popleft()
