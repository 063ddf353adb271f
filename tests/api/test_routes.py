"""The table of routes is the wire contract's."""

from __future__ import annotations

from s0d.api.auth import Verb
from s0d.api.routes import Kind, routes
from s0d.model.parse import SentSpec
from s0d.wire.requests import AttemptBody, DesiredStateBody, InputBody, ResizeBody, SignalBody

ONE = "/sessions/<session_id>"
CONTRACT = {
    ("GET", "/sessions"): (200, None),
    ("POST", "/sessions"): (201, SentSpec),
    ("GET", ONE): (200, None),
    ("PUT", ONE): (200, SentSpec),
    ("DELETE", ONE): (200, None),
    ("PUT", f"{ONE}/desired-state"): (200, DesiredStateBody),
    ("POST", f"{ONE}/attempts"): (201, AttemptBody),
    ("POST", f"{ONE}/inputs"): (202, InputBody),
    ("POST", f"{ONE}/signals"): (202, SignalBody),
    ("PUT", f"{ONE}/terminal"): (200, ResizeBody),
    ("GET", f"{ONE}/events"): (200, None),
    ("GET", f"{ONE}/events/stream"): (200, None),
    ("GET", f"{ONE}/ws"): (200, None),
}
EXTENSIONS = {("GET", "/api/v1/status")}
PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metadata")}


def test_every_route_of_the_contract_under_both_prefixes() -> None:
    table = {(r.method, r.path): (r.status, r.body and r.body.type) for r in routes()}
    for prefix in ("/api/v1", "/api/v1/sandboxes/<sandbox_id>"):
        for (method, path), expected in CONTRACT.items():
            assert table.pop((method, prefix + path)) == expected
    assert set(table) - EXTENSIONS == PUBLIC


def test_only_reading_is_for_viewers() -> None:
    for route in routes():
        if route.verb is None:
            assert (route.method, route.path) in PUBLIC
        else:
            reads = route.method == "GET" and route.kind is not Kind.WEBSOCKET
            assert (route.verb is Verb.READ) == reads


def test_only_attempts_may_come_without_a_body() -> None:
    optional = {r.path.rpartition("/")[2] for r in routes() if r.body and r.body.absent}
    assert optional == {"attempts"}
