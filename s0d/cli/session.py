"""`s0d session ...`: every verb of the sessions API.

A table is printed for a person; `-o json` prints the API's own object, or an array of them.
"""

from __future__ import annotations

import base64
import sys
import uuid
from typing import Any

import click
import msgspec

from .errors import CliError, UsageError
from .events import Event, Follower
from .following import SessionGone
from .options import Common, connection_options, session_argument
from .patience import patience
from .render import event_line, notice, print_json, print_session, print_sessions
from .spec import choose, spec_options
from .terminal import export, keys, screen, wait


@click.group()
@connection_options
def session(common: Common) -> None:
    """Make, look at and control sessions.

    s0d session create --name web -- python3 -m http.server
    """


def _show(common: Common, value: dict[str, Any]) -> None:
    (print_json if common.json else print_session)(value)


def _confirm(common: Common, value: dict[str, Any], text: str) -> None:
    if common.json:
        print_json(value)
    else:
        click.echo(text)


@session.command()
@connection_options
@spec_options
@click.option("-f", "--spec-file", metavar="FILE", help="Complete, YAML or JSON; - for stdin.")
@click.option("--idempotency-key", metavar="KEY", help="Makes a retry safe.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def create(
    common: Common,
    command: tuple[str, ...],
    spec_file: str | None,
    idempotency_key: str | None,
    **flags: Any,
) -> None:
    """Create a session and start it.

    s0d session create --name web --restart always -- python3 -m http.server
    """
    _show(common, common.client.create(choose(command, spec_file, flags), idempotency_key))


@session.command("list")
@connection_options
def list_(common: Common) -> None:
    """List sessions, oldest first.

    s0d session list -o json
    """
    sessions = common.client.list()
    (print_json if common.json else print_sessions)(sessions)


@session.command()
@connection_options
@session_argument
def get(common: Common, id: str) -> None:
    """Show phase, attempt, generation and cursor.

    s0d session get web
    """
    _show(common, common.client.get(id))


@session.command()
@connection_options
@spec_options
@click.option("-f", "--spec-file", metavar="FILE", help="Complete, YAML or JSON; - for stdin.")
@session_argument
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def update(
    common: Common, id: str, command: tuple[str, ...], spec_file: str | None, **flags: Any
) -> None:
    """Replace the complete specification.

    s0d session update web --spec-file session.yaml
    """
    _show(common, common.client.update(id, choose(command, spec_file, flags)))


@session.command()
@connection_options
@session_argument
def start(common: Common, id: str) -> None:
    """Set the desired state to running.

    s0d session start web
    """
    _show(common, common.client.set_desired_state(id, "running"))


@session.command()
@connection_options
@session_argument
def stop(common: Common, id: str) -> None:
    """Set the desired state to stopped; answers when every process has ended.

    s0d session stop web
    """
    with patience(f"waiting for the processes of {id}"):
        answer = common.client.set_desired_state(id, "stopped")
    _show(common, answer)


@session.command()
@connection_options
@click.option("--replace", is_flag=True, help="End a running attempt first.")
@session_argument
def attempt(common: Common, id: str, replace: bool) -> None:
    """Start a new attempt.

    s0d session attempt web --replace
    """
    _show(common, common.client.create_attempt(id, replace))


@session.command("input")
@connection_options
@click.option("--data", metavar="TEXT", help="As it is, no newline added.")
@click.option("--data-base64", metavar="BASE64")
@click.option("-f", "--file", metavar="FILE", help="Its bytes; - for stdin.")
@click.option("--eof", is_flag=True, help="Close stdin after it.")
@click.option("--input-id", metavar="ID", help="Makes a retry safe; default: a new one.")
@click.option("--attempt-id", metavar="ID", help="Refuse any other attempt.")
@session_argument
def input_(
    common: Common,
    id: str,
    data: str | None,
    data_base64: str | None,
    file: str | None,
    eof: bool,
    input_id: str | None,
    attempt_id: str | None,
) -> None:
    """Send bytes or the end of file to standard input.

    s0d session input web --data $'hello\\n' --eof
    """
    if sum(source is not None for source in (data, data_base64, file)) > 1:
        raise UsageError("give one of --data, --data-base64 and --file")
    body: dict[str, Any] = {"input_id": input_id or f"cli-{uuid.uuid4()}"}
    if attempt_id is not None:
        body["expected_attempt_id"] = attempt_id
    encoded = data_base64 if data_base64 is not None else _encoded(data, file)
    if encoded:
        body["data_base64"] = encoded
    if eof:
        body["eof"] = True
    if len(body.keys() & {"data_base64", "eof"}) == 0:
        raise UsageError("give --data, --data-base64, --file or --eof")
    answer = common.client.input(id, body)
    again = " (already accepted before)" if answer["duplicate"] else ""
    _confirm(common, answer, f"accepted by {answer['attempt_id']}{again}")


def _encoded(data: str | None, file: str | None) -> str:
    return base64.b64encode(_bytes(data, file)).decode("ascii")


def _bytes(data: str | None, file: str | None) -> bytes:
    if data is not None:
        return data.encode("utf-8", "surrogateescape")
    if file is None:
        return b""
    if file == "-":
        return sys.stdin.buffer.read()
    try:
        with open(file, "rb") as opened:
            return opened.read()
    except OSError as error:
        raise CliError(f"{file}: {error.strerror}") from None


@session.command("signal")
@connection_options
@click.option("--attempt-id", metavar="ID", help="Refuse any other attempt.")
@session_argument
@click.argument("name", metavar="SIGNAL")
def signal_(common: Common, id: str, name: str, attempt_id: str | None) -> None:
    """Signal the current attempt.

    s0d session signal web HUP
    """
    body = {"signal": name} | ({"expected_attempt_id": attempt_id} if attempt_id else {})
    _confirm(common, common.client.signal(id, body), f"sent {name}")


@session.command()
@connection_options
@click.option("--attempt-id", metavar="ID", help="Refuse any other attempt.")
@session_argument
@click.argument("rows", type=int)
@click.argument("cols", type=int)
def resize(common: Common, id: str, rows: int, cols: int, attempt_id: str | None) -> None:
    """Resize the terminal.

    s0d session resize web 50 132
    """
    expected = {"expected_attempt_id": attempt_id} if attempt_id else {}
    answer = common.client.resize(id, {"rows": rows, "cols": cols} | expected)
    _confirm(common, answer, f"resized to {rows}x{cols}")


@session.command()
@connection_options
@click.option("--after", type=int, metavar="SEQ", help="Only what came after it.")
@click.option("--limit", type=int, metavar="N", help="At most so many (not with --follow).")
@click.option("-f", "--follow", is_flag=True, help="Go on with live events.")
@click.option("--last-event-id", type=int, metavar="SEQ", help="As a browser would resume.")
@session_argument
def events(
    common: Common,
    id: str,
    after: int | None,
    limit: int | None,
    follow: bool,
    last_event_id: int | None,
) -> None:
    """Replay events, and follow them; the first column is the sequence.

    s0d session events web --after 2 --follow
    """
    if follow and limit is not None:
        raise UsageError("--limit does not go with --follow")
    if last_event_id is not None and not follow:
        raise UsageError("--last-event-id needs --follow")
    if not follow:
        _page(common, id, after, limit)
        return
    try:
        for event in Follower(common.client, id, after, last_event_id=last_event_id, notice=notice):
            click.echo(bytes(event.raw) if common.json else event_line(event))
    except SessionGone as gone:
        notice(str(gone))


def _page(common: Common, id: str, after: int | None, limit: int | None) -> None:
    page = common.client.events(id, after, limit)
    if common.json:
        print_json(page["events"])
        return
    for event in msgspec.convert(page["events"], list[Event]):
        click.echo(event_line(event))


@session.command()
@connection_options
@session_argument
def delete(common: Common, id: str) -> None:
    """Stop the session and remove it with its events.

    s0d session delete web
    """
    with patience(f"waiting for the processes of {id}"):
        answer = common.client.delete(id)
    _confirm(common, answer, f"deleted {id}")


for command in (export, keys, screen, wait):
    session.add_command(command)
