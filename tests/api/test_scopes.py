"""Every route asks what its caller may do: the whole table, by role and by scope."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from s0d.api.auth import Principal, Role, StaticTokens, Verb
from s0d.api.route import Kind, Route
from s0d.api.routes import routes
from tests.api.fake import FakeSupervisor
from tests.api.harness import Answer, Served, handshake, serving

ID = "ses-ffffffffffff"
GUARDED = [route for route in routes() if route.verb is not None]
ONE = frozenset({"other"})
TOKENS = StaticTokens(
    [
        *[(role.value, Principal(role.value, role.highest)) for role in Role],
        *[(f"{role}-other", Principal(role.value, role.highest, ONE)) for role in Role],
    ]
)


def target(route: Route, sandbox: str) -> str:
    path = route.path.replace("<sandbox_id>", sandbox).replace("<session_id>", ID)
    return path.replace("<session_name>", "absent").replace("<token_name>", "absent")


async def ask(served: Served, route: Route, sandbox: str, token: str) -> Answer:
    headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
    if route.kind is not Kind.WEBSOCKET:
        body = b"{" if route.body is not None else b""  # nothing valid: nothing is ever done
        return await served.ask(route.method, target(route, sandbox), headers, body)
    wire = await served.connect()
    async with wire.stream:
        await wire.send(handshake(target(route, sandbox), headers))
        return await wire.head()


def name(route: Route) -> str:
    return f"{route.method} {route.path}"


@pytest.fixture(name="guarded")
async def _guarded(supervisor: FakeSupervisor, short_dir: Path) -> Any:
    async with serving(supervisor, short_dir, tokens=TOKENS) as served:
        yield served


@pytest.mark.parametrize("route", GUARDED, ids=name)
async def test_a_role_may_do_what_is_its_and_no_more(guarded: Served, route: Route) -> None:
    assert route.verb is not None
    for role in Role:
        if role.highest < route.verb:
            assert (await ask(guarded, route, "local", role.value)).status == 403


@pytest.mark.parametrize("route", GUARDED, ids=name)
async def test_no_route_leads_out_of_a_scope(guarded: Served, route: Route) -> None:
    """Also not to whether something is there: what exists and what does not look the same."""
    if not route.of_sandbox:
        return
    expected = 404 if route.path.startswith("/v1/") else 403
    for sandbox in ("local", "absent"):
        answer = await ask(guarded, route, sandbox, "admin-other")
        assert answer.status == expected
    for trick in (
        "%2e%2e",
        "other%2f..%2flocal",
        "..%2flocal",
        "Other",
        "%EF%BD%8Fther",
        "other%00",
    ):
        if "<sandbox_id>" in route.path:
            assert (await ask(guarded, route, trick, "admin-other")).status == 404


@pytest.mark.parametrize("route", GUARDED, ids=name)
async def test_inside_of_its_scope_nothing_is_forbidden(guarded: Served, route: Route) -> None:
    if "<sandbox_id>" in route.path and route.body is not None:
        answer = await ask(guarded, route, "other", "admin-other")
        assert answer.status in (400, 404, 409)  # the body is none, the session is absent


@pytest.mark.parametrize("role", ["admin-other", "operator", "viewer"])
async def test_tokens_are_for_admins_of_everything(guarded: Served, role: str) -> None:
    headers = {"Authorization": f"Bearer {role}", "Content-Type": "application/json"}
    body = b'{"name":"x","role":"viewer"}'
    for method, path, sent in (
        ("GET", "/api/v1/tokens", b""),
        ("POST", "/api/v1/tokens", body),
        ("DELETE", "/api/v1/tokens/x", b""),
    ):
        assert (await guarded.ask(method, path, headers, sent)).status == 403


async def test_sandboxes_are_made_within_a_scope_only(guarded: Served) -> None:
    headers = {"Authorization": "Bearer admin-other", "Content-Type": "application/json"}
    for body in (b"{}", b"", b'{"id":"third"}', b'{"id":"local"}'):
        answer = await guarded.ask("POST", "/api/v1/sandboxes", headers, body)
        assert (answer.status, answer.code) == (403, "forbidden")
    fork = await guarded.ask("POST", "/api/v1/sandboxes/other/fork", headers, b"{}")
    assert (fork.status, fork.code) == (403, "forbidden")


@pytest.mark.parametrize("limits", [{"nofile": 64}, {"memory_max_bytes": 1 << 20}])
async def test_limits_are_an_admins(
    guarded: Served, supervisor: FakeSupervisor, limits: dict[str, int]
) -> None:
    operator, admin = (
        {"Authorization": f"Bearer {role}", "Content-Type": "application/json"}
        for role in ("operator", "admin")
    )
    plain, limited = {"command": ["true"]}, {"command": ["true"], "limits": limits}
    made = await guarded.ask("POST", "/api/v1/sessions", operator, plain)
    assert made.status == 201
    answer = await guarded.ask("POST", "/api/v1/sessions", operator, limited)
    assert (answer.status, answer.code) == (403, "forbidden")
    made = await guarded.ask("POST", "/api/v1/sessions", admin, limited)
    assert made.status == 201
    one = f"/api/v1/sessions/{made.data['id']}"
    for spec in (plain, {"command": ["true"], "limits": {"nofile": 65}}):  # also: taking away
        answer = await guarded.ask("PUT", one, operator, spec)
        assert (answer.status, answer.code) == (403, "forbidden")


def test_the_verbs_of_the_table() -> None:
    """Reading needs no more than a viewer, whatever changes something needs more."""
    for route in GUARDED:
        reads = route.method == "GET" and route.kind is not Kind.WEBSOCKET
        waits = route.path.endswith("/wait")
        if not route.path.startswith("/api/v1/tokens"):
            assert (route.verb is Verb.READ) == (reads or waits), name(route)
