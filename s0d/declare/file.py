"""`s0d.toml`: sessions as tables, checked; every error names file, line and field."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from s0d.model.errors import InvalidRequest
from s0d.model.parse import parse_spec
from s0d.model.spec import SessionSpec

from .order import ordered
from .places import line_of
from .procfile import tables_of
from .variables import expand, read_env

MARK: Final = "S0D_PROJECT"
"""The variable by which a session is known to be declared, and by which project."""
_TABLE: Final = "sessions"
_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_-]{0,62}\Z")
_FIELD: Final = re.compile(r"[a-z_]+(?:\.[A-Za-z0-9_-]+)*")


class _Session(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A table `[sessions.NAME]`.  What stands for several fields of a specification is short for
    them; `io`, `lifecycle` and the like are the specification's own."""

    command: list[str] = []
    shell: str = ""
    cwd: str = ""
    env: dict[str, str] = {}
    pty: bool = False
    restart: str | dict[str, Any] = {}
    depends_on: list[str] = []
    readiness: dict[str, Any] = {}
    io: dict[str, Any] = {}
    lifecycle: dict[str, Any] = {}
    event_retention: dict[str, Any] = {}
    limits: dict[str, Any] = {}
    stop_signal: str = ""


@dataclass(frozen=True)
class Declared:
    """One session: what to send, what that comes to, and what has to be ready first."""

    name: str
    sent: dict[str, Any]
    spec: SessionSpec
    depends_on: tuple[str, ...] = ()


@dataclass(frozen=True)
class Declaration:
    """All that a project declares, each after what it depends on."""

    project: str
    sessions: dict[str, Declared] = field(default_factory=dict)

    @property
    def depends_on(self) -> dict[str, tuple[str, ...]]:
        return {name: one.depends_on for name, one in self.sessions.items()}


def load(
    files: Iterable[Path], environ: Mapping[str, str], project: str | None = None
) -> Declaration:
    """What files declare together.  Raises `InvalidRequest`.

    Variables are those of `environ` and, weaker, of `.env` beside the first file.  A file whose
    name is `Procfile` is one.
    """
    paths = [*files]
    variables = {**(read_env(paths[0].parent / ".env") if paths else {}), **environ}
    project = project or (str(paths[0].parent.resolve()) if paths else "")
    found: dict[str, tuple[Declared, Path, str]] = {}
    for path in paths:
        text = _read(path)
        for name, table in _tables(path, text).items():
            if name in found:
                raise _error(path, text, [_TABLE, name], f"declared in {found[name][1]}, too")
            found[name] = (_declared(path, text, name, table, variables, project), path, text)
    for name, (one, path, text) in found.items():
        for other in one.depends_on:
            if other not in found:
                where = [_TABLE, name, "depends_on"]
                raise _error(path, text, where, f"there is no session {other}")
    try:
        order = ordered({name: one.depends_on for name, (one, _, _) in found.items()})
    except InvalidRequest as error:
        raise InvalidRequest(f"{paths[0]}: {error.message}") from None
    return Declaration(project, {name: found[name][0] for name in order})


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError as error:
        raise InvalidRequest(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidRequest(f"{path}: must be UTF-8") from None


def _tables(path: Path, text: str) -> dict[str, Any]:
    if path.name == "Procfile":
        return {
            name: {"shell": table["shell"].replace("$", "$$")}
            for name, table in tables_of(text, str(path)).items()
        }
    try:
        tables = tomllib.loads(text).get(_TABLE, {})
    except tomllib.TOMLDecodeError as error:
        raise InvalidRequest(f"{path}: {error}") from None
    if not isinstance(tables, dict):
        raise _error(path, text, [_TABLE], "must be a table of sessions")
    return tables


def _declared(
    path: Path, text: str, name: str, table: Any, variables: Mapping[str, str], project: str
) -> Declared:
    try:
        session = _session(name, expand(table, variables))
        sent = _sent(name, session, path, project)
        return Declared(name, sent, parse_spec(sent), tuple(session.depends_on))
    except InvalidRequest as error:
        named = _FIELD.match(error.message)
        where = named[0].split(".") if named and ":" in error.message else []
        raise _error(path, text, [_TABLE, name, *where], error.message) from None


def _session(name: str, table: Any) -> _Session:
    if not _NAME.match(name):
        raise InvalidRequest("a name has letters, digits, - and _, 63 at most")
    try:
        return msgspec.convert(table, _Session)
    except msgspec.ValidationError as error:
        raise InvalidRequest(_explained(error)) from None


def _explained(error: msgspec.ValidationError) -> str:
    """`command: Expected `array`, got `str``."""
    said, _, path = str(error).partition(" - at `$.")
    if unknown := re.match(r"Object contains unknown field `(.*?)`", said):
        return f"{unknown[1]}: there is no such field"
    where = re.sub(r"\[\.\.\.\]|`\Z", "", path)
    if where == "command" and "got `str`" in said:
        return "command: a list, the program and its arguments; a command line is `shell`"
    return f"{where}: {said}" if where else said


def _error(path: Path, text: str, where: list[str], message: str) -> InvalidRequest:
    line = 1
    if path.name != "Procfile":  # a short form stands without the table that it is short for
        line = max(line_of(text, where), line_of(text, [*where[:2], *where[3:]]))
    field = ".".join(where[:2])
    return InvalidRequest(f"{path}:{line}: {field}: {message}")


def _sent(name: str, session: _Session, path: Path, project: str) -> dict[str, Any]:
    """The specification that is sent for a table."""
    if bool(session.command) == bool(session.shell):
        raise InvalidRequest("command: give either command or shell")
    lifecycle = dict(session.lifecycle)
    if session.restart:
        policy = session.restart
        lifecycle["restart"] = {"policy": policy} if isinstance(policy, str) else policy
    io = dict(session.io)
    if session.pty:
        io["mode"] = "pty"
    sent: dict[str, Any] = {
        "name": name,
        "command": session.command or ["sh", "-c", session.shell],
        "cwd": str((path.parent / session.cwd).resolve()),
        "env": {**session.env, MARK: project},
        "io": io,
        "lifecycle": lifecycle,
        "readiness": session.readiness,
        "event_retention": session.event_retention,
        "limits": session.limits,
    }
    if session.stop_signal:
        sent["stop_signal"] = session.stop_signal
    return {key: value for key, value in sent.items() if value != {}}
