"""The table of all routes: what serves each, and what an OpenAPI document can be made from.

Paths are written once, below a sandbox; each also answers without the prefix, for the default
sandbox.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, Final

from s0d.model.parse import SentSpec, parse_spec
from s0d.wire.exec import ExecAnswer, ExecBody
from s0d.wire.named import CreateBody, KillBody, NamedList, NamedSession, NoBody, Resumed
from s0d.wire.requests import (
    AttemptBody,
    DesiredStateBody,
    InputBody,
    ResizeBody,
    SignalBody,
    decode,
)
from s0d.wire.sandbox import (
    ClaimBody,
    Claimed,
    ForkBody,
    ForkedView,
    MemoryBody,
    MessageView,
    PausedView,
    RefreshBody,
    RefreshedView,
    ResumedView,
    SandboxPage,
    SandboxView,
    StatusView,
    UpdateBody,
)
from s0d.wire.session import SessionView
from s0d.wire.terminal import Keys, WaitBody, decode_keys

from . import (
    attach,
    exec,
    logs,
    metrics,
    named,
    openapi,
    page,
    recording,
    sandboxes,
    screen,
    screen_stream,
    service,
    sessions,
    sse,
    status,
    tokens,
    tty,
    wait,
    websocket,
)
from .auth import Verb
from .params import AFTER, IDEMPOTENCY_KEY, LAST_EVENT_ID
from .route import Body, Kind, Route

SANDBOX: Final = "/api/v1/sandboxes/<sandbox_id>"
DEFAULT: Final = "/api/v1"
NAMED: Final = "/v1/sandbox/<sandbox_id>"


def _body(type: Any, *, optional: bool = False) -> Body:
    return Body(type, partial(decode, type=type), type if optional else None)


_CURSOR: Final = (AFTER, LAST_EVENT_ID)
_SPEC = Body(SentSpec, parse_spec)


def _of_session() -> list[Route]:
    view, read = SessionView, Verb.READ
    one = "/sessions/<session_id>"
    return [
        Route(
            "GET",
            "/sessions",
            sessions.list_sessions,
            sessions.SessionList,
            read,
            params=sessions.LIST_PARAMS,
        ),
        Route(
            "POST",
            "/sessions",
            sessions.create_session,
            view,
            body=_SPEC,
            status=201,
            params=(IDEMPOTENCY_KEY,),
            others=(200,),
        ),
        Route("GET", one, sessions.get_session, view, read, params=(sessions.USAGE,)),
        Route("PUT", one, sessions.update_session, view, body=_SPEC),
        Route("DELETE", one, sessions.delete_session, sessions.Deleted),
        Route(
            "PUT",
            f"{one}/desired-state",
            sessions.set_desired_state,
            view,
            body=_body(DesiredStateBody),
        ),
        Route(
            "POST",
            f"{one}/attempts",
            sessions.create_attempt,
            view,
            body=_body(AttemptBody, optional=True),
            status=201,
        ),
        Route(
            "POST",
            f"{one}/inputs",
            sessions.write_input,
            sessions.InputAccepted,
            body=_body(InputBody),
            status=202,
        ),
        Route(
            "POST",
            f"{one}/signals",
            sessions.send_signal,
            sessions.SignalAccepted,
            body=_body(SignalBody),
            status=202,
        ),
        Route(
            "PUT",
            f"{one}/terminal",
            sessions.resize_terminal,
            sessions.Resized,
            body=_body(ResizeBody),
        ),
        Route("GET", f"{one}/events", page.list_events, page.EventPage, read, params=page.PARAMS),
        Route(
            "GET",
            f"{one}/events/stream",
            sse.stream_events,
            None,
            read,
            kind=Kind.EVENT_STREAM,
            params=_CURSOR,
        ),
        # A WebSocket takes input, so whoever opens one must be allowed to control the session.
        Route("GET", f"{one}/ws", websocket.attend, None, kind=Kind.WEBSOCKET, params=_CURSOR),
    ]


def _of_terminal() -> list[Route]:
    """Extensions: what a terminal shows, and what waits for it."""
    read, one = Verb.READ, "/sessions/<session_id>"
    stream = screen_stream.stream_screen
    return [
        Route(
            "GET",
            f"{one}/screen",
            screen.get_screen,
            screen.ScreenView,
            read,
            params=screen.PARAMS,
            others=(304,),
            media=screen.MEDIA,
        ),
        Route("GET", f"{one}/screen/stream", stream, None, read, kind=Kind.EVENT_STREAM),
        Route(
            "POST",
            f"{one}/keys",
            screen.write_keys,
            sessions.InputAccepted,
            body=Body(Keys, decode_keys),
            status=202,
        ),
        Route("POST", f"{one}/wait", wait.wait, wait.WaitResult, read, body=_body(WaitBody)),
        Route(
            "GET",
            f"{one}/logs",
            logs.get_logs,
            None,
            read,
            kind=Kind.DOCUMENT,
            params=logs.PARAMS,
            media=logs.MEDIA,
        ),
        Route(
            "POST",
            f"{one}/kill",
            sessions.kill_session,
            SessionView,
            body=_body(KillBody, optional=True),
        ),
        Route("GET", f"{one}/attach", attach.attach, None, kind=Kind.WEBSOCKET),
        Route(
            "GET",
            f"{one}/recording",
            recording.get_recording,
            None,
            read,
            kind=Kind.DOCUMENT,
            params=recording.PARAMS,
            media=(recording.MEDIA,),
        ),
    ]


def _of_sandbox() -> list[Route]:
    """The sandboxes themselves."""
    read, admin = Verb.READ, Verb.ADMIN
    memory = _body(MemoryBody, optional=True)
    refresh, fork = _body(RefreshBody, optional=True), _body(ForkBody, optional=True)
    view = SandboxView
    many = f"{DEFAULT}/sandboxes"
    return [
        Route(
            "GET",
            many,
            sandboxes.list_sandboxes,
            SandboxPage,
            read,
            of_sandbox=False,
            params=sandboxes.PARAMS,
        ),
        Route(
            "POST",
            many,
            sandboxes.claim_sandbox,
            Claimed,
            admin,
            body=_body(ClaimBody, optional=True),
            status=201,
            of_sandbox=False,
        ),
        Route("GET", SANDBOX, sandboxes.get_sandbox, view, read),
        Route("GET", f"{SANDBOX}/status", sandboxes.get_status, StatusView, read),
        Route("PUT", SANDBOX, sandboxes.update_sandbox, view, admin, body=_body(UpdateBody)),
        Route(
            "DELETE",
            SANDBOX,
            sandboxes.delete_sandbox,
            MessageView,
            admin,
            status=202,
            others=(200,),
        ),
        Route("POST", f"{SANDBOX}/pause", sandboxes.pause_sandbox, PausedView, admin, memory),
        Route("POST", f"{SANDBOX}/resume", sandboxes.resume_sandbox, ResumedView, admin, memory),
        Route(
            "POST", f"{SANDBOX}/refresh", sandboxes.refresh_sandbox, RefreshedView, admin, refresh
        ),
        Route(
            "POST",
            f"{SANDBOX}/fork",
            sandboxes.fork_sandbox,
            ForkedView,
            admin,
            fork,
            201,
            params=(IDEMPOTENCY_KEY,),
        ),
    ]


def _of_tokens() -> list[Route]:
    """Extensions: who may do what."""
    many, admin, view = f"{DEFAULT}/tokens", Verb.ADMIN, tokens.TokenView
    one, body = f"{many}/<token_name>", _body(tokens.TokenBody)
    revoke = tokens.revoke_token
    return [
        Route("GET", many, tokens.list_tokens, tokens.TokenList, admin, of_sandbox=False),
        Route("POST", many, tokens.create_token, view, admin, body, 201, of_sandbox=False),
        Route("DELETE", one, revoke, tokens.Revoked, admin, of_sandbox=False),
    ]


def _of_named() -> list[Route]:
    """The second surface, which has its prefix to itself."""
    one = f"{NAMED}/sessions/<session_name>"
    info, plain = NamedSession, Kind.PLAIN
    create, kill = _body(CreateBody), _body(KillBody, optional=True)
    none = _body(NoBody, optional=True)
    return [
        Route("GET", f"{NAMED}/sessions", named.list_named, NamedList, Verb.READ, kind=plain),
        Route(
            "POST",
            f"{NAMED}/sessions",
            named.create_named,
            info,
            body=create,
            status=201,
            kind=plain,
        ),
        Route("GET", one, named.get_named, info, Verb.READ, kind=plain),
        Route("DELETE", one, named.delete_named, None, status=204, kind=Kind.EMPTY),
        Route("GET", f"{one}/attach", attach.attach, None, kind=Kind.WEBSOCKET),
        Route(
            "GET",
            f"{one}/screen",
            screen.get_screen,
            screen.ScreenView,
            Verb.READ,
            kind=plain,
            params=screen.PARAMS,
            others=(304,),
            media=screen.MEDIA,
        ),
        Route(
            "GET",
            f"{one}/screen/stream",
            screen_stream.stream_screen,
            None,
            Verb.READ,
            kind=Kind.EVENT_STREAM,
        ),
        Route("POST", f"{one}/kill", named.kill_named, info, body=kill, kind=plain),
        Route("POST", f"{NAMED}/exec", exec.execute, ExecAnswer, body=_body(ExecBody), kind=plain),
        Route("GET", f"{NAMED}/exec", tty.attend, None, kind=Kind.WEBSOCKET),
        Route("POST", f"{NAMED}/resume", named.resume, Resumed, body=none, kind=plain),
    ]


def routes() -> list[Route]:
    """All routes with their full paths; `<name>` stands for a variable segment."""
    service_routes = [
        Route("GET", "/healthz", service.healthz, service.Health, None),
        Route("GET", "/readyz", service.readyz, service.Health, None),
        Route("GET", "/metadata", service.metadata, service.Metadata, None),
        Route(
            "GET",
            "/metrics",
            metrics.get_metrics,
            None,
            Verb.READ,
            kind=Kind.DOCUMENT,
            of_sandbox=False,
            media=(metrics.MEDIA,),
        ),
        Route(
            "GET",
            "/openapi.json",
            openapi.get_openapi,
            None,
            Verb.READ,
            kind=Kind.DOCUMENT,
            of_sandbox=False,
            media=("application/json",),
        ),
        Route("GET", f"{DEFAULT}/status", status.status, status.Status, Verb.READ),
    ]
    below_prefix = [
        replace(r, path=prefix + r.path)
        for prefix in (SANDBOX, DEFAULT)
        for r in (*_of_session(), *_of_terminal())
    ]
    return [*service_routes, *_of_sandbox(), *_of_tokens(), *below_prefix, *_of_named()]
