"""What the clients know for certain, and what may or may not have happened.

Every client notes what it is about to ask (`asked`) and what it was answered (`acked`).  What was
asked and not answered before the daemon died is open: after the next start either is right, but
from then on it has to stay.
"""

from __future__ import annotations

import base64
import random
from dataclasses import dataclass, field
from typing import Any

from tests.support.client import Event


@dataclass
class Input:
    """One input; `attempt` is where it went, as far as its client was told."""

    id: str
    data: bytes
    acked: bool = False
    attempt: str | None = None

    @property
    def body(self) -> dict[str, Any]:
        return {"input_id": self.id, "data_base64": base64.b64encode(self.data).decode()}


@dataclass
class KnownSession:
    """A session whose creation was acknowledged, or that was seen after a start."""

    id: str
    kind: str
    name: str
    spec: dict[str, Any]
    key: str | None
    seen: dict[int, bytes] = field(default_factory=dict)
    latest: int = 0
    inputs: dict[str, Input] = field(default_factory=dict)
    signals: int = 0
    resizes: int = 0
    names: set[str] = field(default_factory=set)  # by an update that was not answered, too
    desired: str | None = "running"  # None: a change was asked for and not answered
    deleting: bool = False
    busy: bool = False

    @property
    def whole(self) -> bool:
        """Is its whole history retained, whatever it writes?"""
        return self.kind != "flood"

    @property
    def recovers(self) -> bool:
        return bool(self.spec["lifecycle"]["runtime_recovery"] == "restart")

    def saw(self, event: Event) -> None:
        """A client was given `event`: it must be the same for all, for ever."""
        known = self.seen.setdefault(event.seq, event.raw)
        assert known == event.raw, f"number {event.seq} twice: {known!r} and {event.raw!r}"
        self.latest = max(self.latest, event.seq)


@dataclass
class Creation:
    """A creation that was asked for."""

    kind: str
    spec: dict[str, Any]
    key: str | None


@dataclass
class Known:
    """All of one state directory."""

    generation: int = 0
    sessions: dict[str, KnownSession] = field(default_factory=dict)
    creating: dict[str, Creation] = field(default_factory=dict)  # by name
    deleted: set[str] = field(default_factory=set)
    freed_keys: dict[str, Creation] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def count(self, what: str, by: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + by

    def created(self, session_id: str, name: str) -> KnownSession:
        creation = self.creating.pop(name)
        assert session_id not in self.deleted, "an id is used once"
        session = KnownSession(session_id, creation.kind, name, creation.spec, creation.key)
        session.names.add(name)
        self.sessions[session_id] = session
        self.count("creates")
        return session

    def gone(self, session: KnownSession) -> None:
        """`session` is deleted: acknowledged, or found out after a start."""
        del self.sessions[session.id]
        self.deleted.add(session.id)
        if session.key is not None:
            self.freed_keys[session.key] = Creation(session.kind, session.spec, session.key)
        self.count("deletes")

    def pick(self, rng: random.Random, *kinds: str) -> KnownSession | None:
        """Some session that nobody is changing."""
        free = [s for s in self.sessions.values() if not s.busy and (not kinds or s.kind in kinds)]
        return rng.choice(free) if free else None
