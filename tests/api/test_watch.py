"""Requests are counted, and told of in two logs without anything that is nobody's business."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from s0d.api.auth import Principal, StaticTokens, Verb
from s0d.api.config import ApiConfig
from s0d.api.errors import NotFound
from s0d.api.watch import Watch
from tests.api.fake import FakeSupervisor
from tests.api.harness import LIMIT, serving

VIEWER, ADMIN = ({"Authorization": f"Bearer {name}"} for name in ("viewer", "admin"))
TOKENS = StaticTokens(
    [("viewer", Principal("token:look", Verb.READ)), ("admin", Principal("token:all"))]
)
HOSTILE = "x\r\nForged: 1\x1b[2J"


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[dict[str, Any]]:
    return [vars(r) | {"text": r.getMessage()} for r in caplog.records if r.name == name]


async def test_a_line_each(
    supervisor: FakeSupervisor, short_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    session = supervisor.default.add()
    one = f"/api/v1/sandboxes/local/sessions/{session.id}"
    async with serving(supervisor, short_dir, tokens=TOKENS) as served:
        await served.ask("GET", f"{one}?name=secret-query", {**VIEWER, "X-Request-Id": "r1"})
        await served.ask("POST", f"{one}/signals", VIEWER, b'{"signal":"TERM"}')
        body = b'{"signal":"TERM"}'
        signalled = {**ADMIN, "Content-Type": "application/json", "X-Request-Id": "r2"}
        assert (await served.ask("POST", f"{one}/signals", signalled, body)).status == 202
        await served.ask("GET", "/api/v1/sessions", {"Authorization": "Bearer wrong-token"})
        await served.ask("GET", "/no/such/path", ADMIN)
        socket = await served.websocket(f"{one}/ws", {**ADMIN, "X-Request-Id": "r3"})
        opened = [line for line in lines(caplog, "s0d.audit") if line["text"] == "opened"]
        assert [line["request_id"] for line in opened] == ["r3"]
        await socket.stream.aclose()
        await session.detached()
    requests = lines(caplog, "s0d.access")
    assert [(r["method"], r["status"], r["principal"]) for r in requests] == [
        ("GET", 200, "token:look"),
        ("POST", 403, "token:look"),
        ("POST", 202, "token:all"),
        ("GET", 401, ""),
        ("GET", 404, "token:all"),
        ("GET", 101, "token:all"),
    ]
    assert requests[0]["route"] == "/api/v1/sandboxes/<sandbox_id>/sessions/<session_id>"
    assert (requests[0]["session_id"], requests[0]["request_id"]) == (session.id, "r1")
    assert requests[0]["client"] == "127.0.0.1"
    assert 0 <= requests[0]["duration_ms"] < LIMIT * 1000
    control = lines(caplog, "s0d.audit")
    assert [(r["text"], r["status"], r["principal"]) for r in control] == [
        ("control", 403, "token:look"),
        ("control", 202, "token:all"),
        ("opened", 101, "token:all"),
        ("control", 101, "token:all"),
    ]
    said = "".join(str(line) for line in [*requests, *control])
    for secret in ("secret-query", "wrong-token", "Bearer"):
        assert secret not in said


async def test_the_access_log_can_be_turned_off(
    supervisor: FakeSupervisor, short_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    assert ApiConfig().access_log
    async with serving(supervisor, short_dir, access_log=False) as served:
        assert (await served.ask("GET", "/api/v1/sessions")).status == 200
    assert lines(caplog, "s0d.access") == []


def test_what_is_counted_is_bounded() -> None:
    """Whatever a client says, also one without a token."""
    watch = Watch(access_log=False)
    for number in range(100):
        scope = {"type": "http", "method": f"M{number}", "path": f"/{number}", "state": {}}
        scope["state"] = {"request_id": str(number)}
        watch.refused(scope, NotFound("no"))
    assert dict(watch.requests) == {("(none)", "OTHER", 404): 100}
    assert dict(watch.refusals) == {"not_found": 100}
