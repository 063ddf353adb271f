"""`s0d start, stop, restart, kill, rm, inspect, wait`: what is done to sessions by their names."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, Final

import click

from .duration import SECONDS
from .ending import ending, exit_code_of
from .errors import ApiError, NotFound, TimedOut, UsageError
from .options import Common, complete_session, connection_options, session_argument
from .patience import patience
from .render import notice, print_json

Json = dict[str, Any]

AT_REST: Final = ("exited", "failed", "stopped")
_names = click.argument(
    "ids", metavar="NAME|ID...", nargs=-1, required=True, shell_complete=complete_session
)


def each(
    common: Common, ids: Iterable[str], do: Callable[[str], Json], text: str, doing: str = ""
) -> int:
    """Do something to each; those that fail are told, the others are done.  The exit code is the
    first failure's."""
    code, done = 0, []
    for id in ids:
        try:
            with patience(f"{doing} {id}" if doing else ""):
                answer = do(id)
        except (ApiError, NotFound, UsageError) as error:
            notice(f"{id}: {error}")
            code = code or error.exit_code
            continue
        done.append(answer)
        if not common.json:
            click.echo(text.format(id=id))
    if common.json:
        print_json(done)
    return code


@click.command()
@connection_options
@_names
@click.pass_context
def start(ctx: click.Context, /, common: Common, ids: tuple[str, ...]) -> None:
    """Start sessions that are at rest.

    s0d start web
    """
    do = partial(common.client.set_desired_state, state="running")
    ctx.exit(each(common, ids, do, "{id} started"))


@click.command()
@connection_options
@_names
@click.pass_context
def stop(ctx: click.Context, /, common: Common, ids: tuple[str, ...]) -> None:
    """Stop sessions; answers when every process of them has ended. They are kept.

    s0d stop web
    """
    do = partial(common.client.set_desired_state, state="stopped")
    ctx.exit(each(common, ids, do, "{id} stopped", "waiting for the processes of"))


@click.command()
@connection_options
@_names
@click.pass_context
def restart(ctx: click.Context, /, common: Common, ids: tuple[str, ...]) -> None:
    """End what runs of sessions, and start them anew.

    s0d restart web
    """
    do = partial(common.client.create_attempt, replace=True)
    ctx.exit(each(common, ids, do, "{id} restarted", "waiting for the processes of"))


@click.command()
@connection_options
@click.option(
    "-s",
    "--signal",
    "name",
    type=click.Choice(["TERM", "KILL", "INT", "HUP"]),
    default="TERM",
    show_default=True,
    help="The first signal.",
)
@click.option(
    "--grace", type=SECONDS, default=5, show_default=True, help="Then SIGKILL to what still lives."
)
@_names
@click.pass_context
def kill(
    ctx: click.Context, /, common: Common, ids: tuple[str, ...], name: str, grace: int
) -> None:
    """End sessions for good, without waiting for it; every process gets the signal.

    To signal one without ending the session: s0d session signal.

    s0d kill web --signal INT
    """
    body = {"signal": name, "grace_ms": grace * 1000}
    ctx.exit(each(common, ids, lambda id: common.client.kill(id, body), f"{{id}}: sent {name}"))


@click.command()
@connection_options
@click.option("-f", "--force", is_flag=True, help="Also what has not ended; it is ended first.")
@_names
@click.pass_context
def rm(ctx: click.Context, /, common: Common, ids: tuple[str, ...], force: bool) -> None:
    """Remove sessions with their events.

    s0d rm --force web
    """

    def remove(id: str) -> Json:
        if not force:
            phase = common.client.get(id)["phase"]
            if phase not in AT_REST:
                raise ApiError(409, "session_live", f"it is {phase}: stop it, or use --force")
        return {"id": id, **common.client.delete(id)}

    ctx.exit(each(common, ids, remove, "{id} removed", "waiting for the processes of"))


@click.command()
@connection_options
@_names
@click.pass_context
def inspect(ctx: click.Context, /, common: Common, ids: tuple[str, ...]) -> None:
    """Print all that is known of sessions, as JSON: an object, or an array for several.

    s0d inspect web
    """
    code, found = 0, []
    for id in ids:
        try:
            found.append(common.client.get(id, usage=True))
        except (ApiError, NotFound, UsageError) as error:
            notice(f"{id}: {error}")
            code = code or error.exit_code
    if len(ids) > 1:
        print_json(found)
    elif found:
        print_json(found[0])
    ctx.exit(code)


@click.command()
@connection_options
@click.option("--timeout", type=SECONDS, metavar="TIME", help="Then exit with 124.")
@session_argument
@click.pass_context
def wait(ctx: click.Context, /, common: Common, id: str, timeout: int | None) -> None:
    """Wait for a session's end, past all its restarts, and exit with its exit code.

    For other things to wait for: s0d session wait.

    s0d wait job --timeout 10m
    """
    session = _at_rest(common, id, timeout)
    if common.json:
        print_json(session)
    else:
        notice(f"{id} {ending(session)}")
    ctx.exit(exit_code_of(session))


_ROUND: Final = 60.0  # seconds that one request waits


def _at_rest(common: Common, id: str, timeout: int | None) -> Json:
    deadline = None if timeout is None else time.monotonic() + timeout
    while True:
        session = common.client.get(id)
        if session["phase"] in AT_REST:
            return session
        left = _ROUND if deadline is None else min(_ROUND, deadline - time.monotonic())
        if left <= 0:
            raise TimedOut(f"{id} is {session['phase']} after {timeout} s")
        try:
            common.client.wait(
                id, {"for": {"phase": list(AT_REST)}, "timeout_ms": int(left * 1000)}
            )
        except ApiError as error:
            if error.code != "wait_timeout":
                raise
