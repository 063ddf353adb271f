"""The tools of sessions, beside `session_output`."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Final

from msgspec import UNSET
from pybase64 import b64encode

from s0d.wire.named import Status

from .arguments import (
    SessionCreate,
    SessionInput,
    SessionKeys,
    SessionKill,
    SessionList,
    SessionScreen,
    SessionWait,
    given,
)
from .calls import Calls, Json, checked_name
from .errors import ToolError, invalid
from .output import parse_cursor

_LISTED: Final = 30
_MAX_COMMAND: Final = 200
_MAX_SCREEN: Final = 64 << 10
_TERMINAL: Final = frozenset(status for status in Status if status.terminal)


async def session_create(calls: Calls, sent: SessionCreate) -> Json:
    body = given(
        name=sent.name,
        cmd=sent.cmd,
        env=sent.env,
        path=sent.path or _path(calls, sent.sandbox),
        cols=sent.cols,
        rows=sent.rows,
        replace=sent.replace,
    )
    answer = await calls.named(sent.sandbox, "POST", "/sessions", body)
    return {"session": _small(answer["session"])}


def _path(calls: Calls, sandbox_id: str | None) -> Any:
    """Where a command runs that names no place: a sandbox of its own has a root of its own."""
    return UNSET if calls.path is None or sandbox_id else calls.path


async def session_list(calls: Calls, sent: SessionList) -> Json:
    """All that the surface answers where that is not much, else the live and the newest."""
    answer = await calls.named(sent.sandbox, "GET", "/sessions")
    sessions, most = answer["sessions"], sent.limit or _LISTED
    kept = _most_useful(sessions, most)
    listed = [_small(info) for at, info in enumerate(sessions) if at in kept]
    shown: Json = {"sessions": listed, "sandbox_suspended": answer["sandbox_suspended"]}
    if len(listed) < len(sessions):
        shown["left_out"] = len(sessions) - len(listed)
    return shown


def _most_useful(sessions: list[Json], most: int) -> set[int]:
    """The places of live ones, then of the newest."""
    live = [at for at, info in enumerate(sessions) if info["status"] not in _TERMINAL]
    ended = [at for at, info in enumerate(sessions) if info["status"] in _TERMINAL]
    ranked: Iterable[int] = (*reversed(live), *reversed(ended))
    return set(list(ranked)[:most])


def _small(info: Json) -> Json:
    """Session information with a command of bounded length."""
    room, command = _MAX_COMMAND, []
    for argument in info["command"]:
        if len(argument) > room:
            command.append(argument[:room] + "...")
            break
        command.append(argument)
        room -= len(argument)
    return {**info, "command": command}


async def session_kill(calls: Calls, sent: SessionKill) -> Json:
    body = given(signal=sent.signal, grace_ms=sent.grace_ms)
    path = f"/sessions/{checked_name(sent.name)}/kill"
    answer = await calls.named(sent.sandbox, "POST", path, body)
    return {"session": _small(answer["session"])}


async def session_screen(calls: Calls, sent: SessionScreen) -> Json:
    session = await calls.find(sent.sandbox, sent.name)
    scrollback = sent.scrollback or 0
    screen = await calls.of_session(session, "GET", f"/screen?scrollback={scrollback}")
    text = _text(screen["lines"])
    shown: Json = {"text": text[:_MAX_SCREEN]}
    if len(text) > _MAX_SCREEN:
        shown["left_out"] = len(text) - _MAX_SCREEN
    if scrollback:
        shown["scrollback"] = _text(screen["scrollback"])[-_MAX_SCREEN:]
    cursor = screen["cursor"]
    shown |= {
        "rows": screen["rows"],
        "cols": screen["cols"],
        "cursor": {"row": cursor["row"], "col": cursor["col"]},
    }
    if screen["title"]:
        shown["title"] = screen["title"]
    if screen["alternate"]:
        shown["full_screen_program"] = True
    return {**shown, **session.state()}


def _text(lines: list[list[Json]]) -> str:
    """Lines without the blanks at their ends, and without the blank ones at the bottom."""
    return "\n".join("".join(run["text"] for run in line).rstrip() for line in lines).rstrip()


async def session_input(calls: Calls, sent: SessionInput) -> Json:
    if sent.text is not UNSET and sent.data_base64 is not UNSET:
        raise invalid("text: cannot go with data_base64")
    data = sent.data_base64
    if sent.text is not UNSET:
        data = b64encode(_utf8(sent.text)).decode()
    if not data and not sent.eof:
        raise invalid("text: an input needs text, data_base64 or eof")
    session = await calls.find(sent.sandbox, sent.name)
    body = given(data_base64=data, eof=sent.eof, input_id=sent.input_id or f"mcp-{uuid.uuid4()}")
    accepted = await calls.of_session(session, "POST", "/inputs", body)
    return _accepted(accepted, session.latest)


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise invalid("text: must be valid Unicode") from None


async def session_keys(calls: Calls, sent: SessionKeys) -> Json:
    session = await calls.find(sent.sandbox, sent.name)
    accepted = await calls.of_session(session, "POST", "/keys", {"keys": sent.keys})
    return _accepted(accepted, session.latest)


def _accepted(accepted: Json, before: int) -> Json:
    """`cursor` lies before whatever the input causes."""
    shown: Json = {"accepted": True, "cursor": str(before)}
    if accepted["duplicate"]:
        shown["duplicate"] = True
    return shown


async def session_wait(calls: Calls, sent: SessionWait) -> Json:
    wanted = given(
        exit=sent.exit,
        output=_pattern(sent, sent.output),
        screen=_pattern(sent, sent.screen),
        port=sent.port,
    )
    if not wanted:
        raise invalid("exit: say what to wait for: one of exit, output, screen, port")
    if sent.after is not UNSET and sent.after != "":
        if "output" not in wanted:
            raise invalid("after: goes with output")
        wanted["after"] = parse_cursor(sent.after).seq
    session = await calls.find(sent.sandbox, sent.name)
    body = {"for": wanted, **given(timeout_ms=sent.timeout_ms)}
    try:
        match = await calls.of_session(session, "POST", "/wait", body)
    except ToolError as error:
        raise _without_prefix(error) from None
    match.pop("attempt_id", None)
    return match


def _pattern(sent: SessionWait, text: Any) -> Any:
    return {"regex": text} if sent.regex is True and text is not UNSET else text


def _without_prefix(error: ToolError) -> ToolError:
    """The fields here are those that stand in the route's `for`."""
    message = error.message.removeprefix("for.").removeprefix("for: ")
    return ToolError(error.code, message, error.details)
