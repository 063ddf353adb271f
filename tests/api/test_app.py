"""The application without `serve_api`: what an embedder mounts under a server of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack
from functools import partial

import trio
from hypercorn.config import Config
from hypercorn.trio import serve

from s0d.api.app import make_app
from s0d.api.auth import StaticTokens
from s0d.api.config import ApiConfig, TcpAddress
from tests.api.fake import FakeSupervisor
from tests.api.harness import AUTH, TOKEN, Served, request


async def test_app_runs_under_a_plain_server(supervisor: FakeSupervisor) -> None:
    """No peer, no frames extension, a lifespan; events are sent message by message."""
    session = supervisor.default.add()
    app = make_app(supervisor, ApiConfig(tokens=StaticTokens.one(TOKEN)))  # type: ignore[arg-type]
    config = Config()
    config.bind = ["127.0.0.1:0"]
    config.errorlog = None
    shutdown = trio.Event()
    async with trio.open_nursery() as nursery, AsyncExitStack() as stack:
        start = partial(serve, app, config, shutdown_trigger=shutdown.wait)  # type: ignore[arg-type]
        [url] = await nursery.start(start)
        served = Served(
            TcpAddress("127.0.0.1", int(url.rpartition(":")[2])), "", shutdown, shutdown
        )
        stack.callback(lambda: [stream.socket.close() for stream in served.streams])

        assert (await served.ask("GET", "/api/v1/sessions", {})).status == 401
        assert len((await served.ask("GET", "/api/v1/sessions")).data["sessions"]) == 1
        session.append(data=b"x")
        session.append(data=b"y")
        socket = await served.websocket(f"/api/v1/sessions/{session.id}/ws")
        assert [(await socket.receive())["event"]["seq"] for _ in range(2)] == [1, 2]
        wire = await served.connect()
        await wire.send(request("GET", f"/api/v1/sessions/{session.id}/events/stream", AUTH))
        await wire.head()
        await wire.until(b"id: 2\n")

        app.streams.stop()
        assert (await socket.receive()).code == 1001
        await wire.rest()
        assert (await served.ask("GET", "/api/v1/sessions")).status == 503
        shutdown.set()
