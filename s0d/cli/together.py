"""The output of several sessions at once, each line after its session's name."""

from __future__ import annotations

import queue
import sys
from binascii import a2b_base64
from collections.abc import Mapping
from threading import Thread
from typing import Any, Final

from s0d.wire.log import Assembler, shown

from .client import Client
from .colour import has_colour
from .ending import ending, exit_code_of
from .errors import CliError
from .events import Event, Follower
from .following import SessionGone
from .log_text import readable
from .options import Common
from .render import notice

Json = dict[str, Any]

_AT_REST: Final = ("exited", "failed", "stopped")
_MAYBE_THE_END: Final = ("attempt.exited", "session.failed", "session.stopped")
_COLOURS: Final = (36, 33, 32, 35, 34, 31)
_LOOK: Final = 0.5


class Together:
    """Follows sessions (name: id), each from an event on, until all have come to rest."""

    def __init__(self, common: Common, ids: Mapping[str, str], after: Mapping[str, Any]) -> None:
        self._common = common
        self._ids = ids
        self._after = after
        self._events: queue.Queue[tuple[str, Event | CliError]] = queue.Queue(1000)
        self._left = set(ids)
        self._codes: dict[str, int] = {}
        self._lines = {name: Assembler() for name in ids}
        width = max(map(len, ids), default=0)
        self._colour = has_colour(sys.stdout)
        self._prefix = {name: self._shown(n, name.ljust(width)) for n, name in enumerate(ids)}

    def run(self) -> int:
        """The first exit code that is not 0, in the order of the sessions."""
        for name in self._ids:
            Thread(target=self._read, args=(name,), daemon=True).start()
        self._left -= {name for name in self._left if self._rests(name, self._after[name] or 0)}
        while self._left:
            try:
                name, event = self._events.get(timeout=_LOOK)  # so that Ctrl-C is heard
            except queue.Empty:
                continue
            if isinstance(event, SessionGone):
                self._left.discard(name)
                notice(f"{name}: {event}")
            elif isinstance(event, CliError):
                raise event
            elif name in self._left:
                self._take(name, event)
        return next((code for code in map(self._codes.get, self._ids) if code), 0)

    def _read(self, name: str) -> None:
        client = Client(self._common.target, self._common.sandbox)
        try:
            for event in Follower(client, self._ids[name], self._after[name]):
                self._events.put((name, event))
        except CliError as error:
            self._events.put((name, error))

    def _take(self, name: str, event: Event) -> None:
        lines = self._lines[name]
        attempt = event.attempt_id or ""
        found: list[Any] = []
        if event.data_base64 is not None:
            data = a2b_base64(event.data_base64)
            found = lines.feed(event.seq, 0, (attempt, event.stream or ""), data)
        elif event.type == "attempt.exited":
            found = lines.end(event.seq, 0, attempt)
        out = "".join(
            f"{self._prefix[name]}{readable(shown(line.data), colour=self._colour)}\n"
            for line in found
        )
        if out:
            sys.stdout.write(out)
            sys.stdout.flush()
        if event.type == "session.backoff":
            notice(f"{name}: runs again in {event.reason}")
        if event.type in _MAYBE_THE_END and self._rests(name, event.seq):
            self._left.discard(name)

    def _rests(self, name: str, seq: int) -> bool:
        """Has it come to rest, and all been read?  Then it is said."""
        session: Json = Client(self._common.target, self._common.sandbox).get(self._ids[name])
        if session["phase"] not in _AT_REST or session["cursor"]["latest"] > seq:
            return False
        self._codes[name] = exit_code_of(session)
        notice(f"{name}: {ending(session)}")
        return True

    def _shown(self, number: int, name: str) -> str:
        if not self._colour:
            return f"{name} | "
        return f"\x1b[{_COLOURS[number % len(_COLOURS)]}m{name} |\x1b[0m "
