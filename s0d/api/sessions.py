"""The handlers of supervised sessions (wire contract, section 2).

Each is a few lines: what a request means is decided in the supervisor, how it looks in `s0d.wire`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec
import trio
from msgspec import UNSET, UnsetType

from s0d.model.errors import InvalidRequest
from s0d.model.session import Phase
from s0d.model.signals import parse_signal
from s0d.model.spec import DesiredState, LimitsSpec
from s0d.wire.named import KillBody
from s0d.wire.requests import InputBody, ResizeBody
from s0d.wire.session import SessionView, UsageView

from .auth import Verb
from .call import Call, Reply
from .errors import Forbidden
from .params import Number, Text

if TYPE_CHECKING:
    from s0d.supervisor import Session

MAX_LIST: Final = 10_000

LIMIT: Final = Number("limit", 1, MAX_LIST, MAX_LIST)
CURSOR: Final = Text("cursor")
NAME: Final = Text("name")
PHASE: Final = Text("phase", tuple(Phase))
USAGE: Final = Text("usage")
LIST_PARAMS: Final = (LIMIT, CURSOR, NAME, PHASE, USAGE)

_POSITION = re.compile(r"([0-9]{1,20})\.(ses-[0-9a-f-]{12,36})\Z")


class SessionList(msgspec.Struct):
    """`next_cursor` stands where `limit` cut the list; pass it on as `cursor`."""

    sessions: list[SessionView]
    next_cursor: str | UnsetType = UNSET


class Deleted(msgspec.Struct):
    deleted: bool = True


class InputAccepted(msgspec.Struct):
    input_id: str
    attempt_id: str
    duplicate: bool
    accepted: bool = True


class SignalAccepted(msgspec.Struct):
    accepted: bool = True


class Resized(msgspec.Struct):
    resized: bool = True


async def list_sessions(call: Call) -> SessionList:
    limit = call.number(LIMIT) or MAX_LIST
    found = _matching(call)
    if cursor := call.text(CURSOR):
        position = _parse_position(cursor)
        found = [session for session in found if _position(session) > position]
    page = SessionList([session.view() for session in found[:limit]])
    if call.text(USAGE) == "true":
        async with trio.open_nursery() as nursery:  # at once: then they share one look at /proc
            for session, view in zip(found, page.sessions, strict=False):
                nursery.start_soon(_add_usage, session, view)
    if len(found) > limit:
        created_at_ns, session_id = _position(found[limit - 1])
        page.next_cursor = f"{created_at_ns}.{session_id}"
    return page


async def create_session(call: Call) -> Reply:
    key = call.idempotency_key
    _check_limits(call, UNSET)
    session, new = await call.sandbox.create(call.body, idempotency_key=key)
    return Reply(session.view(), 201 if new else 200)


async def get_session(call: Call) -> SessionView:
    """With `?usage=true` also what its processes use: not always, since it may take a look at all
    of /proc."""
    view = call.session.view()
    if call.text(USAGE) == "true":
        await _add_usage(call.session, view)
    return view


async def _add_usage(session: Session, view: SessionView) -> None:
    usage = await session.usage()
    if usage is not None:
        cpu = round(usage.cpu_seconds, 3)
        view.usage = UsageView(cpu, usage.resident_bytes, usage.processes)


async def update_session(call: Call) -> SessionView:
    _check_limits(call, call.session.record.spec.limits)
    await call.session.update(call.body)
    return call.session.view()


async def delete_session(call: Call) -> Deleted:
    await call.session.delete()
    return Deleted()


async def set_desired_state(call: Call) -> SessionView:
    if call.body.desired is DesiredState.RUNNING:
        await call.session.start()
    else:
        await call.session.stop()
    return call.session.view()


async def kill_session(call: Call) -> SessionView:
    """End it for good: the signal to every process, SIGKILL after the grace; answers when the
    signal has been sent."""
    body: KillBody = call.body
    await call.session.kill(body.signum, body.grace)
    return call.session.view()


async def create_attempt(call: Call) -> SessionView:
    await call.session.create_attempt(replace_current=bool(call.body.replace_current))
    return call.session.view()


async def write_input(call: Call) -> InputAccepted:
    body: InputBody = call.body
    accepted = await call.session.input(
        body.input_id, body.data(), eof=bool(body.eof), attempt_id=body.expected_attempt_id
    )
    return InputAccepted(body.input_id, accepted.attempt_id, accepted.duplicate)


async def send_signal(call: Call) -> SignalAccepted:
    signum = parse_signal(call.body.signal)
    await call.session.signal(signum, attempt_id=call.body.expected_attempt_id)
    return SignalAccepted()


async def resize_terminal(call: Call) -> Resized:
    body: ResizeBody = call.body
    await call.session.resize(body.rows, body.cols, attempt_id=body.expected_attempt_id)
    return Resized()


def _check_limits(call: Call, present: LimitsSpec | UnsetType) -> None:
    """Limits are an admin's: to set, to change, and to take away."""
    wanted = call.body.limits
    if wanted != present and (wanted or present) and not call.may(Verb.ADMIN):
        raise Forbidden("limits: this token may not set or change them")


def _matching(call: Call) -> list[Session]:
    name, phase = call.text(NAME), call.text(PHASE)
    return [
        session
        for session in call.sandbox.sessions()
        if (not name or session.record.spec.name == name)
        and (not phase or session.record.phase == phase)
    ]


def _position(session: Session) -> tuple[int, str]:
    """Where a session stands in the list; the oldest come first."""
    return session.record.created_at_ns, session.id


def _parse_position(cursor: str) -> tuple[int, str]:
    match = _POSITION.match(cursor)
    if match is None:
        raise InvalidRequest("cursor: must be a next_cursor of an earlier answer")
    return int(match[1]), match[2]
