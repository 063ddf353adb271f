"""A Procfile (`web: command line`, one a line) as tables of sessions."""

from __future__ import annotations

import re
from typing import Any, Final

from s0d.model.errors import InvalidRequest

_LINE: Final = re.compile(r"([A-Za-z0-9_-]+):\s*(.+?)\s*\Z")


def tables_of(text: str, name: str) -> dict[str, Any]:
    """`sessions` as `s0d.toml` has them; command lines are a shell's."""
    sessions: dict[str, Any] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise InvalidRequest(f"{name}:{number}: write NAME: COMMAND LINE")
        if match[1] in sessions:
            raise InvalidRequest(f"{name}:{number}: {match[1]}: is declared twice")
        sessions[match[1]] = {"shell": match[2]}
    return sessions
