"""The handlers of sandboxes (wire contract, section 3)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from s0d.model.errors import InvalidRequest
from s0d.model.sandbox import SandboxConfig, SandboxStatus
from s0d.wire.sandbox import (
    Claimed,
    ConfigBody,
    ForkBody,
    ForkedView,
    MessageView,
    PausedView,
    RefreshedView,
    ResumedView,
    SandboxPage,
    SandboxView,
    StatusView,
    runtime_id,
    summarize,
    view_refreshed,
    view_sandbox,
    view_status,
)

from .auth import Verb
from .call import Call, Reply
from .errors import Forbidden
from .params import Number, Text

if TYPE_CHECKING:
    from s0d.supervisor import Sandbox

MAX_LIST: Final = 1000
DEFAULT_LIST: Final = 50

LIMIT: Final = Number("limit", 1, MAX_LIST, DEFAULT_LIST)
OFFSET: Final = Number("offset", 0, (1 << 31) - 1, 0)
STATUS: Final = Text("status", tuple(SandboxStatus))
TEMPLATE_ID: Final = Text("template_id")
PAUSED: Final = Text("paused", ("true", "false", "True", "False"))  # as Python says it, too
PARAMS: Final = (LIMIT, OFFSET, STATUS, TEMPLATE_ID, PAUSED)


async def list_sandboxes(call: Call) -> SandboxPage:
    """The oldest first."""
    limit, offset = call.number(LIMIT) or DEFAULT_LIST, call.number(OFFSET) or 0
    found = _matching(call)
    shown = [summarize(s.record, s.status) for s in found[offset : offset + limit]]
    return SandboxPage(shown, len(found), offset + limit < len(found))


async def claim_sandbox(call: Call) -> Claimed:
    sent = call.body.config or ConfigBody()
    if call.principal is not None and not call.principal.covers(call.body.id):
        raise Forbidden("this token covers single sandboxes only: give the id of one of them")
    sandbox = await call.supervisor.registry.create(
        sandbox_id=call.body.id,
        template=call.body.template or "",
        root=sent.root,
        config=sent.over(SandboxConfig()),
    )
    record, status = sandbox.record, sandbox.status
    runtime = runtime_id(record, status)
    return Claimed(record.id, status, runtime, runtime, record.template)


async def get_sandbox(call: Call) -> SandboxView:
    return _view(call.sandbox)


async def get_status(call: Call) -> StatusView:
    return view_status(call.sandbox.record, call.sandbox.status)


async def update_sandbox(call: Call) -> SandboxView:
    sandbox = call.sandbox
    sent = call.body.config or ConfigBody()
    if sent.hard_ttl and sandbox is call.supervisor.default:
        raise InvalidRequest("config.hard_ttl: the default sandbox cannot be deleted")
    await sandbox.configure(sent.over)
    return _view(sandbox)


async def delete_sandbox(call: Call) -> Reply:
    """One command-line client takes nothing but 200 for done."""
    await call.supervisor.registry.delete(call.sandbox)
    done = call.headers.get("User-Agent", "").startswith("s0/")
    return Reply(MessageView("the sandbox is deleted"), 200 if done else 202)


async def pause_sandbox(call: Call) -> PausedView:
    await call.sandbox.pause(memory=bool(call.body.memory))
    return PausedView(call.sandbox.id, call.sandbox.suspended, call.sandbox.status)


async def resume_sandbox(call: Call) -> ResumedView:
    await call.sandbox.resume()
    return ResumedView(call.sandbox.id)


async def refresh_sandbox(call: Call) -> RefreshedView:
    await call.sandbox.refresh(call.body.seconds)
    return view_refreshed(call.sandbox.record)


async def fork_sandbox(call: Call) -> ForkedView:
    body: ForkBody = call.body
    if body.memory:
        raise InvalidRequest("memory: a running process cannot be copied: leave it out")
    source = call.sandbox
    if call.principal is not None:
        call.principal.check_everywhere(Verb.ADMIN)  # the fork is a sandbox of its own
    made = await call.supervisor.registry.fork(source, root=body.root, key=call.idempotency_key)
    return ForkedView(source.id, _view(made))


def _view(sandbox: Sandbox) -> SandboxView:
    return view_sandbox(sandbox.record, sandbox.status)


def _matching(call: Call) -> list[Sandbox]:
    status, template, paused = map(call.text, (STATUS, TEMPLATE_ID, PAUSED))
    found = [
        sandbox
        for sandbox in call.visible_sandboxes()
        if (not status or sandbox.status == status)
        and (not template or sandbox.record.template == template)
        and (not paused or sandbox.suspended == (paused.lower() == "true"))
    ]
    return sorted(found, key=lambda s: (s.record.created_at_ns, s.id))
