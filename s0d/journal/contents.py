"""What a journal's directory holds: its mark, its segments in order, other files. Read-only."""

from dataclasses import dataclass, field
from itertools import chain, count

from s0d.journal import layout
from s0d.journal.disk import Disk
from s0d.journal.load import Loaded, load_segment
from s0d.journal.mark import NAME as MARK
from s0d.journal.mark import Mark, read_mark
from s0d.journal.record import MAX_SEQ
from s0d.journal.rounds import NEW_SUFFIX, SUSPECT_SUFFIX

TORN_SUFFIX = ".torn"
BAD_SUFFIX = ".bad"
ASIDE_SUFFIXES = (TORN_SUFFIX, BAD_SUFFIX)
KEPT_SUFFIX = ".kept"
"""What was set aside for an operator: never removed but with the session."""
_UNFINISHED = layout.SUFFIX + NEW_SUFFIX


@dataclass(slots=True)
class Contents:
    """``trusted``: the mark can be relied on. ``segments``: in order. ``leftover``: segments after
    those, with nothing in them but parts of an append that did not come to its end. ``foreign``:
    names of other files. ``copies``: of segments being written anew."""

    mark: Mark | None
    trusted: bool
    segments: list[Loaded] = field(default_factory=list)
    leftover: list[Loaded] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)

    @property
    def closed(self) -> bool:
        """Whether the last end was a clean one: then every number is known."""
        return self.trusted and self.mark is not None and self.mark.clean

    @property
    def last(self) -> int:
        """The last number that a segment stands for; 0 without any."""
        return self.segments[-1].segment.last if self.segments else 0


def read_contents(
    disk: Disk, directory: int, session_id: str | None, *, full: bool = False
) -> Contents:
    """Everything in the open ``directory``. ``full`` reads also the frames of sealed segments.

    Without ``session_id`` segments of any session are taken. Raises ``OSError``.
    """
    contents = Contents(*read_mark(disk, directory))
    mark = contents.mark
    # A file that starts where nothing was ever shown is not ours, whatever its name.
    below = mark.reserved + 1 if mark and contents.trusted else MAX_SEQ
    firsts = []
    for name in disk.listdir(directory):
        first = layout.segment_first(name)
        if first is not None and first < below:
            firsts.append(first)
        elif name.endswith(_UNFINISHED):
            contents.copies.append(name)
        elif first is not None or not _is_own(name):
            contents.foreign.append(name)
    firsts.sort()
    contents.foreign.sort()
    contents.copies.sort()
    for first, following in zip(firsts, [*firsts[1:], None], strict=False):
        upto = following - 1 if following is not None else None
        one = load_segment(disk, directory, first, session_id, upto=upto, full=full)
        contents.segments.append(one)
    if not contents.closed:
        _leave_unfinished(disk, directory, session_id, contents, full=full)
    return contents


def is_set_aside(name: str) -> bool:
    """Whether a file in a journal's directory is what recovery or a repair has kept of damage."""
    return name.endswith((*ASIDE_SUFFIXES, KEPT_SUFFIX))


def kept_name(disk: Disk, directory: int, name: str) -> str:
    """A name that is free, under which the file ``name`` is kept."""
    there = set(disk.listdir(directory))
    numbered = (f"{name}.{n}{KEPT_SUFFIX}" for n in count(2))
    return next(kept for kept in chain([name + KEPT_SUFFIX], numbered) if kept not in there)


def _is_own(name: str) -> bool:
    return name == MARK or is_set_aside(name) or name.endswith(SUSPECT_SUFFIX)


def _leave_unfinished(
    disk: Disk, directory: int, session_id: str | None, contents: Contents, *, full: bool
) -> None:
    """Go back to where the last append began, if its end is not there.

    Nobody was shown a part of it (after a power cut: nobody had it acknowledged), and its numbers
    may have been given out again. Segments that it had only begun say nothing of those before them.
    """
    segments = contents.segments
    while segments:
        place = len(segments)
        while place and _is_void(segments[place - 1]):
            place -= 1
        before = segments[place - 1] if place else None
        if before is not None and before.sealed:
            # Its footer says nothing of an append that went on in the next one.
            first, upto = before.segment.first, before.segment.last
            again = load_segment(disk, directory, first, session_id, upto=upto, footer=False)
            if again.unfinished_at is not None:
                before = segments[place - 1] = again
        void = len(segments) - place
        if before and (before.unfinished_at is not None or (void and _falls_short(before))):
            place -= 1
        elif void < 2:
            return
        one = segments[place]
        contents.leftover[:0] = segments[place + 1 :]
        first, end = one.segment.first, one.unfinished_at
        footer = end is None
        segments[place:] = [
            load_segment(disk, directory, first, session_id, end=end, full=full, footer=footer)
        ]


def _falls_short(one: Loaded) -> bool:
    """Whether its records end before the next segment begins."""
    return bool(one.damage) and one.damage[-1].last == one.segment.last


def _is_void(one: Loaded) -> bool:
    """No record in it, and none that only a later program could read."""
    readable = one.segment.unreadable is None or one.file_size < layout.HEADER_SIZE
    return one.segment.count == 0 and readable
