"""Who is attached to a terminal: any number at once, until one takes it over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import trio


class Seats:
    """The attached clients of a sandbox's sessions."""

    def __init__(self) -> None:
        self._taken: dict[str, set[trio.Event]] = {}

    @contextmanager
    def seat(self, session_id: str, *, takeover: bool = False) -> Iterator[trio.Event]:
        """A client's place, for as long as the block is not left; the event tells that it lost it.

        With `takeover` all others lose theirs now.
        """
        lost = trio.Event()
        others = self._taken.setdefault(session_id, set())
        if takeover:
            for other in others:
                other.set()
        others.add(lost)
        try:
            yield lost
        finally:
            others.discard(lost)
            if not others and self._taken.get(session_id) is others:
                del self._taken[session_id]
