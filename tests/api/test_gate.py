"""What is decided on the head of a request alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.api.auth import Principal, StaticTokens, Verb
from tests.api.fake import FakeSupervisor
from tests.api.harness import AUTH, JSON, TOKEN, Served, handshake, request, serving

SESSIONS = "/api/v1/sessions"


async def test_ids_of_requests(served: Served) -> None:
    own = await served.ask("GET", SESSIONS, {**AUTH, "X-Request-Id": "my-id_1"})
    assert own.headers["x-request-id"] == "my-id_1"
    seen = set()
    for bad in ["", "two words", "x" * 129, "caf\xe9", None]:
        answer = await served.ask("GET", SESSIONS, {**AUTH, "X-Request-Id": bad})
        assert re.fullmatch(r"[0-9a-f]{32}", answer.headers["x-request-id"])
        seen.add(answer.headers["x-request-id"])
    assert len(seen) == 5


@pytest.mark.parametrize(
    ("method", "target"), [("GET", "/nowhere"), ("PATCH", SESSIONS), ("GET", "?x"), ("GET", "/a%")]
)
async def test_errors_carry_ids_too(served: Served, method: str, target: str) -> None:
    answer = await served.ask(method, target, {**AUTH, "X-Request-Id": "mine"})
    assert answer.status >= 400
    assert answer.headers["x-request-id"] == "mine"


async def test_public_routes_need_no_token(served: Served) -> None:
    metadata = await served.ask("GET", "/metadata", {})
    assert metadata.data["gateway_mode"] == "direct"
    assert metadata.data["service"] == "s0d"
    assert (await served.ask("GET", "/healthz", {})).status == 200
    assert (await served.ask("GET", "/readyz", {})).status == 200


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer no"}, {"Authorization": TOKEN}])
async def test_without_a_token_nothing_is_told(served: Served, headers: dict[str, str]) -> None:
    for target in (SESSIONS, "/nowhere", "/api/v1/sandboxes/nope/sessions", "/metadata/x"):
        answer = await served.ask("GET", target, headers)
        assert (answer.status, answer.code) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"


async def test_unix_peer_needs_no_token(served: Served) -> None:
    assert (await served.ask("GET", SESSIONS, {}, unix=True)).data == {"sessions": []}


async def test_authentication_comes_before_the_body(served: Served) -> None:
    """The answer is there although not a byte of the body was sent."""
    wire = await served.connect()
    await wire.send(request("POST", SESSIONS, {"Content-Length": "1000000"}))
    assert (await wire.answer()).status == 401
    assert await wire.closed() == b""


async def test_authentication_comes_before_the_upgrade(served: Served) -> None:
    wire = await served.connect()
    await wire.send(handshake(f"{SESSIONS}/ses-000000000001/ws", {}))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (401, "unauthorized")


async def test_length_over_the_limit_is_refused_at_once(served: Served) -> None:
    """Not even a client that waits to be asked for its body (100 Continue) is asked."""
    length = {"Content-Length": str((16 << 20) + 1), "Expect": "100-continue"}
    for _ in range(20):  # without the check it depends on which task comes first
        wire = await served.connect()
        await wire.send(request("POST", SESSIONS, {**JSON, **length}))
        answer = await wire.answer()
        assert (answer.status, answer.code) == (413, "request_too_large")


async def test_rebound_host_is_misdirected(served: Served) -> None:
    wire = await served.connect()
    await wire.send(request("GET", "/metadata", AUTH, host="evil.example:7707"))
    answer = await wire.answer()
    assert (answer.status, answer.code) == (421, "misdirected_request")


async def test_host_of_an_absolute_target_counts(served: Served) -> None:
    """RFC 9112, section 3.2.2: it replaces the Host header."""
    good = await served.ask("GET", f"http://localhost:1{SESSIONS}")
    assert good.data == {"sessions": []}
    assert (await served.ask("GET", f"http://evil.example{SESSIONS}")).status == 421
    assert (await served.ask("GET", "http://localhost:1")).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
async def test_foreign_pages_are_refused(served: Served, headers: dict[str, str]) -> None:
    for unix in (False, True):
        answer = await served.ask("GET", SESSIONS, {**AUTH, **headers}, unix=unix)
        assert (answer.status, answer.code) == (403, "forbidden")
    wire = await served.connect()
    await wire.send(handshake(f"{SESSIONS}/ses-000000000001/ws", {**AUTH, **headers}))
    assert (await wire.answer()).status == 403


async def test_nodes_fetch_mode_is_not_tested(served: Served) -> None:
    assert (await served.ask("GET", SESSIONS, {**AUTH, "Sec-Fetch-Mode": "cors"})).status == 200


TRICKS: Any = [
    "/",
    "//",
    "/api/v1/sessions/",
    "//api/v1/sessions",
    "/api//v1/sessions",
    "/api/v1/./sessions",
    "/api/v1/x/../sessions",
    "/api/v1/x/%2e%2e/sessions",
    "/api/v1%2fsessions",
    "/api/v1/sessions/ses-000000000001%2fevents",
    "/api/v1/sessions/ses-000000000001/events%00",
    "/api/v1/sessions/ses-000000000001%0a",
    "/api/v1/sessions/ses-%EF%BC%90000000000001",
    "/api/v1/sessions/ses-000000000001%ff",
    "/api/v1/sessions/ses-000000000001%",
    "/api/v1/sessions;x",
    "/api/v1/sandboxes/local%2f..%2fother/sessions",
    "/api/v1/sandboxes/..%2fother/sessions",
    "/API/v1/sessions",
]


async def test_tricks_with_paths_end_as_not_found(
    served: Served, supervisor: FakeSupervisor
) -> None:
    supervisor.default.add()
    for target in TRICKS:
        answer = await served.ask("GET", target)
        assert (answer.status, answer.code) == (404, "not_found")


ABSENT: Any = [
    ("/api/v1/sandboxes/Local/sessions", "sandbox_not_found"),
    ("/api/v1/sandboxes/../sessions", "sandbox_not_found"),
    ("/api/v1/sandboxes/absent/sessions", "sandbox_not_found"),
    ("/api/v1/sandboxes/" + "a" * 64 + "/sessions", "sandbox_not_found"),
    ("/api/v1/sessions/ses-1", "session_not_found"),
    ("/api/v1/sessions/..", "session_not_found"),
    ("/api/v1/sessions/ses-00000000000G", "session_not_found"),
    ("/api/v1/sessions/ses-ffffffffffff", "session_not_found"),
]


async def test_ids_of_no_form_are_not_found(served: Served) -> None:
    for target, code in ABSENT:
        answer = await served.ask("GET", target)
        assert (answer.status, answer.code) == (404, code)


async def test_percent_encoding_of_plain_characters_is_the_same_path(
    served: Served, supervisor: FakeSupervisor
) -> None:
    """RFC 3986, section 6.2.2.2."""
    session = supervisor.default.add()
    answer = await served.ask("GET", f"/api/v1/s%65ssions/{session.id.replace('-', '%2D')}")
    assert answer.data["id"] == session.id


@pytest.mark.parametrize("target", ["?x", "*", "x", "foo://localhost/healthz"])
async def test_target_that_is_no_path(served: Served, target: str) -> None:
    answer = await served.ask("GET", target)
    assert (answer.status, answer.code) == (400, "invalid_request")


async def test_shutting_down_is_said(supervisor: FakeSupervisor, short_dir: Path) -> None:
    async with serving(supervisor, short_dir, two_steps=True) as served:
        wire = await served.connect()
        assert (await wire.ask("GET", SESSIONS)).status == 200
        served.shutdown.set()
        await trio.testing.wait_all_tasks_blocked()
        for answer in (await wire.ask("GET", SESSIONS), await served.ask("GET", SESSIONS)):
            assert (answer.status, answer.code) == (503, "unavailable")
            assert int(answer.headers["retry-after"]) >= 1
        assert (await served.ask("GET", "/healthz", {})).status == 200
        ready = await served.ask("GET", "/readyz", {})
        assert (ready.status, ready.code) == (503, "unavailable")
        # A foreign caller learns nothing of it.
        assert (await served.ask("GET", SESSIONS, {})).status == 401


async def test_tokens_are_scoped(supervisor: FakeSupervisor, short_dir: Path) -> None:
    supervisor.default.add()
    session = supervisor.sandbox("other").add()
    tokens = StaticTokens(
        [
            ("viewer", Principal("viewer", Verb.READ)),
            ("other", Principal("other", Verb.CONTROL, frozenset({"other"}))),
        ]
    )
    viewer = {"Authorization": "Bearer viewer"}
    other = {"Authorization": "Bearer other", "Content-Type": "application/json"}
    in_other = f"/api/v1/sandboxes/other/sessions/{session.id}"
    async with serving(supervisor, short_dir, tokens=tokens) as served:
        assert (await served.ask("GET", SESSIONS, viewer)).status == 200
        assert (await served.ask("POST", SESSIONS, viewer, b"{}")).status == 403
        assert (await served.ask("DELETE", in_other, viewer)).status == 403
        assert (await served.ask("GET", in_other, other)).status == 200
        assert (await served.ask("GET", SESSIONS, other)).code == "forbidden"
        assert (await served.ask("GET", "/api/v1/sandboxes/local/sessions", other)).status == 403
        wire = await served.connect()
        await wire.send(handshake(f"{in_other}/ws", viewer))
        assert (await wire.answer()).status == 403
