"""`s0d ps` and `s0d top`: all sessions at a glance."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

import click

from .options import Common, connection_options
from .picture import ENTER, LEAVE
from .render import print_json, print_table, short, table

Json = dict[str, Any]

_ENDED: Final = ("exited", "failed", "stopped", "suspended")
_HEAD: Final = (
    *("ID", "NAME", "PHASE", "UPTIME", "RESTARTS", "EXIT", "CPU", "MEMORY", "ATTACHED"),
    "COMMAND",
)
_TOP_HEAD: Final = ("ID", "NAME", "PHASE", "CPU%", "CPU", "MEMORY", "PROCESSES", "COMMAND")
_LEAST_ID: Final = 8
_INTERVAL: Final = 2.0
_UNITS: Final = "BKMGT"


@click.command()
@connection_options
@click.option("-w", "--watch", is_flag=True, help="Show it anew every two seconds; Ctrl-C ends.")
@click.option("-q", "--quiet", is_flag=True, help="Ids only.")
@click.option("--live", is_flag=True, help="Without what has ended.")
@click.option("-A", "--all-sandboxes", is_flag=True, help="Of all sandboxes.")
def ps(common: Common, watch: bool, quiet: bool, live: bool, all_sandboxes: bool) -> None:
    """List sessions: phase, uptime, restarts, exit code, what they use, who is attached.

    s0d ps --live
    """
    if not watch:
        sessions = _sessions(common, live, all_sandboxes)
        if quiet:
            for session in sessions:
                click.echo(session["id"])
        elif common.json:
            print_json(sessions)
        else:
            print_table(_HEAD, _rows(sessions))
        return
    with _screen() as draw:
        while True:
            draw(table(_HEAD, _rows(_sessions(common, live, all_sandboxes))))
            time.sleep(_INTERVAL)


@click.command()
@connection_options
@click.option("-n", "--rounds", type=click.IntRange(1), metavar="N", help="Then end; 1 in a pipe.")
@click.option("-A", "--all-sandboxes", is_flag=True, help="Of all sandboxes.")
def top(common: Common, rounds: int | None, all_sandboxes: bool) -> None:
    """Show what running sessions use, the busiest first; Ctrl-C ends.

    s0d top --rounds 1
    """
    on_terminal = sys.stdout.isatty() and not common.json
    left = rounds if rounds is not None else (None if on_terminal else 1)
    before = _cpu(_sessions(common, True, all_sandboxes))
    with _screen(enter=on_terminal and rounds is None) as draw:
        while left is None or left > 0:
            time.sleep(_INTERVAL / 2 if left == 1 else _INTERVAL)
            sessions = _sessions(common, True, all_sandboxes)
            now = _cpu(sessions)
            for session in sessions:
                session["cpu_percent"] = _percent(before, now, session)
            sessions.sort(key=lambda session: -session["cpu_percent"])
            before = now
            if common.json:
                print_json(sessions)
            else:
                draw(table(_TOP_HEAD, _top_rows(sessions)))
            left = None if left is None else left - 1


def _sessions(common: Common, live: bool, all_sandboxes: bool) -> list[Json]:
    if all_sandboxes:
        from .client import Client

        ids = [sandbox["id"] for sandbox in common.client.sandboxes()]
        sessions = [
            {**session, "sandbox_id": id}
            for id in ids
            for session in Client(common.target, id).list(usage=True)
        ]
    else:
        sessions = common.client.list(usage=True)
    return [one for one in sessions if not live or one["phase"] not in _ENDED]


def _rows(sessions: Sequence[Json]) -> Iterator[Sequence[str]]:
    length = id_length([session["id"] for session in sessions])
    now = datetime.now(UTC)
    for session in sessions:
        attempt, usage = session.get("attempt", {}), session.get("usage", {})
        yield (
            session["id"][:length],
            session["spec"].get("name", ""),
            session["phase"],
            _uptime(attempt, now),
            str(session["restart_count"] or ""),
            str(attempt.get("exit_code", "")),
            _seconds(usage.get("cpu_seconds")),
            _bytes(usage.get("resident_bytes")),
            str(session.get("attachments") or ""),
            short(shlex.join(session["spec"]["command"])),
        )


def _top_rows(sessions: Sequence[Json]) -> Iterator[Sequence[str]]:
    length = id_length([session["id"] for session in sessions])
    for session in sessions:
        usage = session.get("usage", {})
        yield (
            session["id"][:length],
            session["spec"].get("name", ""),
            session["phase"],
            f"{session['cpu_percent']:.1f}",
            _seconds(usage.get("cpu_seconds")),
            _bytes(usage.get("resident_bytes")),
            str(usage.get("processes", "")),
            short(shlex.join(session["spec"]["command"])),
        )


def id_length(ids: Sequence[str]) -> int:
    """How much of them tells them apart, eight characters after `ses-` at least."""
    length = len("ses-") + _LEAST_ID
    longest = max(map(len, ids), default=0)
    while length < longest and len({id[:length] for id in ids}) < len(set(ids)):
        length += 1
    return length


def _cpu(sessions: Iterable[Json]) -> dict[str, tuple[float, float]]:
    now = time.monotonic()
    return {
        session["attempt"]["id"]: (now, session["usage"]["cpu_seconds"])
        for session in sessions
        if "usage" in session
    }


def _percent(
    before: dict[str, tuple[float, float]], now: dict[str, tuple[float, float]], session: Json
) -> float:
    attempt = session.get("attempt", {}).get("id", "")
    if attempt not in before or attempt not in now:
        return 0.0
    (begun, first), (ended, last) = before[attempt], now[attempt]
    return round(max(0.0, last - first) / max(ended - begun, 0.001) * 100, 1)


def _uptime(attempt: Json, now: datetime) -> str:
    if "started_at" not in attempt or "finished_at" in attempt:
        return ""
    seconds = int((now - datetime.fromisoformat(attempt["started_at"])).total_seconds())
    return duration(max(0, seconds))


def duration(seconds: int) -> str:
    """`42s`, `3m07s`, `5h02m`, `12d3h`."""
    minutes, s = divmod(seconds, 60)
    hours, m = divmod(minutes, 60)
    days, h = divmod(hours, 24)
    if days:
        return f"{days}d{h}h"
    if hours:
        return f"{hours}h{m:02}m"
    return f"{minutes}m{s:02}s" if minutes else f"{s}s"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.1f}s" if seconds < 60 else duration(int(seconds))


def _bytes(count: int | None) -> str:
    """`512K`, `3.4M`, `1.2G`."""
    if count is None:
        return ""
    power = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS) - 1)
    size, unit = count / 1024**power, _UNITS[power]
    return f"{size:.1f}{unit}" if size < 10 else f"{size:.0f}{unit}"


@contextmanager
def _screen(*, enter: bool | None = None) -> Iterator[Any]:
    """Draws a table over the one before, on a terminal; elsewhere one after the other."""
    enter = sys.stdout.isatty() if enter is None else enter

    def draw(lines: Iterable[str]) -> None:
        if not enter:
            click.echo("\n".join(lines))
            return
        size = shutil.get_terminal_size()
        shown = [line[: size.columns] for line in lines][: size.lines - 1]
        click.echo("\x1b[H" + "".join(f"{line}\x1b[K\n" for line in shown) + "\x1b[J", nl=False)
        sys.stdout.flush()

    if enter:
        click.echo(ENTER, nl=False, color=True)
    try:
        yield draw
    finally:
        if enter:
            click.echo(LEAVE, nl=False, color=True)
