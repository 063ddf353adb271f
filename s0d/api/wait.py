"""Waiting for a condition over a session (an extension of the wire contract)."""

from __future__ import annotations

from functools import partial

import trio
from msgspec import UNSET, UnsetType

from s0d.model.errors import Unavailable
from s0d.supervisor.patterns import Pattern, Regex, Text
from s0d.supervisor.waiting import (
    Condition,
    Match,
    wait_any,
    wait_exit,
    wait_output,
    wait_phase,
    wait_port,
    wait_screen,
)
from s0d.wire.terminal import For, RegexItem, WaitBody

from .call import Call
from .errors import WaitTimeout


class WaitResult(Match, kw_only=True):
    """The match, and how long it took from the request on (0 where it was true at once)."""

    elapsed_ms: int | UnsetType = UNSET


async def wait(call: Call) -> Match:
    """Until one of the conditions holds; 408 `wait_timeout`, and the client's leaving ends it."""
    body: WaitBody = call.body
    conditions = _conditions(call, body.wanted)
    began = trio.current_time()
    with call.watch.waiting(call.config.max_waits), call.streams.waiting(body.seconds):
        match = await wait_any(conditions)
        return _result(match, trio.current_time() - began)
    if call.streams.stopped:
        raise Unavailable("s0d is shutting down")
    raise WaitTimeout(f"nothing of it came true within {round(body.seconds * 1000)} ms")


def _conditions(call: Call, wanted: For) -> list[Condition]:
    session = call.session
    found: list[Condition] = []
    if wanted.phases:
        found.append(partial(wait_phase, session, frozenset(wanted.phases)))
    if wanted.output is not None:
        pattern = _pattern(wanted.output, "for.output")
        found.append(partial(wait_output, session, pattern, wanted.stream, wanted.after))
    if wanted.screen is not None:
        pattern = _pattern(wanted.screen, "for.screen")
        found.append(partial(wait_screen, session, call.sandbox.screens, pattern))
    if wanted.port is not None:
        found.append(partial(wait_port, session, wanted.port))
    if wanted.exit:
        found.append(partial(wait_exit, session))
    return found


def _pattern(sent: str | RegexItem, field: str) -> Pattern:
    if isinstance(sent, RegexItem):
        return Regex(sent.regex, f"{field}.regex")
    return Text(sent, field)


def _result(match: Match, seconds: float) -> WaitResult:
    fields = {name: getattr(match, name) for name in match.__struct_fields__}
    return WaitResult(**fields, elapsed_ms=round(seconds * 1000))
