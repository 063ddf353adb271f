"""`s0d logs`: a session's output as text, line by line."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Final

import click
import msgspec

from .errors import CliError, UsageError
from .events import Event, Follower
from .following import SessionGone
from .log_text import Printer
from .options import Common, connection_options, session_argument
from .render import notice

Json = dict[str, Any]

_DURATION: Final = re.compile(r"[0-9]{1,9}(ms|s|m|h|d|w)\Z")
_CLOCK: Final = re.compile(r"[0-9]{1,2}:[0-9]{2}(:[0-9]{2})?\Z")


def _moment(ctx: click.Context, param: click.Parameter, text: str | None) -> str | None:
    """A duration as it is: it counts from the daemon's now.  A time without a zone is ours."""
    if text is None or _DURATION.match(text):
        return text
    if _CLOCK.match(text):
        text = f"{datetime.now().date()} {text.zfill(5) if len(text) < 6 else text.zfill(8)}"
    try:
        return datetime.fromisoformat(text).astimezone().isoformat()
    except ValueError:
        raise click.BadParameter(
            "write a duration (90s, 10m, 2h, 1d), a time (14:30) or a date and time "
            "(2026-01-31T14:30:00)"
        ) from None


@click.command()
@connection_options
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written; Ctrl-C ends.")
@click.option(
    "-n", "--tail", type=click.IntRange(0, 100_000), metavar="N", help="The last N lines."
)
@click.option("--since", metavar="TIME", callback=_moment, help="From then on: 10m, 14:30, a date.")
@click.option("--until", metavar="TIME", callback=_moment, help="Before then.")
@click.option("--grep", metavar="REGEX", help="Only lines that match (RE2).")
@click.option("-i", "--ignore-case", is_flag=True, help="With --grep.")
@click.option(
    "--stream", type=click.Choice(["stdout", "stderr", "pty"]), multiple=True, help="Only these."
)
@click.option("--attempt", metavar="N|ID", help="Only of this attempt.")
@click.option("-t", "--timestamps", is_flag=True, help="When each line was written.")
@click.option("--raw", is_flag=True, help="The bytes as they are.")
@session_argument
def logs(
    common: Common,
    id: str,
    follow: bool,
    tail: int | None,
    since: str | None,
    until: str | None,
    grep: str | None,
    ignore_case: bool,
    stream: tuple[str, ...],
    attempt: str | None,
    timestamps: bool,
    raw: bool,
) -> None:
    """Print a session's output, line by line, filtered before it is cut to the last N.

    What happened to the session (attempts, exits) goes to standard error, unless --grep is given.
    --follow goes on across attempts, broken connections and restarts of the daemon, each line
    once, until the session is deleted. With -o json: an array of objects, with --follow an object
    a line.

    s0d logs web --tail 20 --grep error
    """
    if follow and until is not None:
        raise UsageError("--until does not go with --follow")
    if ignore_case and grep is None:
        raise UsageError("--ignore-case goes with --grep")
    if raw and (timestamps or common.json):
        raise UsageError("--raw is the bytes as they are: without --timestamps and -o json")
    client = common.client
    found = client.get(id)
    session = found["id"]
    if follow and attempt is not None:
        attempt = _running(found, attempt)
    query = {
        "format": "ndjson",
        "tail": tail,
        "since": since,
        "until": until,
        "grep": grep,
        "ignore_case": "true" if ignore_case else None,
        "stream": ",".join(stream) or None,
        "attempt": attempt,
        "events": "true" if grep is None else None,
        "raw": "true" if raw else None,
    }
    printer = Printer(json=common.json, follow=follow, timestamps=timestamps, raw=raw)
    end: Json | None = None
    with client.logs(session, query) as response:
        for item in _objects(response.chunks()):
            if "cursor" in item:
                end = item
            elif "event" in item:
                printer.event(item["event"])
            else:
                printer.line(item)
    if end is None:
        raise CliError("the answer broke off: some of the history was removed while it was read")
    if end.get("cut"):
        notice("only the end of what was asked for: the rest takes too much room (use --since)")
    if not follow:
        printer.unfinished(end["unfinished"], _wanted(grep, ignore_case))
        printer.close()
        return
    printer.flush()
    following = _Following(printer, end, grep, ignore_case, frozenset(stream), attempt)
    try:
        for event in Follower(client, session, end["cursor"], notice=notice):
            following.take(event)
    except SessionGone as gone:
        notice(str(gone))


def _running(session: Json, called: str) -> str:
    """The id of an attempt that can be followed: only of the newest one there will be more."""
    newest = session.get("attempt", {})
    if called not in (newest.get("id"), str(newest.get("number"))):
        raise UsageError(f"--follow: the newest attempt is {newest.get('number', 'still to come')}")
    return str(newest["id"])


def _objects(chunks: Iterable[bytes]) -> Iterator[Json]:
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    rest = b""
    for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield decode(line)


def _wanted(grep: str | None, ignore_case: bool) -> Callable[[bytes], Iterable[bytes]]:
    from s0d.wire.log import Found, every

    if grep is None:
        return every
    import re2

    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = not ignore_case
    return Found(re2.compile(b"(?m)" + grep.encode("utf-8", "surrogateescape"), options))


class _Following:
    """Live events, made into lines as the daemon does: it left off in the middle of some."""

    def __init__(
        self,
        printer: Printer,
        end: Json,
        grep: str | None,
        ignore_case: bool,
        streams: frozenset[str],
        attempt: str | None,
    ) -> None:
        from binascii import a2b_base64

        from s0d.wire.log import Assembler

        self._decode = a2b_base64
        self._printer = printer
        self._streams = streams
        self._attempt = attempt
        self._events = grep is None
        self._assembler = Assembler(_wanted(grep, ignore_case), keep_cr=printer.raw)
        for part in end["unfinished"]:
            key = (part["attempt_id"], part["stream"])
            self._assembler.unfinished[key] = a2b_base64(part["data_base64"])

    def take(self, event: Event) -> None:
        attempt = event.attempt_id or ""
        if self._attempt is not None and attempt not in ("", self._attempt):
            return
        if event.data_base64 is not None:
            if self._streams and event.stream not in self._streams:
                return
            key = (attempt, event.stream or "")
            data = self._decode(event.data_base64)
            self._print(self._assembler.feed(event.seq, 0, key, data), event)
        elif event.type == "attempt.exited":
            self._print(self._assembler.end(event.seq, 0, attempt), event)
        if self._events and event.data_base64 is None:
            self._printer.event(msgspec.json.decode(event.raw))
        self._printer.flush()

    def _print(self, lines: Iterable[Any], event: Event) -> None:
        from s0d.wire.log import view_line

        for line in lines:
            view = msgspec.to_builtins(view_line(line))
            self._printer.line({**view, "occurred_at": event.occurred_at})
