"""The table of routes is the wire contract's."""

from __future__ import annotations

from s0d.api.auth import Verb
from s0d.api.routes import routes
from s0d.model.parse import SentSpec
from s0d.wire.exec import ExecBody
from s0d.wire.named import CreateBody, KillBody, NoBody
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
PUBLIC = {("GET", "/healthz"), ("GET", "/readyz"), ("GET", "/metadata")}


def test_every_route_of_the_contract_under_both_prefixes() -> None:
    table = {(r.method, r.path): (r.status, r.body and r.body.type) for r in routes()}
    for prefix in ("/api/v1", "/api/v1/sandboxes/<sandbox_id>"):
        for (method, path), expected in CONTRACT.items():
            assert table[method, prefix + path] == expected


NAMED_CONTRACT = {
    ("POST", "/sessions"): (201, CreateBody),
    ("GET", "/sessions"): (200, None),
    ("GET", "/sessions/<session_name>"): (200, None),
    ("DELETE", "/sessions/<session_name>"): (204, None),
    ("GET", "/sessions/<session_name>/attach"): (200, None),
    ("GET", "/sessions/<session_name>/screen"): (200, None),
    ("GET", "/sessions/<session_name>/screen/stream"): (200, None),
    ("POST", "/sessions/<session_name>/kill"): (200, KillBody),
    ("POST", "/exec"): (200, ExecBody),
    ("GET", "/exec"): (200, None),
    ("POST", "/resume"): (200, NoBody),
}


def test_every_route_of_the_named_surface_and_no_other() -> None:
    prefix = "/v1/sandbox/<sandbox_id>"
    table = {
        (r.method, r.path.removeprefix(prefix)): (r.status, r.body and r.body.type)
        for r in routes()
        if r.path.startswith(prefix)
    }
    assert table == NAMED_CONTRACT
    verbs = {(r.method, r.path): r.verb for r in routes()}
    for method, path in NAMED_CONTRACT:
        reads = method == "GET" and path.startswith("/sessions") and not path.endswith("attach")
        assert verbs[method, prefix + path] == (Verb.READ if reads else Verb.CONTROL)


def test_only_these_need_no_token() -> None:
    assert {(r.method, r.path) for r in routes() if r.verb is None} == PUBLIC


def test_viewers_read_all_of_the_contract_that_reads() -> None:
    """And no more of it: a socket that takes input is more than reading."""
    verbs = {(r.method, r.path): r.verb for r in routes()}
    for method, path in CONTRACT:
        reads = method == "GET" and not path.endswith("/ws")
        assert verbs[method, "/api/v1" + path] == (Verb.READ if reads else Verb.CONTROL)


def test_only_attempts_may_come_without_a_body() -> None:
    bodies = {(r.method, r.path): r.body for r in routes()}
    for method, path in CONTRACT:
        body = bodies[method, "/api/v1" + path]
        assert (body is not None and body.absent is not None) == path.endswith("/attempts")
