"""The line of a TOML file in which a key is written, for errors: tomllib does not tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADER = re.compile(r"\s*\[\[?\s*([^\]]+?)\s*\]\]?\s*(?:#.*)?\Z")
_KEY = re.compile(
    r"""\s*((?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|"[^"]*"|'[^']*'))*)\s*="""
)
_PART = re.compile(r"""\s*(?:([A-Za-z0-9_-]+)|"([^"]*)"|'([^']*)')\s*(?:\.|\Z)""")


def line_of(text: str, path: Sequence[str]) -> int:
    """The line that says most of `path` (a key's parts), counted from 1."""
    wanted, best, longest = list(path), 1, 0
    table: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _parts(header[1])
            said = table
        elif key := _KEY.match(line):
            said = table + _parts(key[1])
        else:
            continue
        if len(said) > longest and said == wanted[: len(said)]:
            best, longest = number, len(said)
    return best


def _parts(text: str) -> list[str]:
    return [next(part for part in match if part) for match in _PART.findall(text) if any(match)]
