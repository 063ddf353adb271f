"""`s0d run`: make a session, follow its output to the end, exit as the command did."""

from __future__ import annotations

import os
import shutil
import sys
import time
import uuid
from binascii import a2b_base64
from typing import Any

import click

from .background import start_and_say
from .client import Client
from .errors import ApiError, CliError, ConnectionLost, Unreachable
from .events import Event, Follower
from .feed import Feed, worth_forwarding
from .following import PATIENCE, SessionGone
from .options import Common, connection_options
from .render import notice
from .spec import from_flags, spec_options
from .target import Target

Json = dict[str, Any]

_AT_REST = ("exited", "failed", "stopped")
_MAYBE_THE_END = ("attempt.exited", "session.failed", "session.stopped")
_LOOK_PAUSE = 0.1
INTERRUPTED = 130
CANNOT_START = 127


@click.command(context_settings={"allow_interspersed_args": False})
@connection_options
@spec_options
@click.option("--rm", is_flag=True, help="Delete the session when the command has ended.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED)
@click.pass_context
def run(
    ctx: click.Context, /, common: Common, command: tuple[str, ...], rm: bool, **flags: Any
) -> None:
    """Run a command in a new session, follow its output, exit with its exit code.

    Ctrl-C only detaches. Standard input is forwarded unless it is a terminal.

    s0d run --rm -- sh -c 'echo hello; sleep 1; echo bye'
    """
    client = common.client
    session = _create(client, _spec(client.target, command, flags))["id"]
    ctx.exit(_follow(client, session, rm))


def _spec(target: Target, command: tuple[str, ...], flags: dict[str, Any]) -> Json:
    """Beside what flags say: our own directory on the same machine, our own terminal's size."""
    if flags["cwd"] is None and target.socket:
        flags["cwd"] = os.getcwd()
    if flags["pty"] and sys.stdout.isatty():
        size = shutil.get_terminal_size()
        flags["rows"] = flags["rows"] or size.lines
        flags["cols"] = flags["cols"] or size.columns
        flags["term"] = flags["term"] or os.environ.get("TERM")
    return from_flags(command, flags)


def _create(client: Client, spec: Json) -> Json:
    """Start a daemon first where only the default socket was meant and nobody answers there.

    With an idempotency key: after a broken connection the same request is safe again.
    """
    key = f"run-{uuid.uuid4()}"
    try:
        return client.create(spec, key)
    except ConnectionLost:
        pass
    except Unreachable:
        if not client.target.is_default:
            raise
        start_and_say(client.target)
    return client.create(spec, key)


def _follow(client: Client, session: str, rm: bool) -> int:
    run = _Run(client, session)
    try:
        code = run.to_the_end()
        if rm:
            client.delete(session)
    except KeyboardInterrupt:
        notice(f"detached, {session} goes on; {run.way_back}")
        return INTERRUPTED
    except (Unreachable, ConnectionLost) as error:
        lost = CliError(f"{error}; {session} is kept, {run.way_back}")
        lost.exit_code = error.exit_code
        raise lost from None
    except BrokenPipeError:
        notice(f"nobody reads the output any more, {session} goes on; {run.way_back}")
        raise
    except OSError as error:
        why = f"the output cannot be written: {error.strerror}"
        raise CliError(f"{why}; {session} goes on, {run.way_back}") from None
    return code


class _Run:
    """Following one session: output to our own, an exit code in the end."""

    def __init__(self, client: Client, session: str) -> None:
        self._client = client
        self._session = session
        self._follower = Follower(client, session, notice=notice)
        self._feed = Feed(client, session, 0) if worth_forwarding(0) else None
        self._exit: Event | None = None

    @property
    def way_back(self) -> str:
        after = self._follower.seq or 0
        return f"follow it with: s0d session events {self._session} --after {after} --follow"

    def to_the_end(self) -> int:
        try:
            for event in self._follower:
                if event.data_base64 is not None:
                    _write(event)
                elif event.type == "attempt.started" and self._feed and event.attempt_id:
                    self._feed.begin(event.attempt_id)
                elif event.type in _MAYBE_THE_END and self._ended(event):
                    break
        except SessionGone as gone:
            notice(str(gone))
        if self._feed and self._feed.error:
            notice(f"stdin was not forwarded to its end: {self._feed.error}")
        return self._code()

    def _ended(self, event: Event) -> bool:
        """Has the session come to rest?  The phase says: a restart may follow an exit."""
        if event.type == "attempt.exited":
            self._exit = event
        session = self._look()
        if session["phase"] not in _AT_REST or session["cursor"]["latest"] > event.seq:
            return False  # more is coming, and what comes may be the end
        self._explain(session)
        return True

    def _look(self) -> Json:
        """The session as it is, from a daemon that may just be restarting."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._client.get(self._session)
            except ApiError as error:
                if error.code == "session_not_found":
                    raise SessionGone("the session was deleted") from None
                if error.status not in (429, 503) or time.monotonic() > deadline:
                    raise
            except (Unreachable, ConnectionLost):
                if time.monotonic() > deadline:
                    raise
            time.sleep(_LOOK_PAUSE)  # nothing to wait for: the daemon may not even be running

    def _explain(self, session: Json) -> None:
        """What the exit code alone does not tell."""
        attempt = session.get("attempt", {})
        reason = attempt.get("reason", "exited")
        if reason not in ("exited", "signaled"):
            message = attempt.get("message")
            notice(f"{reason}: {message}" if message else reason)

    def _code(self) -> int:
        if self._exit is None:
            return 1
        if self._exit.exit_code is None:
            return CANNOT_START
        return self._exit.exit_code


def _write(event: Event) -> None:
    """The bytes as they were, at once and to the stream they came from."""
    data = memoryview(a2b_base64(event.data_base64 or ""))
    fd = 2 if event.stream == "stderr" else 1
    while data:
        data = data[os.write(fd, data) :]
