"""`/mcp`: the tools of `s0d.mcp` over streamable HTTP (wire contract, section 5).

It stands behind the gate like every route, so Host, Origin and token have been checked.  What a
tool then asks of the daemon goes through the application as any request does, with the principal
that the gate found: the routes decide what a token may do.

The `mcp` package is an extra and large: it is imported at the first request, in a thread.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import trio

from s0d.model.errors import LimitExceeded, S0dError

from .bodies import Budget
from .config import ApiConfig
from .errors import (
    MethodNotAllowed,
    NotFound,
    RequestTimeout,
    RequestTooLarge,
    UnsupportedMediaType,
)
from .gate import NAMED, refuse

if TYPE_CHECKING:
    from s0d.mcp.calls import Calls

PATH: Final = "/mcp"
_ABSENT: Final = "MCP is not installed here: pip install 's0d[mcp]' and restart the daemon"


class McpEndpoint:
    """The ASGI application of `/mcp`; `app` is the one with all the routes."""

    def __init__(self, app: Any, config: ApiConfig, budget: Budget) -> None:
        self._app = app
        self._config = config
        self._budget = budget
        self._importing = trio.Lock()
        self._server: Any = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = _Body(self._budget, self._config.max_body)
        try:
            server = await self._checked(scope)
            with trio.move_on_after(self._config.body_timeout) as reading:
                whole = await body.read(receive)
            if reading.cancelled_caught:
                raise RequestTimeout("the body did not arrive in time")
            if whole:
                await self._answer(server, scope, body, receive, send)
        except S0dError as error:
            await refuse(scope, receive, send, error)
        finally:
            body.release()

    async def _checked(self, scope: Any) -> Any:
        """The server of the tools; raises what the request is refused with."""
        if scope["method"] != "POST":  # a GET would wait for news, and there never are any
            raise MethodNotAllowed(["POST"])
        headers = {name.lower(): value for name, value in scope["headers"]}
        if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
            raise UnsupportedMediaType("the body must be application/json")
        async with self._importing:
            if self._server is None:
                self._server = await trio.to_thread.run_sync(_make_server, self._app)
        return self._server

    async def _answer(self, server: Any, scope: Any, body: _Body, receive: Any, send: Any) -> None:
        """Serve it, until it is answered or the client has left: its tools then end, too."""
        from s0d.mcp.transports import serve_http

        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while (await receive())["type"] != "http.disconnect":
                    pass
                nursery.cancel_scope.cancel()

            nursery.start_soon(watch)
            await serve_http(server, scope, body.replay, send, max_body=self._config.max_body)
            nursery.cancel_scope.cancel()


def _make_server(app: Any) -> Any:
    try:
        transports = import_module("s0d.mcp.transports")
    except ImportError as error:
        if error.name is None or error.name.partition(".")[0] == "s0d":
            raise
        raise NotFound(_ABSENT) from None

    def calls_of(request: Any) -> Calls:
        from s0d.mcp.calls import Calls

        return Calls(_InProcess(app, request.scope))

    return transports.make_server(calls_of)


class _Body:
    """A request's body, read whole before it is handed on."""

    def __init__(self, budget: Budget, most: int) -> None:
        self._budget = budget
        self._most = most
        self._data = bytearray()
        self._handed_on = False

    async def read(self, receive: Any) -> bool:
        """False where the client left before its end."""
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            self._take(message.get("body", b""))
            more = message.get("more_body", False)
        return True

    def _take(self, data: bytes) -> None:
        if len(self._data) + len(data) > self._most:
            raise RequestTooLarge(f"a body has at most {self._most} bytes")
        if len(data) > self._budget.left:
            raise LimitExceeded("too many request bodies at once: try again later")
        self._budget.left -= len(data)
        self._data += data

    async def replay(self) -> Any:
        """ASGI's `receive` for whoever gets the body."""
        if self._handed_on:
            await trio.sleep_forever()  # `McpEndpoint` watches for the client's leaving
        self._handed_on = True
        return {"type": "http.request", "body": bytes(self._data), "more_body": False}

    def release(self) -> None:
        self._budget.left += len(self._data)
        self._data.clear()


class _InProcess:
    """`s0d.mcp.calls.Daemon`: the application itself, asked in the name of a request's caller."""

    def __init__(self, app: Any, scope: Any) -> None:
        self._app = app
        self._scope = scope

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        sent = False
        answered = trio.Event()
        status, data = 500, bytearray()

        async def receive() -> Any:
            nonlocal sent
            if sent:
                await answered.wait()
                return {"type": "http.disconnect"}
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            elif message["type"] == "http.response.body":
                data.extend(message.get("body", b""))
                if not message.get("more_body", False):
                    answered.set()

        await self._app(self._inner(method, path, body), receive, send)
        return status, bytes(data)

    def _inner(self, method: str, path: str, body: bytes) -> Any:
        target, _, query = path.partition("?")
        headers = [(b"host", b"localhost"), (b"content-length", b"%d" % len(body))]
        if body:
            headers.append((b"content-type", b"application/json"))
        return {
            "type": "http",
            "asgi": self._scope.get("asgi", {"version": "3.0"}),
            "http_version": "1.1",
            "method": method,
            "scheme": self._scope.get("scheme", "http"),
            "path": target,
            "raw_path": target.encode(),
            "query_string": query.encode(),
            "root_path": "",
            "headers": headers,
            "client": self._scope.get("client"),
            "server": self._scope.get("server"),
            "extensions": {},
            "state": {**self._scope["state"], "problem": target.startswith(NAMED)},
        }
