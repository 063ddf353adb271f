"""What must hold in the events of one session, from end to end of all its attempts."""

from __future__ import annotations

import base64
from collections import defaultdict

from tests.support.client import Event

from .kinds import COUNTERS, assert_counts
from .known import KnownSession


def check_history(session: KnownSession, events: list[Event]) -> None:
    """`events` is all that is retained of `session`."""
    assert events, "nothing is retained"
    _check_numbers(session, events)
    whole = events[0].seq == 1
    assert whole or not session.whole, f"{session.id} begins at {events[0].seq}"
    _check_attempts(events, whole)
    _check_commands(session, events, whole)
    _check_output(session, events, whole)


def _check_numbers(session: KnownSession, events: list[Event]) -> None:
    """Contiguous but for what is said to be lost; nothing that was seen is lost."""
    due = _first(events[0])
    for event in events:
        first = _first(event)
        if event.fields["type"] == "journal.gap":
            assert event.fields["last"] == event.seq
            assert event.fields["reason"] == "unclean_end", event.raw
            shown = [n for n in session.seen if first <= n < event.seq]
            assert not shown, f"{shown} were shown and are said to be lost"
        assert first == due, f"{due} was due, and {event.raw!r} came"
        due = event.seq + 1
    missing = [n for n in session.seen if n >= due]
    assert not missing, f"{missing[:10]} were seen and are not there"


def _first(event: Event) -> int:
    """The first number that it stands for."""
    return int(event.fields.get("first", event.seq))


def _check_attempts(events: list[Event], whole: bool) -> None:
    """An attempt starts, writes, exits once, and is over before the next one starts."""
    current: str | None = None
    over: set[str] = set()
    generation = 0
    for event in events:
        kind, attempt = event.fields["type"], event.fields.get("attempt_id")
        if kind == "journal.gap":
            continue  # the journal's own: it knows of no runtime
        assert event.fields["runtime_generation"] >= generation, event.raw
        generation = event.fields["runtime_generation"]
        if kind == "attempt.starting":
            assert current is None, f"{current} has not ended: {event.raw!r}"
            assert attempt not in over
            current = attempt
        elif kind == "attempt.exited":
            assert attempt == current or (current is None and not whole), event.raw
            over.add(str(attempt))
            current = None
        elif kind in ("output", "input.accepted", "attempt.started", "attempt.stopping"):
            current = current or (None if whole else attempt)
            assert attempt == current, event.raw
            assert attempt not in over, event.raw


def _check_commands(session: KnownSession, events: list[Event], whole: bool) -> None:
    """Every acknowledged command is told, no input twice."""
    if not whole:
        return
    kinds = [event.fields["type"] for event in events]
    assert kinds.count("signal.sent") >= session.signals
    assert kinds.count("terminal.resized") >= session.resizes
    told = [e.fields["input_id"] for e in events if e.fields["type"] == "input.accepted"]
    assert len(told) == len(set(told)), "an input was accepted twice"
    for made in session.inputs.values():
        assert made.id in told or not made.acked, f"{made} is lost"


def _check_output(session: KnownSession, events: list[Event], whole: bool) -> None:
    """Byte for byte what the child must have written, per attempt."""
    written: dict[str, bytearray] = defaultdict(bytearray)
    given: dict[str, bytearray] = defaultdict(bytearray)
    for event in events:
        attempt = str(event.fields.get("attempt_id"))
        if event.fields["type"] == "output":
            if event.fields["stream"] != "stderr":
                written[attempt] += base64.b64decode(event.fields["data_base64"])
        elif event.fields["type"] == "input.accepted":
            given[attempt] += session.inputs[event.fields["input_id"]].data
    for number, (attempt, data) in enumerate(written.items()):
        if session.kind in COUNTERS:
            assert_counts(bytes(data), from_start=whole or number > 0)
        elif session.kind == "echo":
            assert given[attempt].startswith(bytes(data)), f"{attempt}: not what it was given"
