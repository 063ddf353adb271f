"""Colours: on a terminal, unless `NO_COLOR` is set to anything (no-color.org)."""

from __future__ import annotations

import os
from typing import IO, Any


def has_colour(stream: IO[Any]) -> bool:
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
