"""What goes to stdout: aligned tables for a person, JSON for a program.

Names, commands and output come from anybody: every control character is escaped, so that a table
cannot drive the reader's terminal.
"""

from __future__ import annotations

import shlex
from binascii import a2b_base64
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import click
import msgspec

from .errors import one_line
from .events import Event

Json = dict[str, Any]

_WIDEST = 60


def print_json(value: Any) -> None:
    """One object or array, indented."""
    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2))


def notice(text: str) -> None:
    """What a person should know beside the output: to stderr."""
    click.echo(f"s0d: {text}", err=True)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    cells = [list(head), *([one_line(cell) for cell in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    for row in cells:
        yield "  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip()


def print_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    for line in table(head, rows):
        click.echo(line)


def print_fields(fields: Mapping[str, Any]) -> None:
    """A line a field; those that are None are left out."""
    width = max([len(name) for name in fields], default=0) + 2
    for name, value in fields.items():
        if value is not None:
            click.echo(f"{name + ':':<{max(width, 12)}}{one_line(str(value))}")


def print_sessions(sessions: Iterable[Json]) -> None:
    head = ("ID", "NAME", "PHASE", "PID", "RESTARTS", "EXIT", "COMMAND")
    print_table(head, [_session_row(session) for session in sessions])


def _session_row(session: Json) -> Sequence[str]:
    attempt = session.get("attempt", {})
    return (
        session["id"],
        session["spec"].get("name", ""),
        session["phase"],
        str(attempt.get("pid", "")),
        str(session["restart_count"]),
        str(attempt.get("exit_code", "")),
        short(shlex.join(session["spec"]["command"])),
    )


def print_session(session: Json) -> None:
    """One session, a line a field."""
    attempt = session.get("attempt", {})
    cursor = session["cursor"]
    fields = {
        "id": session["id"],
        "name": session["spec"].get("name"),
        "command": shlex.join(session["spec"]["command"]),
        "cwd": session["spec"].get("cwd"),
        "phase": session["phase"],
        "desired": session["spec"]["lifecycle"]["desired_state"],
        "generation": session["runtime_generation"],
        "restarts": session["restart_count"],
        "cursor": f"{cursor['earliest']}..{cursor['latest']}",
        "created": session["created_at"],
        "activity": session["last_activity_at"],
        "attempt": attempt.get("id"),
        "pid": attempt.get("pid"),
        "exit": attempt.get("exit_code"),
        "reason": attempt.get("reason"),
        "message": attempt.get("message"),
        "journal": session.get("journal_error"),
    }
    print_fields(fields)


def event_line(event: Event) -> str:
    """`SEQ  TIME  TYPE  what is worth knowing`; the sequence is always the first column."""
    return f"{event.seq:>6}  {event.occurred_at}  {event.type:<18}  {_details(event)}".rstrip()


def _details(event: Event) -> str:
    if event.data_base64 is not None:
        text = a2b_base64(event.data_base64).decode("utf-8", "backslashreplace")
        return f"{event.stream}: {one_line(text)}"
    size = f"{event.rows}x{event.cols}" if event.rows is not None else None
    pairs = {
        "reason": event.reason,
        "exit_code": event.exit_code,
        "signal": event.signal if event.signal != event.reason else None,
        "pid": event.pid,
        "input_id": event.input_id,
        "bytes": event.bytes,
        "size": size,
        "message": event.message,
    }
    return " ".join(f"{k}={one_line(str(v))}" for k, v in pairs.items() if v is not None)


def short(text: str) -> str:
    """At most so much of it as a table has room for."""
    return text if len(text) <= _WIDEST else text[: _WIDEST - 1] + "…"
