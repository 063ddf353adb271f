"""`s0d journal verify` and `s0d journal dump`: journals as files, whether a daemon runs or not."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import click
import msgspec

from .errors import CliError, UsageError, one_line
from .events import Event
from .options import Common
from .render import event_line, print_json, print_table

if TYPE_CHECKING:
    from s0d.daemon.journals import Place, Verdict

_GAP = "journal.gap"


class _Gap(msgspec.Struct):
    """What an event line leaves out of a gap."""

    first: int
    last: int


@click.group()
def journal() -> None:
    """Check, mend and read journals on the disk; no daemon is needed.

    s0d journal verify /var/lib/s0d
    """


@journal.command()
@click.option("--repair", is_flag=True, help="Mend what can be mended; nothing is deleted.")
@click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Default: table.")
@click.argument("paths", metavar="PATH…", nargs=-1, required=True)
@click.pass_context
def verify(ctx: click.Context, /, paths: tuple[str, ...], repair: bool, output: str | None) -> None:
    """Read every record of every journal at or below PATH: a journal, session, sandbox or state
    directory.

    Exits with 0 when all are sound, with 1 when damage was found, mended or not.

    s0d journal verify /var/lib/s0d; s0d journal verify --repair /var/lib/s0d
    """
    places = list(dict.fromkeys(place for path in paths for place in _find(path)))
    verdicts = _verdicts(places, repair)
    if (output or _outer(ctx)) == "json":
        print_json([verdict.to_json() for verdict in verdicts])
    else:
        _print(verdicts)
    ctx.exit(0 if all(verdict.status == "sound" for verdict in verdicts) else 1)


@journal.command()
@click.option("--after", type=click.IntRange(0), default=0, metavar="N", help="Only beyond N.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these; and gaps.")
@click.option("-o", "--output", type=click.Choice(["json", "text"]), help="Default: json.")
@click.argument("path", metavar="PATH")
def dump(path: str, after: int, types: tuple[str, ...], output: str | None) -> None:
    """Print the records of one journal, a line each, as clients get them; what is lost is a
    journal.gap.

    s0d journal dump /var/lib/s0d/sandboxes/local/sessions/ses-… --type output | head
    """
    from s0d.daemon.journals import lines

    places = _find(path)
    if len(places) != 1:
        raise UsageError(f"{path} has {len(places)} journals: name one of them")
    show = _as_text if output == "text" else bytes
    _write(path, show, lines(places[0], after, frozenset(types)))


def _outer(ctx: click.Context) -> str | None:
    """`-o` may be said before the verb."""
    return ctx.obj.output if isinstance(ctx.obj, Common) else None


def _find(path: str) -> list[Place]:
    from s0d.daemon.journals import find
    from s0d.model.errors import InvalidRequest

    try:
        return find(path)
    except InvalidRequest as error:
        raise UsageError(error.message) from None
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _verdicts(places: list[Place], repair: bool) -> list[Verdict]:
    from s0d.daemon.journals import check, mend
    from s0d.model.errors import StateDirectoryError

    if not repair:
        return list(check(places))
    try:
        return mend(places)
    except StateDirectoryError as error:
        # Not 1: nothing is known about the journals.
        raise UsageError(f"nothing was repaired: {error.message}") from None


def _print(verdicts: list[Verdict]) -> None:
    head = ("STATUS", "RECORDS", "FIRST", "LAST", "BYTES", "JOURNAL")
    print_table(head, [_row(verdict.to_json()) for verdict in verdicts])
    for verdict in verdicts:
        for note in _notes(verdict.to_json()):
            click.echo(f"{one_line(verdict.place.path)}/{one_line(note)}")


def _row(found: dict[str, Any]) -> list[str]:
    return [str(found[name]) for name in ("status", "records", "first", "last", "bytes", "path")]


def _notes(found: dict[str, Any]) -> Iterable[str]:
    for damage in found["damage"]:
        first, last = damage["first"], damage["last"]
        lost = f"; {first}..{last} are lost" if first <= last else ""
        yield f"{damage['file']}: at {damage['offset']}: {damage['reason']}{lost}"
    for deed in found["repaired"]:
        yield f"{deed['file']}: repaired: {deed['what']}"
    for name in found["foreign"]:
        yield f"{name}: not a part of the journal"
    if found["error"] is not None:
        yield f": {found['error']}"


def _as_text(line: bytes) -> bytes:
    event = msgspec.json.decode(line, type=Event)
    text = event_line(event)
    if event.type == _GAP:
        gap = msgspec.json.decode(line, type=_Gap)
        text += f" first={gap.first} last={gap.last}"
    return text.encode()


def _write(path: str, show: Callable[[bytes], bytes], lines: Iterable[bytes]) -> None:
    """Whoever reads our output may leave when it has seen enough."""
    out = sys.stdout.buffer
    try:
        for line in lines:
            out.write(show(line) + b"\n")
        out.flush()
    except BrokenPipeError:
        # The interpreter would complain when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
