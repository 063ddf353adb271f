"""The daemon as the tools see it: requests of both public surfaces, answers decoded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast
from urllib.parse import urlencode

import msgspec

from s0d.model.ids import is_sandbox_id, is_session_id
from s0d.model.session import Phase
from s0d.wire.named import Status, is_name, status_from

from .errors import ToolError, invalid

Json = dict[str, Any]


class Daemon(Protocol):
    """A way to the daemon."""

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        """Send one request (`path` with its query, `body` JSON or empty); status and body.

        Where no answer came it is one made up for it, an envelope with the code `unreachable`.
        """
        ...


@dataclass(frozen=True)
class Calls:
    """Requests as the tools need them.

    `sandbox_id` and `path` stand in for arguments that were left out; None: the daemon's own.
    """

    daemon: Daemon
    sandbox_id: str | None = None
    path: str | None = None

    async def named(self, sandbox_id: str | None, method: str, path: str, body: Any = None) -> Json:
        """A request of the named sessions' surface, `path` being below the sandbox."""
        sandbox = sandbox_id or self.sandbox_id or await self._default()
        return await self._ask(method, f"/v1/sandbox/{_sandbox(sandbox)}{path}", body)

    async def of_session(self, session: Session, method: str, path: str, body: Any = None) -> Json:
        """A request about one supervised session; what stands in its envelope."""
        return cast(Json, (await self._ask(method, session.path + path, body))["data"])

    async def find(self, sandbox_id: str | None, name: str) -> Session:
        """The session that a name stands for: the newest live bearer, else the newest.

        An id does as well, for sessions that have no such name.
        """
        sandbox = sandbox_id or self.sandbox_id
        prefix = f"/api/v1/sandboxes/{_sandbox(sandbox)}" if sandbox else "/api/v1"
        answer = await self._ask("GET", f"{prefix}/sessions?name={checked_name(name)}")
        found: Json | None = None
        for view in answer["data"]["sessions"]:  # oldest first
            if found is None or not _status(view).terminal or _status(found).terminal:
                found = view
        if found is None and is_session_id(name):
            found = (await self._ask("GET", f"{prefix}/sessions/{name}"))["data"]
        if found is None:
            raise _not_found(name)
        return Session(f"{prefix}/sessions/{found['id']}", found)

    async def _default(self) -> str:
        return str((await self._ask("GET", "/api/v1/status"))["data"]["sandbox_id"])

    async def _ask(self, method: str, path: str, body: Any = None) -> Json:
        try:
            data = b"" if body is None else msgspec.json.encode(body)
        except UnicodeEncodeError:
            raise invalid("the arguments must be valid Unicode") from None
        status, answer = await self.daemon.ask(method, path, data)
        if status >= 300:
            raise _failure(status, answer)
        return cast(Json, msgspec.json.decode(answer))


@dataclass(frozen=True)
class Session:
    """A session that was looked up: where its requests go, and how it was then."""

    path: str
    view: Json

    @property
    def latest(self) -> int:
        """The newest event when it was looked up."""
        return int(self.view["cursor"]["latest"])

    @property
    def ended(self) -> bool:
        return _status(self.view).terminal

    def state(self) -> Json:
        """In a few words: the status, as in a list of sessions, and how it ended."""
        attempt: Mapping[str, Any] = self.view.get("attempt") or {}
        names = ("exit_code", "signal", "message") if self.ended else ()
        return {"status": _status(self.view), **{n: attempt[n] for n in names if n in attempt}}


def _status(view: Json) -> Status:
    """What the named surface calls it, so that a model has one vocabulary."""
    reason = (view.get("attempt") or {}).get("reason")
    return status_from(Phase(view["phase"]), reason, attached=bool(view.get("attachments")))


def query(**parameters: int | str | None) -> str:
    """`?a=1&b=2` of what is given."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def checked_name(name: str) -> str:
    """A name that can stand in a path."""
    if not is_name(name) and not is_session_id(name):
        raise _not_found(name)
    return name


def _not_found(name: str) -> ToolError:
    return ToolError("session_not_found", f"there is no session named {name[:100]!r}")


def _sandbox(sandbox_id: str) -> str:
    if not is_sandbox_id(sandbox_id):
        raise ToolError("sandbox_not_found", "no such sandbox")
    return sandbox_id


def _failure(status: int, answer: bytes) -> ToolError:
    """Of an envelope or of problem details; anything else did not come from s0d."""
    try:
        sent = msgspec.json.decode(answer)
        error = sent.get("error", sent)
        message = error["message"] if "message" in error else error["detail"]
        return ToolError(str(error["code"]), str(message), error.get("details"))
    except (msgspec.DecodeError, KeyError, TypeError, AttributeError):
        return ToolError("internal_error", f"the answer was HTTP {status}, not one of s0d's")
