"""The two ways in: standard streams, and one HTTP request (streamable HTTP).

HTTP is served without sessions of the protocol and with JSON answers, not event streams: nothing
is pushed here by the server, so a request and its answer are all there is, nothing is kept between
two requests, and a restart of the daemon ends no client.
"""

from __future__ import annotations

from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from .calls import Calls
from .server import make_server

__all__ = ["make_server", "serve_http", "serve_stdio"]


async def serve_stdio(calls: Calls) -> None:
    """Serve one client on the process's standard streams, until its end of file."""
    server = make_server(lambda request: calls)
    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


async def serve_http(
    server: Server[Any], scope: Any, receive: Any, send: Any, *, max_body: int
) -> None:
    """Answer one POST.  A manager for each: its tasks then live no longer than the request."""
    manager = StreamableHTTPSessionManager(
        server, json_response=True, stateless=True, max_request_body_size=max_body
    )
    async with manager.run():
        await manager.handle_request(scope, receive, send)
