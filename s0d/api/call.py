"""One request on its way to a handler: path, query, headers and body, resolved and checked.

Handlers get a `Call` and return the value of the answer, or raise an `S0dError`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from s0d.model.errors import InvalidRequest, SandboxNotFound, SessionNotFound
from s0d.model.ids import is_sandbox_id, is_session_id
from s0d.wire.named import is_name

from .auth import Principal, Verb
from .config import ApiConfig
from .params import AFTER, IDEMPOTENCY_KEY, LAST_EVENT_ID, MAX_KEY, Number, Param, Text
from .streams import Streams
from .watch import Watch

if TYPE_CHECKING:
    from s0d.supervisor import Sandbox, Session, Supervisor


class Reply(NamedTuple):
    """An answer whose status is not its route's own."""

    value: Any
    status: int


class Query(Protocol):
    """The query's parameters; of one given twice the first counts."""

    def get(self, name: str, /) -> str | None: ...
    def getlist(self, name: str, /) -> list[str]: ...


@dataclass
class Call:
    """What a handler needs; `body` is already decoded and checked.

    `problem` says that the call came by the named sessions' surface.
    """

    supervisor: Supervisor
    config: ApiConfig
    streams: Streams
    query: Query
    headers: Mapping[str, str]
    watch: Watch
    problem: bool = False
    sandbox_id: str | None = None
    session_id: str | None = None
    session_name: str | None = None
    token_name: str | None = None
    params: tuple[Param, ...] = ()
    body: Any = None
    principal: Principal | None = field(default=None, init=False)

    @cached_property
    def sandbox(self) -> Sandbox:
        """The sandbox of the path, or the default one; `SandboxNotFound`."""
        if self.sandbox_id is None:
            return self.supervisor.default
        if not is_sandbox_id(self.sandbox_id):
            raise SandboxNotFound("no such sandbox")
        return self.supervisor.sandbox(self.sandbox_id)

    @cached_property
    def session(self) -> Session:
        """The session of the path, by id or by name; `SessionNotFound`."""
        if self.session_name is not None:
            return self.named
        if self.session_id is None or not is_session_id(self.session_id):
            raise SessionNotFound("no such session")
        return self.sandbox.session(self.session_id)

    @property
    def name(self) -> str:
        """The session's name in the path; `SessionNotFound` where it has not the form of one."""
        if self.session_name is None or not is_name(self.session_name):
            raise SessionNotFound("no such session")
        return self.session_name

    @cached_property
    def named(self) -> Session:
        """The session of that name; `SessionNotFound`."""
        return self.sandbox.named.find(self.name)

    def authorize(self, principal: Principal, verb: Verb, *, of_sandbox: bool = True) -> None:
        """Raise `Forbidden`, or `SandboxNotFound` where there is nothing to be allowed.

        To the named sessions' surface what a token does not cover does not exist.
        """
        self.principal = principal
        if not of_sandbox:
            principal.check(verb, None)
            return
        asked = self.sandbox_id
        if asked is not None and not is_sandbox_id(asked):
            raise SandboxNotFound("no such sandbox")
        if asked is None and principal.sandboxes is not None:
            asked = self.supervisor.default.id
        if self.problem and asked is not None and not principal.covers(asked):
            raise SandboxNotFound("no such sandbox")
        # Before it is looked up: whether a foreign sandbox exists is not told either.
        principal.check(verb, asked)
        if asked is not None:
            _ = self.sandbox  # one that is not there is said before an upgrade

    def may(self, verb: Verb) -> bool:
        """Whether the caller may do more than its route asks for."""
        return self.principal is None or verb <= self.principal.highest

    def visible_sandboxes(self) -> list[Sandbox]:
        """The sandboxes that the caller may know of."""
        covered = None if self.principal is None else self.principal.sandboxes
        every = self.supervisor.sandboxes.values()
        return [one for one in every if covered is None or one.id in covered]

    def refusal(self) -> str | None:
        """Why requests are refused at the moment."""
        return refusal(self.supervisor, self.streams)

    def number(self, param: Number) -> int | None:
        return param.parse(self._given(param))

    def text(self, param: Text) -> str | None:
        return param.parse(self._given(param))

    def texts(self, param: Text) -> frozenset[str]:
        """The words of one that may be given several times."""
        self._check_declared(param)
        return frozenset(t for text in self.query.getlist(param.name) for t in text.split(",") if t)

    def _given(self, param: Param) -> str | None:
        self._check_declared(param)
        return (self.headers if param.header else self.query).get(param.name)

    def _check_declared(self, param: Param) -> None:
        """What the table of routes does not name is not documented, and so cannot be used."""
        if param not in self.params:
            raise LookupError(f"{param.name} is not a parameter of this route")

    @property
    def after(self) -> int | None:
        """The cursor a client asks for; `Last-Event-ID` wins over `after`."""
        last = self.number(LAST_EVENT_ID)
        return self.number(AFTER) if last is None else last

    @property
    def idempotency_key(self) -> str | None:
        key = self._given(IDEMPOTENCY_KEY)
        if key is None:
            return None
        if not 0 < len(key.strip()) <= MAX_KEY:
            raise InvalidRequest(f"Idempotency-Key: must have 1 to {MAX_KEY} characters")
        return key.strip()


def refusal(supervisor: Supervisor, streams: Streams) -> str | None:
    if streams.stopped or supervisor.stopping.is_set():
        return "s0d is shutting down"
    return None
