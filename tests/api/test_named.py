"""The edge of the named sessions' surface: what is decided before a handler."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.api.auth import Principal, StaticTokens, Verb
from tests.api.fake import FakeSupervisor
from tests.api.harness import AUTH, JSON, Answer, Served, handshake, request, serving

SESSIONS = "/v1/sandbox/local/sessions"
TEXT = AUTH | {"Content-Type": "text/plain"}


def code(answer: Answer) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["x-request-id"]
    problem = json.loads(answer.body)
    assert set(problem) == {"type", "title", "status", "code", "detail"}
    assert problem["status"] == answer.status
    assert problem["type"].endswith(problem["code"].replace("_", "-"))
    return answer.status, problem["code"]


@pytest.mark.parametrize(
    ("method", "target", "headers", "body", "expected"),
    [
        ("GET", SESSIONS, {}, b"", (401, "unauthorized")),
        ("GET", SESSIONS, {"Authorization": "Bearer x"}, b"", (401, "unauthorized")),
        ("GET", SESSIONS, AUTH | {"Host": "evil.example"}, b"", (421, "misdirected_request")),
        ("GET", SESSIONS, AUTH | {"Origin": "http://evil.example"}, b"", (403, "forbidden")),
        ("GET", "/v1/nothing", AUTH, b"", (404, "not_found")),
        ("GET", "/v1/sandbox/lo%2Fcal/sessions", AUTH, b"", (404, "not_found")),
        ("GET", "/v1/sandbox/Local/sessions", AUTH, b"", (404, "sandbox_not_found")),
        ("GET", "/v1/sandbox/none/sessions", AUTH, b"", (404, "sandbox_not_found")),
        ("PATCH", SESSIONS, AUTH, b"", (405, "method_not_allowed")),
        ("POST", SESSIONS, TEXT, b"x", (415, "unsupported_media_type")),
        ("POST", SESSIONS, JSON, b"{", (400, "validation_failed")),
        ("POST", SESSIONS, JSON, b"x" * 2000, (413, "request_too_large")),
        ("POST", "/v1/sandbox/local/exec", JSON, b'{"cmd": []}', (400, "validation_failed")),
    ],
)
async def test_every_error_is_a_problem(
    supervisor: FakeSupervisor,
    short_dir: Path,
    method: str,
    target: str,
    headers: dict[str, str],
    body: bytes,
    expected: tuple[int, str],
) -> None:
    async with serving(supervisor, short_dir, max_body=1000) as served:
        host = headers.get("Host", "localhost")
        rest = {name: value for name, value in headers.items() if name != "Host"}
        wire = await served.connect()
        await wire.send(request(method, target, rest, body, host))
        answer = await wire.answer()
        assert code(answer) == expected
        assert ("www-authenticate" in answer.headers) == (answer.status == 401)
        assert ("allow" in answer.headers) == (answer.status == 405)


async def test_a_chunked_body_that_is_too_large_is_a_problem(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    async with serving(supervisor, short_dir, max_body=1000) as served:
        wire = await served.connect()
        headers = JSON | {"Transfer-Encoding": "chunked"}
        chunk = b"%x\r\n%b\r\n" % (2000, b"x" * 2000)
        await wire.send(request("POST", SESSIONS, headers) + chunk + b"0\r\n\r\n")
        assert code(await wire.answer()) == (413, "request_too_large")


@pytest.mark.parametrize("path", [f"{SESSIONS}/one/attach", "/v1/sandbox/local/exec"])
async def test_an_upgrade_that_is_refused_is_a_plain_answer(served: Served, path: str) -> None:
    for target, headers, expected in (
        (path, {}, (401, "unauthorized")),
        (path.replace("local", "none"), AUTH, (404, "sandbox_not_found")),
    ):
        wire = await served.connect()
        await wire.send(handshake(target, headers))
        assert code(await wire.answer()) == expected
    wire = await served.connect()
    await wire.send(handshake(path).replace(b"13", b"12"))
    assert code(await wire.answer()) == (400, "validation_failed")


async def test_a_daemon_that_stops_says_so(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir) as served:
        supervisor.stopping.set()
        answer = await served.ask("GET", SESSIONS)
        assert code(answer) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) >= 1


async def test_what_a_token_does_not_cover_is_not_there(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    tokens = StaticTokens(
        [
            ("viewer", Principal("viewer", Verb.READ)),
            ("other", Principal("other", Verb.CONTROL, frozenset({"other"}))),
        ]
    )
    viewer, other = ({"Authorization": f"Bearer {name}"} for name in ("viewer", "other"))
    async with serving(supervisor, short_dir, tokens=tokens) as served:
        for method, path in (("GET", ""), ("POST", ""), ("POST", "/x/kill"), ("DELETE", "/x")):
            answer = await served.ask(method, SESSIONS + path, other)
            assert code(answer) == (404, "sandbox_not_found")
        answer = await served.ask("POST", f"{SESSIONS}/x/kill", viewer)
        assert code(answer) == (403, "forbidden")
        wire = await served.connect()
        await wire.send(handshake(f"{SESSIONS}/x/attach", viewer))
        assert code(await wire.answer()) == (403, "forbidden")


@pytest.mark.parametrize("path", [f"{SESSIONS}/one/attach", "/v1/sandbox/local/exec"])
async def test_a_start_that_does_not_come_is_not_waited_for(
    served: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("s0d.api.duplex.START_WITHIN", 0.05)
    socket = await served.websocket(path)
    error = await socket.receive()
    assert (error["type"], error["code"]) == ("ERROR", "request_timeout")
    assert (await socket.receive()).code == 1008


async def test_a_client_that_leaves_before_start_leaves_nothing(served: Served) -> None:
    socket = await served.websocket(f"{SESSIONS}/one/attach")
    await socket.stream.aclose()
    answer: Any = await served.ask("GET", "/healthz", {})
    assert answer.status == 200
    await trio.testing.wait_all_tasks_blocked()
