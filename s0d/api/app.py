"""The application, made from the route table.

Quart routes, and carries requests and answers; what is decided on the head alone has been decided
in `gate` before it sees anything.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import trio
from quart import Response, request, websocket
from werkzeug.exceptions import HTTPException
from werkzeug.exceptions import MethodNotAllowed as WerkzeugMethodNotAllowed
from werkzeug.exceptions import RequestEntityTooLarge as WerkzeugTooLarge
from werkzeug.exceptions import RequestTimeout as WerkzeugTimeout
from werkzeug.routing.exceptions import WebsocketMismatch

from s0d.journal.errors import JournalError
from s0d.model.errors import InvalidRequest, S0dError, Unavailable
from s0d.wire.envelope import success, to_json

from .auth import Authenticator
from .bodies import Budget, request_class
from .call import Call, Reply, refusal
from .config import ApiConfig
from .errors import (
    InternalError,
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedMediaType,
    answer_of,
    status_of,
)
from .failures import Failures
from .gate import Gate
from .mcp import PATH as MCP
from .mcp import McpEndpoint
from .origin import Edge
from .page import EventPage
from .route import Body, Kind, Route
from .routes import routes
from .streams import Streams
from .watch import Watch
from .workarounds import Application

if TYPE_CHECKING:
    from s0d.supervisor import Supervisor

log = logging.getLogger(__name__)

_LOOK: Final = 0.5


class Api:
    """The ASGI application; `streams.stop()` ends its streams and refuses new requests."""

    def __init__(self, supervisor: Supervisor, config: ApiConfig) -> None:
        self.streams = Streams()
        self.watch = Watch(access_log=config.access_log)
        budget = Budget(config.max_bodies)
        app = _application(supervisor, config, self.streams, budget, self.watch)
        self._app = self.watch.observed(app)
        self._mcp = McpEndpoint(self._app, config, budget)
        self._gate = Gate(
            self._route,
            Edge(config.own_hosts, config.origins),
            Authenticator(
                config.tokens,
                config.uids,
                config.insecure_without_token,
                config.own_processes,
                Failures(config.max_failures),
            ),
            config.max_body,
            lambda: refusal(supervisor, self.streams),
            self.watch,
            config.max_header,
        )

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self._gate(scope, receive, send)

    async def end_revoked(self) -> None:
        """Cut, within half a second, streams whose token was revoked or has expired.

        Asleep while there are none: nothing ticks in a daemon at rest.
        """
        while True:
            await self._gate.wait_revocable()
            await trio.sleep(_LOOK)
            self._gate.end_revoked()

    async def _route(self, scope: Any, receive: Any, send: Any) -> None:
        """All that is not one of our routes is ASGI of its own."""
        is_mcp = scope["type"] == "http" and scope["path"] == scope.get("root_path", "") + MCP
        await (self._mcp if is_mcp else self._app)(scope, receive, send)


def make_app(supervisor: Supervisor, config: ApiConfig) -> Api:
    """The API as an ASGI application on Trio, to be served or mounted.

    Where it is not `serve_api` that serves it, the server owes it caps on connections and a time
    limit for heads.  A server that knows a Unix socket's peer puts an `auth.Peer` into
    `scope["state"]["peer"]`.  Call `streams.stop()` before shutting down.
    """
    return Api(supervisor, config)


def _application(
    supervisor: Supervisor, config: ApiConfig, streams: Streams, budget: Budget, watch: Watch
) -> Application:
    app = Application("s0d", static_folder=None)
    app.url_map.strict_slashes = True
    app.url_map.merge_slashes = False
    app.config["PROVIDE_AUTOMATIC_OPTIONS"] = False
    app.config["RESPONSE_TIMEOUT"] = None  # it would cut streams and slow readers
    app.config["BODY_TIMEOUT"] = config.body_timeout
    app.config["MAX_CONTENT_LENGTH"] = config.max_body
    app.request_class = request_class(budget)
    for route in routes():
        endpoint = f"{route.method} {route.path}"
        view = _view(route, supervisor, config, streams, watch)
        if route.kind is Kind.WEBSOCKET:
            app.add_websocket(route.path, endpoint, view)
        else:
            app.add_url_rule(route.path, endpoint, view, methods=[route.method])
    app.register_error_handler(Exception, _answer_error)
    return app


def _view(
    route: Route, supervisor: Supervisor, config: ApiConfig, streams: Streams, watch: Watch
) -> Any:
    def call(asked: Any, path: dict[str, str]) -> Call:
        state = asked.scope["state"]
        problem = state["problem"]
        state["route"], state["about"] = route, path
        made = Call(
            supervisor,
            config,
            streams,
            asked.args,
            asked.headers,
            watch,
            problem,
            params=route.params,
            **path,
        )
        if route.verb is not None:
            principal = state["principal"]
            made.authorize(principal, route.verb, of_sandbox=route.of_sandbox)
        return made

    async def serve_http(**path: str) -> Response:
        asked: Any = request._get_current_object()  # type: ignore[attr-defined]
        if asked.method == "HEAD" and route.kind is Kind.EVENT_STREAM:
            raise MethodNotAllowed(["GET"])  # it would never end
        made = call(asked, path)
        if route.body is not None:
            made.body = await _read_body(asked, route.body)
        value = await route.handler(made)
        return value if isinstance(value, Response) else _answer(value, route)

    async def serve_websocket(**path: str) -> None:
        asked: Any = websocket._get_current_object()  # type: ignore[attr-defined]
        await route.handler(call(asked, path), asked)

    return serve_websocket if route.kind is Kind.WEBSOCKET else serve_http


async def _read_body(asked: Any, body: Body) -> Any:
    """The decoded body; its type is looked at first unless it may be absent altogether."""
    if body.absent is None:
        _check_json(asked)
    data = await asked.get_data(as_text=False)
    if body.absent is not None:
        if not data:
            return body.absent()
        _check_json(asked)
    value = body.decode(data)
    check = getattr(value, "check", None)
    if check is not None:
        check()
    return value


def _check_json(asked: Any) -> None:
    if asked.mimetype not in ("", "application/json"):
        raise UnsupportedMediaType("the body must be application/json")


def _answer(value: Any, route: Route) -> Response:
    status = route.status
    if isinstance(value, Reply):
        value, status = value
    if route.kind is Kind.EMPTY:
        return _empty(status)
    if route.kind is Kind.PLAIN:
        return Response(to_json(value), status, content_type="application/json")
    body = value.answer() if isinstance(value, EventPage) else success(value)
    return Response(body, status, content_type="application/json")


def _empty(status: int) -> Response:
    """No content, and so no length and no type of it (RFC 9110, section 8.6)."""
    response = Response(b"", status)
    del response.headers["content-type"]
    del response.headers["content-length"]
    return response


async def _answer_error(error: Exception) -> Response:
    """The answer to whatever was raised; only a bug is logged."""
    known = _known(error)
    asked = request or websocket
    if known is None:
        log.error("internal error (request %s)", asked.scope["state"]["request_id"], exc_info=error)
        known = InternalError("internal error: the log has more under this request's id")
    body, headers = answer_of(known, problem=asked.scope["state"]["problem"])
    return Response(body, status_of(known), headers=headers)


def _known(error: Exception) -> S0dError | None:
    if isinstance(error, S0dError):
        return error if error.code != "internal_error" else None
    if isinstance(error, JournalError):
        return Unavailable(f"the journal cannot be used: {error}")
    return _of_framework(error) if isinstance(error, HTTPException) else None


def _of_framework(error: HTTPException) -> S0dError | None:
    """What Quart and Werkzeug raise, in our words."""
    if isinstance(error, WerkzeugMethodNotAllowed):
        return MethodNotAllowed(set(error.valid_methods or ()) - {"OPTIONS"})
    if isinstance(error, WerkzeugTooLarge):
        return RequestTooLarge("the body is too large")
    if isinstance(error, WerkzeugTimeout):
        return RequestTimeout("the body did not arrive in time")
    if isinstance(error, WebsocketMismatch):
        return InvalidRequest("this path takes a WebSocket, or does not take one")
    if error.code == 404:
        return NotFound("there is no such path")
    return InvalidRequest("the request is malformed") if error.code == 400 else None
