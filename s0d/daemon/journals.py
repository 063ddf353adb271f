"""Journals as files, without a daemon: what `s0d journal` finds, checks, mends and prints.

A path may be a journal's directory, a session's, a sandbox's or the state directory.  Checking
only reads, also beside a running daemon; mending holds the state directory's lock meanwhile, so
that no daemon has the journal open.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal

import trio

from s0d.journal import CannotRepair, JournalError, Record, Report, owner, records, repair, verify
from s0d.model.errors import InvalidRequest
from s0d.model.event import JOURNAL_GAP, OUTPUT
from s0d.model.ids import is_sandbox_id, is_session_id
from s0d.supervisor.lock import NAME as LOCK
from s0d.supervisor.lock import locked
from s0d.supervisor.store import JOURNAL, RECORD
from s0d.wire.event import EventEncoder

Json = dict[str, Any]
Status = Literal["sound", "repaired", "damaged", "unreadable"]

_SANDBOXES: Final = "sandboxes"
_SESSIONS: Final = "sessions"
_LOOKS: Final = 5  # at a journal whose segments a running daemon removes meanwhile


@dataclass(frozen=True, slots=True)
class Place:
    """One journal: its directory, and whose it is where the path says so."""

    path: str
    session_id: str | None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in one journal, and done to it.

    `report` is of what is there now, None where it cannot be read; `found` is of before a repair.
    `error`: why it cannot be read or was not mended.
    """

    place: Place
    found: Report | None
    report: Report | None
    repaired: Sequence[tuple[str, str]] = ()
    error: str | None = None

    @property
    def status(self) -> Status:
        """`damaged` also where a repair has left something: records that are lost stay lost."""
        if self.report is None:
            return "unreadable"
        if not self.report.ok:
            return "damaged"
        return "repaired" if self.repaired else "sound"

    def to_json(self) -> Json:
        """All keys are always there; null where nothing is known."""
        report, found = self.report, self.found
        segments = report.segments if report else []
        return {
            "path": self.place.path,
            "session_id": (report and report.session_id) or self.place.session_id,
            "status": self.status,
            "clean": report.clean if report else False,
            "segments": len(segments),
            "unsealed": sum(not segment.sealed for segment in segments),
            "records": report.records if report else 0,
            "first": segments[0].first if segments else 0,
            "last": max(0, segments[-1].last) if segments else 0,
            "bytes": sum(segment.size for segment in segments),
            "torn_bytes": segments[-1].torn_bytes if segments else 0,
            "damage": [asdict(damage) for damage in found.damage] if found else [],
            "left": [asdict(damage) for damage in report.damage] if report else [],
            "foreign": report.foreign if report else [],
            "repaired": [{"file": file, "what": what} for file, what in self.repaired],
            "error": self.error,
        }


# -- finding ---------------------------------------------------------------------------------


def find(path: str) -> list[Place]:
    """The journals at or below `path`, in order.  Raises `InvalidRequest` where it is no place for
    any, `OSError` where it cannot be looked at."""
    path = os.path.realpath(path)
    names = set(os.listdir(path))
    if "mark" in names or any(name.endswith(".seg") for name in names):
        return [Place(path, _session_of(path))]
    if JOURNAL in names or RECORD in names:
        return [_of_session(path)]
    if _SESSIONS in names:
        return _of_sandbox(path)
    if _SANDBOXES in names:
        below = os.path.join(path, _SANDBOXES)
        ids = [name for name in sorted(os.listdir(below)) if is_sandbox_id(name)]
        return [place for name in ids for place in _of_sandbox(os.path.join(below, name))]
    raise InvalidRequest(f"{path} is no journal, session, sandbox or state directory")


def _of_sandbox(path: str) -> list[Place]:
    """Its sessions; one that has nothing in it was never acknowledged."""
    below = os.path.join(path, _SESSIONS)
    paths = [os.path.join(below, name) for name in sorted(os.listdir(below)) if is_session_id(name)]
    return [_of_session(session) for session in paths if os.listdir(session)]


def _of_session(path: str) -> Place:
    journal = os.path.join(path, JOURNAL)
    return Place(journal, _session_of(journal))


def _session_of(journal: str) -> str | None:
    name = os.path.basename(os.path.dirname(journal))
    return name if is_session_id(name) else None


def _state_of(place: Place) -> str | None:
    """The state directory that the journal is in, if it is in one that a daemon has ever held."""
    path = place.path
    while (above := os.path.dirname(path)) != path:
        if os.path.basename(path) == _SANDBOXES and os.path.lexists(os.path.join(above, LOCK)):
            return above
        path = above
    return None


# -- checking and mending --------------------------------------------------------------------


def check(places: Sequence[Place]) -> Iterator[Verdict]:
    """Read every frame of each."""
    for place in places:
        try:
            report = _look(place)
        except OSError as error:
            yield Verdict(place, None, None, error=_text(error))
        else:
            yield Verdict(place, report, report)


def mend(places: Sequence[Place]) -> list[Verdict]:
    """Check each, and mend what can be mended, while no daemon can run.

    Raises `StateDirectoryError` where one does; nothing was changed then.
    """
    return trio.run(_mend_locked, places)


async def _mend_locked(places: Sequence[Place]) -> list[Verdict]:
    states = sorted({state for place in places if (state := _state_of(place)) is not None})
    async with AsyncExitStack() as stack:
        for state in states:
            await stack.enter_async_context(locked(state))
        return [await trio.to_thread.run_sync(_mend, verdict) for verdict in check(places)]


def _mend(before: Verdict) -> Verdict:
    place = before.place
    if before.report is None:
        return before
    done: list[tuple[str, str]] = []
    error = None
    try:
        _check_owner(place)
        done = repair(place.path, place.session_id)
    except CannotRepair as reason:
        # A journal of which nothing was ever written may be sound: then there is nothing to say.
        error = None if before.status == "sound" else f"not repaired: {reason}"
    except (OSError, JournalError) as failure:
        error = f"not repaired: {_text(failure)}"
    return Verdict(place, before.found, _look(place), done, error)


def _check_owner(place: Place) -> None:
    """What we make belongs to us; whoever runs the daemon could not read it."""
    uid = os.stat(place.path).st_uid
    if uid != os.geteuid():
        raise CannotRepair(f"it belongs to uid {uid}: repair it as that user")


def _look(place: Place) -> Report:
    for _ in range(_LOOKS - 1):
        try:
            return verify(place.path, session_id=place.session_id)
        except FileNotFoundError:
            if not os.path.isdir(place.path):
                raise
    return verify(place.path, session_id=place.session_id)


def _text(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


# -- printing --------------------------------------------------------------------------------


def lines(place: Place, after: int, types: frozenset[str]) -> Iterator[bytes]:
    """Each record beyond `after`, of these types (none: of all), as a client gets it: one JSON
    object, without its newline.  Gaps are always there.  Raises `OSError`."""
    session_id = place.session_id or owner(place.path)
    encoder = EventEncoder(session_id or "")
    for record in records(place.path, after, session_id=session_id):
        if not types or record.type in types or record.type == JOURNAL_GAP:
            yield _line(encoder, record)


def _line(encoder: EventEncoder, record: Record) -> bytes:
    if record.type == OUTPUT and not {"stream", "data"} <= record.fields.keys():
        # Not as a supervisor writes it: shown all the same, whatever is in it.
        fields = {"stream": "", "data": b"", **record.fields}
        record = record._replace(fields=fields)
    return encoder.json(record)
