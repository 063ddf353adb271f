"""A route as data."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from .auth import Verb
from .params import Param


class Kind(enum.Enum):
    """How a route answers."""

    JSON = enum.auto()
    EVENT_STREAM = enum.auto()
    WEBSOCKET = enum.auto()
    DOCUMENT = enum.auto()
    """Not in the envelope: a format of its own, which the handler names."""
    PLAIN = enum.auto()
    """JSON without the envelope."""
    EMPTY = enum.auto()
    """Nothing but the status."""


@dataclass(frozen=True)
class Body:
    """What a request carries: its type, how it is decoded, what stands for none at all."""

    type: Any
    decode: Callable[[bytes], Any]
    absent: Callable[[], Any] | None = None


@dataclass(frozen=True)
class Route:
    """One method of one path.  `answer` is the type of `data` in the envelope, or of all of it.
    `of_sandbox`: it is about one sandbox, the default one where its path names none.  `params` are
    what it takes beside path and body, `others` further statuses of success, `media` the types of
    what it answers with beside JSON.

    A handler gets a `Call` (and a WebSocket, for one).  `verb` None means that no token is needed.
    """

    method: str
    path: str
    handler: Callable[..., Awaitable[Any]]
    answer: type | None
    verb: Verb | None = Verb.CONTROL
    body: Body | None = None
    status: int = 200
    kind: Kind = Kind.JSON
    of_sandbox: bool = True
    params: tuple[Param, ...] = ()
    others: tuple[int, ...] = ()
    media: tuple[str, ...] = ()

    @property
    def success(self) -> int:
        """The status of what was asked for."""
        return 101 if self.kind is Kind.WEBSOCKET else self.status

    @property
    def types(self) -> tuple[str, ...]:
        """The media types of what it answers with, beside JSON."""
        return ("text/event-stream",) if self.kind is Kind.EVENT_STREAM else self.media
