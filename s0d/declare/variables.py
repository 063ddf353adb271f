"""`${VAR}` in a file's values, and the `.env` beside it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from s0d.model.errors import InvalidRequest

_USE: Final = re.compile(r"\$(?:\$|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?])([^}]*))?\})")
_LINE: Final = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*\Z")


def expand(value: Any, variables: Mapping[str, str], path: str = "") -> Any:
    """`value` with its strings' variables; `$$` is a dollar.  Raises `InvalidRequest`.

    `${VAR:-text}` is `text` where the variable is unset or empty, `${VAR-text}` where it is unset.
    """
    if isinstance(value, str):
        return _USE.sub(lambda match: _value(match, variables, path), value)
    if isinstance(value, list):
        return [expand(item, variables, f"{path}[{n}]") for n, item in enumerate(value)]
    if isinstance(value, dict):
        inner = f"{path}." if path else ""
        return {name: expand(item, variables, inner + name) for name, item in value.items()}
    return value


def _value(match: re.Match[str], variables: Mapping[str, str], path: str) -> str:
    name, operator, text = match.groups()
    if name is None:
        return "$"
    value = variables.get(name)
    unset = value is None or (operator is not None and operator.startswith(":") and not value)
    if not unset:
        return value or ""
    if operator is not None and operator.endswith("-"):
        return str(text)
    said = f": {text}" if text else ""
    raise InvalidRequest(f"{path}: the variable {name} is not set{said}")


def read_env(path: Path) -> dict[str, str]:
    """`NAME=value` a line, quotes around a value left out; none where there is no file."""
    try:
        lines = path.read_text().splitlines()
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{path}: {error}") from None
    found: dict[str, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise InvalidRequest(f"{path}:{number}: write NAME=value")
        found[match[1]] = _unquoted(match[2])
    return found


def _unquoted(text: str) -> str:
    if len(text) >= 2 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text.partition(" #")[0].rstrip()
