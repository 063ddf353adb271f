"""A word for a person who waits longer than a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .render import notice

_AFTER = 1.0


@contextmanager
def patience(text: str) -> Iterator[None]:
    """Says `text` on standard error after a second, where that is a terminal."""
    if not text or not sys.stderr.isatty():
        yield
        return
    from threading import Timer

    timer = Timer(_AFTER, notice, (f"{text}…",))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
