"""The ASGI layer in front of the application: everything that is decided on the head alone.

In this order: the form of the path, Host, Origin, who is calling, is the daemon up.  A refusal is
answered here, before an upgrade, and without having asked for a byte of the body.  The request id
is put on every answer that passes.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import trio

from s0d.model.errors import InvalidRequest, S0dError, Unavailable
from s0d.supervisor.change import Change
from s0d.wire.problem import PREFIX, expects_problem

from .auth import Authenticator, Peer, Principal
from .errors import NotFound, RequestTooLarge, answer_of, status_of
from .failures import network_of
from .origin import Edge
from .watch import Watch

ALIVE: Final = "/healthz"  # answered whatever the state
READY: Final = "/readyz"
PUBLIC: Final = frozenset({ALIVE, READY, "/metadata"})
NAMED: Final = PREFIX  # below it errors are problem details

_PLAIN = re.compile(r"/[A-Za-z0-9._~/-]*\Z")
_REQUEST_ID = re.compile(rb"[\x21-\x7e]{1,128}\Z")

_POLICY: Final = 1008  # RFC 6455, section 7.4.1

Send = Callable[[Any], Awaitable[None]]


class Gate:
    """Wraps `app`; `refusal` says why requests are refused at the moment, or None."""

    def __init__(
        self,
        app: Any,
        edge: Edge,
        authenticator: Authenticator,
        max_body: int,
        refusal: Callable[[], str | None],
        watch: Watch | None = None,
        max_header: int = 16 << 10,
    ) -> None:
        self._app = app
        self._edge = edge
        self._authenticator = authenticator
        self._max_body = max_body
        self._max_header = max_header
        self._refusal = refusal
        self._watch = Watch() if watch is None else watch
        self._revocable: dict[trio.CancelScope, Principal] = {}
        self._admitted = Change()

    async def __call__(self, scope: Any, receive: Any, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        state = scope.setdefault("state", {})
        state["request_id"] = request_id = _request_id(_header(scope, b"x-request-id"))
        state["problem"] = expects_problem(_raw_target(scope), scope.get("root_path", ""))
        send = _with_request_id(send, request_id.encode())
        try:
            path = self._check(scope)
        except S0dError as error:
            self._watch.refused(scope, error)
            await refuse(scope, receive, send, error)
        else:
            await self._admit({**scope, "path": path}, receive, send)

    async def _admit(self, scope: Any, receive: Any, send: Send) -> None:
        """Hand it on; what a token opened ends with the token."""
        principal: Principal | None = scope["state"].get("principal")
        if principal is None or principal.token is None:
            await self._app(scope, receive, send)
            return
        with trio.CancelScope() as until_revoked:
            self._revocable[until_revoked] = principal
            self._admitted.notify()
            try:
                await self._app(scope, receive, send)
            finally:
                del self._revocable[until_revoked]
        if until_revoked.cancelled_caught:
            await _end(scope, send)

    async def wait_revocable(self) -> None:
        """Wait until something goes on in the name of a token that can be revoked."""
        await self._admitted.wait_for(lambda: bool(self._revocable))

    def end_revoked(self) -> None:
        """Cut what is still going on in the name of tokens that hold no more."""
        for scope, principal in list(self._revocable.items()):
            if not self._authenticator.tokens.holds(principal):
                scope.cancel()

    def _check(self, scope: Any) -> str:
        """The plain path to route by; raises what the request is refused with."""
        self._check_head(scope)
        authority, path = _target(scope)
        host = authority or _header(scope, b"host")
        server = scope.get("server")
        peer = scope["state"].get("peer")
        if peer is None:  # a browser cannot reach a Unix socket
            self._edge.check_host(host, server[0] if server else None)
        self._edge.check_origin(_header(scope, b"origin"), host, _header(scope, b"sec-fetch-site"))
        if path not in PUBLIC:
            authorization = _header(scope, b"authorization")
            scope["state"]["principal"] = self._authenticator.identify(
                authorization,
                peer,
                source=_source(scope, peer),
                request_id=scope["state"]["request_id"],
            )
            if (reason := self._refusal()) is not None:
                raise Unavailable(reason)
        self._check_length(scope)
        return path

    def _check_head(self, scope: Any) -> None:
        """The server bounds a head that arrives in pieces; one that comes in one is as large."""
        size = len(scope.get("raw_path") or b"") + len(scope.get("query_string") or b"")
        if (
            size + sum([len(name) + len(value) for name, value in scope["headers"]])
            > self._max_header
        ):
            raise RequestTooLarge(f"target and headers have at most {self._max_header} bytes")

    def _check_length(self, scope: Any) -> None:
        """A body that says it is too large is not asked for; chunked ones are counted later."""
        length = _header(scope, b"content-length")
        if length is not None and length.isdigit() and int(length) > self._max_body:
            raise RequestTooLarge(f"a body has at most {self._max_body} bytes")


async def refuse(scope: Any, receive: Any, send: Send, error: S0dError) -> None:
    """Answer `error` on bare ASGI, in place of a response or of a WebSocket's upgrade."""
    body, headers = answer_of(error, problem=scope["state"]["problem"])
    headers["content-length"] = str(len(body))
    kind = "http.response"
    if scope["type"] == "websocket":
        await receive()  # websocket.connect
        kind = "websocket.http.response"
    await send(
        {
            "type": f"{kind}.start",
            "status": status_of(error),
            "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        }
    )
    await send({"type": f"{kind}.body", "body": body, "more_body": False})


async def _end(scope: Any, send: Send) -> None:
    """Say goodbye to a WebSocket; an HTTP answer that was cut off simply stops."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": _POLICY, "reason": "token revoked"})


def _source(scope: Any, peer: Peer | None) -> Hashable:
    """By what wrong tokens are counted: a user of this machine, an address, an IPv6 network."""
    if peer is not None:
        return f"uid:{peer.uid}"
    client = scope.get("client")
    return None if not client else network_of(client[0])


def _raw_target(scope: Any) -> str:
    return str((scope.get("raw_path") or scope["path"].encode()).decode("latin-1"))


def _target(scope: Any) -> tuple[bytes | None, str]:
    """Authority (of a target in absolute form) and decoded path.

    Every path that is served consists of unreserved characters.  A percent-encoded slash, a
    doubled one (the router would overlook it) or anything else that decoding brings in cannot
    mean one of them: not found, before anything compares or splits it.
    """
    raw = _raw_target(scope)
    authority = None
    if not raw.startswith("/"):
        authority, raw = _absolute(raw)
    raw = raw.partition("?")[0].removeprefix(scope.get("root_path", ""))
    path = unquote(raw)
    if path.count("/") != raw.count("/") or "//" in path or not _PLAIN.match(path):
        raise NotFound("there is no such path")
    return authority, scope.get("root_path", "") + path


def _absolute(target: str) -> tuple[bytes, str]:
    """A target as a proxy would get it (RFC 9112, section 3.2.2)."""
    try:
        parts = urlsplit(target)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme.lower() not in ("http", "https", "ws", "wss") or not parts.netloc:
        raise InvalidRequest("the request target must be a path")
    return parts.netloc.encode("latin-1"), parts.path or "/"


def _header(scope: Any, name: bytes) -> bytes | None:
    for key, value in scope["headers"]:
        if key.lower() == name:
            return bytes(value)
    return None


def _request_id(given: bytes | None) -> str:
    """The caller's own where it is short and printable ASCII, else a new one."""
    if given is not None and _REQUEST_ID.match(given):
        return given.decode("ascii")
    return uuid.uuid4().hex


_STARTS = frozenset({"http.response.start", "websocket.http.response.start", "websocket.accept"})


def _with_request_id(send: Send, request_id: bytes) -> Send:
    async def sending(message: Any) -> None:
        if message["type"] in _STARTS:
            headers = [*message.get("headers", ()), (b"x-request-id", request_id)]
            message = {**message, "headers": headers}
        await send(message)

    return sending
