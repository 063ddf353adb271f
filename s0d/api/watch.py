"""What an operator wants to know of every request: counted, in the access log, in the audit log.

It stands between the gate and the application, so that what a tool of `/mcp` asks for in a
caller's name is seen as any request is; the gate tells it what it refused.

The access log has a line a request, the audit log one a control action (whatever needs more than a
viewer), and one when a WebSocket that controls a session opens.  Neither has a query, a header, a
body or a token: a token goes by its name.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import trio

from s0d.model.errors import LimitExceeded, S0dError
from s0d.model.histogram import Histogram

from .auth import Principal, Verb
from .errors import status_of

access: Final = logging.getLogger("s0d.access")
audit: Final = logging.getLogger("s0d.audit")

# A client may call anything a method: what is counted by it is bounded.
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
UNMATCHED: Final = "(none)"
LEFT: Final = 499  # the client went before its answer began: no status of HTTP, but a usual one


class Watch:
    """Counts of the API: `requests` by route, method and status, `refusals` by code."""

    def __init__(self, *, access_log: bool = True) -> None:
        self._access_log = access_log
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.refusals: Counter[str] = Counter()
        self.seconds = Histogram()
        self.loop_busy = Histogram()
        self.connections_refused = 0
        self.in_flight = 0
        self.waits = 0
        self.connections: Callable[[], int] = lambda: 0

    @contextmanager
    def waiting(self, most: int) -> Iterator[None]:
        """For as long as a request waits for something; `LimitExceeded` where too many do."""
        if self.waits >= most:
            raise LimitExceeded(f"at most {most} requests wait at once: try again later")
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    def refused(self, scope: Any, error: S0dError) -> None:
        """The gate let it go no further."""
        self.refusals[error.code] += 1
        self._done(scope, status_of(error), 0.0)

    def observed(self, app: Any) -> Any:
        """`app`, watched."""

        async def watched(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "lifespan":
                await app(scope, receive, send)
                return
            await self._watch(app, scope, receive, send)

        return watched

    async def _watch(self, app: Any, scope: Any, receive: Any, send: Any) -> None:
        began, status = trio.current_time(), LEFT

        async def noting(message: Any) -> None:
            nonlocal status
            kind = message["type"]
            if kind in ("http.response.start", "websocket.http.response.start"):
                status = message["status"]
            elif kind == "websocket.accept":
                status = 101
                self._audit(scope, 101, None)
            await send(message)

        self.in_flight += 1
        try:
            await app(scope, receive, noting)
        finally:
            self.in_flight -= 1
            self._done(scope, status, trio.current_time() - began)

    def _done(self, scope: Any, status: int, seconds: float) -> None:
        state = scope["state"]
        route = state.get("route")
        path = UNMATCHED if route is None else route.path
        method = scope.get("method", "GET")
        self.requests[path, method if method in _METHODS else "OTHER", status] += 1
        if scope["type"] == "http":
            self.seconds.observe(seconds)
        self._audit(scope, status, seconds)
        if self._access_log and access.isEnabledFor(logging.INFO):
            access.info("request", extra=_fields(scope, status, seconds))

    def _audit(self, scope: Any, status: int, seconds: float | None) -> None:
        route = scope["state"].get("route")
        if route is not None and route.verb is not None and route.verb > Verb.READ:
            fields = _fields(scope, status, seconds)
            audit.info("opened" if seconds is None else "control", extra=fields)


def _fields(scope: Any, status: int, seconds: float | None) -> dict[str, Any]:
    state = scope["state"]
    route, principal = state.get("route"), state.get("principal")
    fields: dict[str, Any] = {
        "principal": principal.name if isinstance(principal, Principal) else "",
        "method": scope.get("method", "GET"),
        "route": UNMATCHED if route is None else route.path,
        "status": status,
        "request_id": state["request_id"],
    }
    if seconds is not None:
        fields["duration_ms"] = round(seconds * 1000, 1)
    fields |= state.get("about", {})
    client = scope.get("client")
    peer = state.get("peer")
    if peer is not None:
        fields["client"] = f"pid:{peer.pid}"
    elif client:
        fields["client"] = client[0]
    return fields
