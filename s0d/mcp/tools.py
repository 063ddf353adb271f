"""The table of all tools.  Descriptions are for a model that has read no manual."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from .arguments import (
    Arguments,
    SandboxExec,
    SessionCreate,
    SessionInput,
    SessionKeys,
    SessionKill,
    SessionList,
    SessionOutput,
    SessionScreen,
    SessionWait,
    parse,
    schema,
)
from .calls import Calls
from .errors import ToolError
from .execution import sandbox_exec
from .output import session_output
from .sessions import (
    session_create,
    session_input,
    session_keys,
    session_kill,
    session_list,
    session_screen,
    session_wait,
)

log = logging.getLogger(__name__)

INSTRUCTIONS: Final = """\
Runs programs that outlive this conversation. A session is a program with a name, in a terminal of
its own; it goes on when you do something else, and every byte that it writes is kept.

Short commands: sandbox_exec. Everything that keeps running (servers, watchers, shells, debuggers)
or takes longer than a minute: session_create, then session_wait until it is ready.
Read with session_output (what was written) or session_screen (what a terminal shows now: for
editors, menus, progress displays). Type with session_keys (keys by name) or session_input (text).
To run a command in a shell session: session_keys ["make", "Enter"], then session_wait with output
and the cursor of that answer as after, then session_output with the same after.
End with session_kill what is no longer needed."""


@dataclass(frozen=True)
class Tool:
    """`reads`: changes nothing.  `ends`: may end what runs, or run anything at all."""

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Calls, Any], Awaitable[dict[str, Any]]]
    reads: bool = False
    ends: bool = False

    def schema(self) -> dict[str, Any]:
        return schema(self.arguments)


TOOLS: Final = (
    Tool(
        "session_create",
        "Start a program in the background, in a terminal of its own, under a name that you "
        "choose. Returns at once, whether or not the program is ready: wait for that with "
        "session_wait (for a port, a text, or its end). It goes on until it ends or session_kill "
        "ends it. Fails with session_exists if the name is taken; a session that has ended is "
        "replaced with replace: true, and its output is then gone. status: STARTING, IDLE and "
        "ATTACHED mean that it runs; EXITED, KILLED and FAILED that it has ended.",
        SessionCreate,
        session_create,
        ends=True,
    ),
    Tool(
        "session_list",
        "All sessions of the sandbox with their status and, once ended, their exit code. "
        "Times are nanoseconds since 1970. Changes nothing, and wakes nothing: with "
        "sandbox_suspended: true the sandbox sleeps and the list is from before that.",
        SessionList,
        session_list,
        reads=True,
    ),
    Tool(
        "session_kill",
        "End a session's program and all processes that it started: the signal first, and after "
        "grace_ms SIGKILL for what still lives. Returns when the signal has been sent; to be sure "
        "of the end call session_wait with exit: true. Its output stays readable. Killing an "
        "ended session changes nothing. To interrupt only what runs inside a shell, use "
        'session_keys with ["C-c"] instead.',
        SessionKill,
        session_kill,
        ends=True,
    ),
    Tool(
        "session_screen",
        "What the session's terminal shows right now, as text, with the cursor's place (counted "
        "from 0). The right way to look at full-screen programs (editors, pagers, top) and at a "
        "shell's prompt. For a log that has scrolled by use session_output.",
        SessionScreen,
        session_screen,
        reads=True,
    ),
    Tool(
        "session_output",
        "What the session wrote. Without after: the newest part (earlier_left_out says that there "
        "is more before it). With after: what came after that cursor, in order; more: true says to "
        "call again with the cursor of this answer. after: 0 begins at the beginning. Nothing is "
        "missed or repeated between two calls. Says whether the program still runs (status, as in "
        "session_create) and, if it has ended, its exit_code.",
        SessionOutput,
        session_output,
        reads=True,
    ),
    Tool(
        "session_input",
        "Send text or bytes to the program's standard input, exactly as given. Returns when it is "
        "accepted, not when the program has read it; read its answer with session_output, passing "
        "the cursor of this answer as after. For keys such as Enter, arrows or Ctrl-C use "
        "session_keys.",
        SessionInput,
        session_input,
        ends=True,
    ),
    Tool(
        "session_keys",
        "Press keys in the session's terminal, as a person would: names of keys, and text between "
        "them, encoded as the program expects at the moment. Returns when they are accepted; then "
        "look with session_screen, or session_output with the cursor of this answer as after.",
        SessionKeys,
        session_keys,
        ends=True,
    ),
    Tool(
        "session_wait",
        "Wait until one of the given things is true: the program has ended (exit), it has written "
        "a text (output), its screen shows a text (screen), a TCP port is listened on (port). "
        "Answers which one (matched). Much better than asking again and again. output counts all "
        "that the running program has written so far; to wait for something new pass after. Note "
        "that a terminal echoes what is typed: wait for what only the answer contains; and that "
        "output is matched as written, colours included, screen as it is seen. Give exit: true as "
        "well where the program may fail. After timeout_ms: the error wait_timeout, and nothing "
        "is changed. A wait keeps no sandbox awake: in one that is suspended for quiet "
        "(sandbox_suspended in session_list) the program stands still until input wakes it.",
        SessionWait,
        session_wait,
        reads=True,
    ),
    Tool(
        "sandbox_exec",
        "Run one command to its end and get its exit code, stdout and stderr. It has no terminal. "
        "A non-zero exit_code is a result, not an error. Everything that it started and that "
        "still runs at its end or at timeout_s is ended: to leave something running use "
        "session_create. Long output is shortened in the middle.",
        SandboxExec,
        sandbox_exec,
        ends=True,
    ),
)
_BY_NAME: Final = {tool.name: tool for tool in TOOLS}


async def call(calls: Calls, name: str, arguments: Mapping[str, Any] | None) -> tuple[str, bool]:
    """Run a tool: JSON text, and whether it is an error.  Raises nothing but a cancellation."""
    try:
        tool = _tool(name)
        result = await tool.run(calls, parse(arguments, tool.arguments))
    except ToolError as error:
        return _failed(error)
    except Exception:
        log.exception("tool %s failed", name)
        return _failed(ToolError("internal_error", "the tool failed: the log has more"))
    return _text(result), False


def _tool(name: str) -> Tool:
    if name not in _BY_NAME:
        raise ToolError("unknown_tool", f"there is no tool {name!r}")
    return _BY_NAME[name]


def _failed(error: ToolError) -> tuple[str, bool]:
    return _text(error.view()), True


def _text(value: dict[str, Any]) -> str:
    """Not in ASCII, as everything else that is sent: a model pays for each escape."""
    return msgspec.json.encode(value).decode()
