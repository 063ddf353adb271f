"""`s0d session screen, wait, keys, export`: what a terminal shows, and how a script uses it."""

from __future__ import annotations

import sys
from functools import partial
from typing import IO, Any, Final

import click

from .duration import SECONDS
from .errors import CliError, UsageError, one_line
from .following import SessionGone
from .options import Common, connection_options, session_argument
from .picture import ENTER, LEAVE, ScreenFollower, draw
from .render import notice, print_json

Json = dict[str, Any]

_FORMATS: Final = ("text", "ansi", "html", "json")
_RECORDINGS: Final = ("asciicast", "asciicast-v2", "asciicast-v3")


@click.command()
@connection_options
@click.option("--format", "form", type=click.Choice(_FORMATS), help="Default: text.")
@click.option("--scrollback", type=click.IntRange(0, 1000), metavar="N", help="Lines above, too.")
@click.option("-f", "--follow", is_flag=True, help="Draw it as it changes; Ctrl-C ends.")
@session_argument
def screen(common: Common, id: str, form: str | None, scrollback: int | None, follow: bool) -> None:
    """Show what the session's terminal shows.

    s0d session screen web --format ansi
    """
    if follow and (form not in (None, "json") or scrollback is not None):
        raise UsageError("--follow draws the screen, or prints frames with -o json")
    as_json = common.json or form == "json"
    if follow:
        _follow(common, id, as_json)
    elif as_json:
        print_json(common.client.screen(id, scrollback))
    else:
        click.echo(common.client.rendered_screen(id, form or "text", scrollback), nl=False)


def _follow(common: Common, id: str, as_json: bool) -> None:
    frames = ScreenFollower(common.client, id, notice)
    try:
        if as_json:
            for _, data in frames:
                click.echo(data)
        else:
            _draw(frames)
    except SessionGone as gone:
        notice(str(gone))


def _draw(frames: ScreenFollower) -> None:
    entered = False
    try:
        for kind, data in frames:
            if not entered:
                click.echo(ENTER, nl=False, color=True)
                entered = True
            click.echo(draw(kind, data), nl=False, color=True)
    finally:
        if entered:
            click.echo(LEAVE, nl=False, color=True)


@click.command()
@partial(connection_options, output=("-o", "output"))
@click.option("--phase", multiple=True, metavar="PHASE", help="Any of them; may be repeated.")
@click.option("--exit", "exit_", is_flag=True, help="The attempt has ended.")
@click.option("--output", "written", metavar="TEXT", help="TEXT has been written.")
@click.option("--screen", "shown", metavar="TEXT", help="TEXT stands on the terminal's screen.")
@click.option("--port", type=click.IntRange(1, 65535), help="Something listens on the TCP port.")
@click.option("--regex", is_flag=True, help="TEXT is a regular expression (RE2).")
@click.option("--stream", type=click.Choice(["stdout", "stderr", "pty"]), help="With --output.")
@click.option("--after", type=int, metavar="SEQ", help="Only output beyond it.")
@click.option("--timeout", type=SECONDS, default=30, help="Default: 30s.")
@session_argument
def wait(
    common: Common,
    id: str,
    phase: tuple[str, ...],
    exit_: bool,
    written: str | None,
    shown: str | None,
    port: int | None,
    regex: bool,
    stream: str | None,
    after: int | None,
    timeout: int,
) -> None:
    """Wait until something is true of the session, of several the first; 124 after --timeout.

    s0d session wait web --output 'listening on' --timeout 1m
    """
    wanted: Json = {
        "phase": list(phase) or None,
        "exit": exit_ or None,
        "output": _pattern(written, regex),
        "screen": _pattern(shown, regex),
        "port": port,
    }
    wanted = {name: value for name, value in wanted.items() if value is not None}
    if not wanted:
        raise UsageError("give one of --phase, --exit, --output, --screen, --port")
    if written is None and (stream is not None or after is not None):
        raise UsageError("--stream and --after go with --output")
    wanted |= {k: v for k, v in {"stream": stream, "after": after}.items() if v is not None}
    answer = common.client.wait(id, {"for": wanted, "timeout_ms": timeout * 1000})
    if common.json:
        print_json(answer)
    else:
        click.echo(_matched(answer))


def _pattern(text: str | None, regex: bool) -> str | Json | None:
    return {"regex": text} if regex and text is not None else text


def _matched(answer: Json) -> str:
    what = next((answer[key] for key in ("text", "port", "exit_code") if key in answer), None)
    if what is None:
        what = answer.get("reason", answer.get("phase", ""))
    seconds = answer["elapsed_ms"] / 1000
    return f"{answer['matched']}: {one_line(str(what))} (event {answer['seq']}, {seconds:.1f} s)"


@click.command()
@connection_options
@click.option("--literal", is_flag=True, help="Each KEY is text, also where it is a key's name.")
@click.option("--paste", metavar="TEXT", help="Paste TEXT, after the keys.")
@click.option("--input-id", metavar="ID", help="Makes a retry safe; default: a new one.")
@click.option("--attempt-id", metavar="ID", help="Refuse any other attempt.")
@session_argument
@click.argument("keys", metavar="[KEY]...", nargs=-1, type=click.UNPROCESSED)
def keys(
    common: Common,
    id: str,
    keys: tuple[str, ...],
    literal: bool,
    paste: str | None,
    input_id: str | None,
    attempt_id: str | None,
) -> None:
    """Press keys: names as in tmux (Enter, C-c, M-x, S-Up, F5), and text between them.

    s0d session keys web 'make test' Enter
    """
    items: list[str | Json] = [{"text": key} if literal else key for key in keys]
    if paste is not None:
        items.append({"paste": paste})
    if not items:
        raise UsageError("give a KEY, or --paste")
    given = {"input_id": input_id, "expected_attempt_id": attempt_id}
    body: Json = {"keys": items} | {k: v for k, v in given.items() if v is not None}
    answer = common.client.keys(id, body)
    if common.json:
        print_json(answer)
    else:
        again = " (already accepted before)" if answer["duplicate"] else ""
        click.echo(f"accepted by {answer['attempt_id']}{again}")


@click.command()
@connection_options
@click.option("--format", "form", type=click.Choice(_RECORDINGS), help="Default: asciicast (v2).")
@click.option(
    "--input",
    "inputs",
    is_flag=True,
    help="With what was typed, where that is retained.",
)
@click.option("--attempt-id", metavar="ID", help="Default: the newest attempt.")
@session_argument
@click.argument("file", type=click.Path(dir_okay=False, allow_dash=True))
def export(
    common: Common, id: str, form: str | None, inputs: bool, attempt_id: str | None, file: str
) -> None:
    """Write the terminal's history as a recording that asciinema plays; - for stdout.

    s0d session export web demo.cast
    """
    version = "asciicast-v3" if form == "asciicast-v3" else "asciicast-v2"
    with common.client.recording(id, version, inputs, attempt_id) as response:
        if file == "-":
            _copy(response.chunks(), sys.stdout.buffer)
            return
        try:
            with open(file, "wb") as opened:
                _copy(response.chunks(), opened)
        except OSError as error:
            raise CliError(f"{file}: {error.strerror}") from None


def _copy(chunks: Any, to: IO[bytes]) -> None:
    for chunk in chunks:
        to.write(chunk)
    to.flush()
