"""`s0d attach`: a session's terminal in one's own, or its output and input in pipes."""

from __future__ import annotations

import os
import signal
import stat
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click

from .client import Client
from .detach import DEFAULT_KEYS, DetachKeys, describe
from .ending import CANNOT_START, ending
from .errors import ApiError, CliError, ConnectionLost, Unreachable, UsageError
from .feed import worth_forwarding
from .options import Common, connection_options, session_argument
from .render import notice

if TYPE_CHECKING:
    from .plan import End

Json = dict[str, Any]

_INTERRUPTED = 128


@click.command()
@connection_options
@click.option("--read-only", is_flag=True, help="Only look; what is typed goes nowhere.")
@click.option("--takeover", is_flag=True, help="Detach all others.")
@click.option("--no-stdin", is_flag=True, help="Do not forward standard input.")
@click.option(
    "--detach-keys",
    metavar="KEYS",
    envvar="S0D_DETACH_KEYS",
    default=DEFAULT_KEYS,
    show_default=True,
    help="C-x is Ctrl-x; none: no keys.",
)
@session_argument
@click.pass_context
def attach(
    ctx: click.Context,
    /,
    common: Common,
    id: str,
    read_only: bool,
    takeover: bool,
    no_stdin: bool,
    detach_keys: str,
) -> None:
    """Attach to a session: its terminal in yours, or its output and input in pipes.

    Ctrl-] d detaches, the session goes on. Exits as the command did when it ends; with 0 when
    detached. On a terminal the screen is painted first; in pipes what is retained of the output
    (1 MiB at most) comes first, then what is written.

    s0d attach web
    """
    if read_only and takeover:
        raise UsageError("--read-only looks on, --takeover is for working: give one of them")
    keys = DetachKeys(detach_keys)
    client = common.client
    session = client.get(id)
    role = "viewer" if read_only else "takeover" if takeover else "interactive"
    end = _attach(client, session, role, keys, describe(detach_keys), no_stdin)
    ctx.exit(_conclude(client, session, end))


def _attach(
    client: Client, session: Json, role: str, keys: DetachKeys, hint: str, no_stdin: bool
) -> End:
    import trio

    from .attachment import Attachment
    from .plan import Plan
    from .tty import Tty

    has_screen = session["spec"]["io"]["mode"] == "pty"
    on_terminal = os.isatty(0) and os.isatty(1)
    if on_terminal and not has_screen:
        notice(f"attached to {_name(session)}, which has no terminal; Ctrl-C detaches")
    with ExitStack() as stack:
        tty = stack.enter_context(Tty(0, 1)) if on_terminal and has_screen else None
        plan = Plan(
            target=client.target,
            path=client.path(session["id"], "attach"),
            role=role,
            replay="history" if tty is None else "screen",
            tty=tty,
            keys=keys,
            hint=f"{_name(session)}: {hint} detaches" if hint not in ("", "none") else "",
            reads=tty is not None or (role != "viewer" and not no_stdin and _has_input()),
            notice=notice,
        )
        return trio.run(Attachment(plan).run)


def _has_input() -> bool:
    """Is there a standard input?  /dev/null says that there is none, not that it has ended."""
    if not worth_forwarding(0):
        return False
    status = os.fstat(0)
    return not (stat.S_ISCHR(status.st_mode) and status.st_rdev == os.stat(os.devnull).st_rdev)


def _conclude(client: Client, session: Json, end: End) -> int:
    """Say how it ended; the exit code."""
    name = _name(session)
    if end.why == "exit":
        return _exited(client, session, end.frame or {})
    if end.why == "detached":
        notice(f"detached, {name} goes on")
        return 0
    if end.why == "signal":
        notice(f"{signal.Signals(end.signum).name}: detached, {name} goes on")
        return _INTERRUPTED + end.signum
    if end.why == "error":
        assert end.error is not None
        raise end.error
    raise CliError(
        f"another client has taken {name} over" if end.why == "TAKEOVER" else f"{name}: {_GONE}"
    )


_GONE = "the session was deleted"


def _exited(client: Client, session: Json, frame: Json) -> int:
    try:
        now = client.get(session["id"])
    except (ApiError, Unreachable, ConnectionLost):
        code = frame.get("exit_code")
        now = {"attempt": {"exit_code": code}}
    notice(f"{_name(session)} {ending(now)}")
    return int(frame["exit_code"]) if "exit_code" in frame else CANNOT_START


def _name(session: Json) -> str:
    return str(session["spec"].get("name") or session["id"])
