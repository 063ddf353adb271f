"""The sessions of a sandbox by name: the newest live bearer of a name, else the newest.

Names are arbitrated among those who create by name: of several at once one makes the session.
Whoever creates a session without regard to names may give several the same one; of those one can
be reached here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

import trio
from msgspec import UNSET

from s0d.model.errors import SessionExists, SessionLive, SessionNotFound
from s0d.model.spec import SessionSpec
from s0d.wire.named import SessionInfo, is_name, status_of, view_named

from .seats import Seats

if TYPE_CHECKING:
    from .sandbox import Sandbox
    from .session import Session


class NamedSessions:
    """A sandbox's sessions as this surface knows them."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self.seats = Seats()
        self._locks: WeakValueDictionary[str, trio.Lock] = WeakValueDictionary()

    def find(self, name: str) -> Session:
        """Look up a session; `SessionNotFound`."""
        session = self._by_name().get(name)
        if session is None:
            raise SessionNotFound("no such session")
        return session

    def all(self) -> list[Session]:
        """One for each name, oldest first."""
        reachable = set(map(id, self._by_name().values()))
        return [session for session in self._sandbox.sessions() if id(session) in reachable]

    def info(self, session: Session) -> SessionInfo:
        """The session as clients see it."""
        attached = session.attachments > 0
        return view_named(session.record, root=self._sandbox.root, attached=attached)

    async def create(self, spec: SessionSpec, *, replace: bool) -> Session:
        """Make the session `spec.name`; `SessionExists` where the name is taken.

        With `replace` an ended session of that name goes, with its history; a live one never.
        """
        assert spec.name is not UNSET
        lock = self._locks.setdefault(spec.name, trio.Lock())
        async with lock:
            former = self._by_name().get(spec.name)
            if former is not None:
                _check_replaceable(former, replace=replace)
            session, _ = await self._sandbox.create(spec)
            if former is not None:
                await former.delete()
            return session

    async def delete(self, name: str) -> None:
        """Remove an ended session; `SessionLive` for any other."""
        session = self.find(name)
        if is_live(session):
            raise SessionLive(f"session {name} is live: kill it first")
        await session.delete()

    def _by_name(self) -> dict[str, Session]:
        found: dict[str, Session] = {}
        for session in self._sandbox.sessions():  # oldest first
            name = session.record.spec.name
            if name is UNSET or not is_name(name) or session.removing:
                continue
            if name not in found or is_live(session) or not is_live(found[name]):
                found[name] = session
        return found


def is_live(session: Session) -> bool:
    """Has it not come to its end?"""
    return not status_of(session.record, attached=False).terminal


def _check_replaceable(session: Session, *, replace: bool) -> None:
    name = session.record.spec.name
    if is_live(session):
        raise SessionExists(f"name: session {name} is live: kill it first")
    if not replace:
        raise SessionExists(f"name: session {name} has ended: set replace to replace it")
