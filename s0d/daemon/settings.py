"""What an operator sets: in a file, in the environment, by flags, the later the stronger.

The file is TOML, its table `[daemon]`; other tables are others' business.  A variable is
`S0D_DAEMON_` and the key in capitals, `S0D_DAEMON_LIMITS_SESSIONS` for one of a table within;
blanks part the words of a list.  An unknown key is refused, with the nearest known one.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal, get_type_hints

import msgspec

from s0d.model.errors import InvalidRequest

PREFIX: Final = "S0D_DAEMON_"
VARIABLE: Final = "S0D_CONFIG"
TABLE: Final = "daemon"
# Older names, which clients know too.
_ALSO: Final = {"state_dir": "S0D_STATE_DIR"}


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything is borne; sizes in bytes, times in seconds."""

    sandboxes: int = 1000
    sessions: int = 10_000
    execs: int = 256
    attachments: int = 1024
    all_attachments: int = 8192
    input_queue: int = 1 << 20
    journal_bytes: int = 64 << 30
    connections: int = 2048
    connections_per_peer: int = 1024
    header_seconds: float = 10
    header_bytes: int = 16 << 10
    body_seconds: float = 60
    body_bytes: int = 16 << 20
    all_bodies_bytes: int = 128 << 20
    message_bytes: int = 16 << 20
    page_bytes: int = 4 << 20
    waits: int = 1024
    wrong_tokens_per_minute: int = 10


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Everything, with the defaults; an empty string or list leaves a thing to the daemon."""

    state_dir: str = ""
    listen: list[str] = []
    sandbox_id: str = "local"
    reset_copied_sessions: bool = False
    cgroups: bool = True
    run_as: str = ""
    hosts: list[str] = []
    origins: list[str] = []
    socket_users: list[str] = []
    own_processes: list[str] = []
    insecure_without_token: bool = False
    tls_certificate: str = ""
    tls_key: str = ""
    tls_client_ca: str = ""
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    access_log: bool = True
    limits: Limits = Limits()


Value = Any
Found = dict[str, tuple[Value, str]]
"""Values by dotted key, each with where it comes from."""


def default_file(environ: Mapping[str, str], uid: int) -> Path | None:
    """The file that is read where none is named; None where it is not there."""
    if uid == 0:
        path = Path("/etc/s0d/s0d.toml")
    else:
        home = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME", "/"), ".config")
        path = Path(home) / "s0d" / "s0d.toml"
    try:
        return path if path.exists() else None
    except OSError:  # a home that is not ours to look into
        return None


def gather(
    flags: Mapping[str, Value], environ: Mapping[str, str], file: Path | None
) -> tuple[Settings, Found]:
    """The settings and where each comes from.  Raises `InvalidRequest`."""
    found: Found = {key: (value, "default") for key, value in _flat(Settings())}
    if file is not None:
        found.update({k: (v, str(file)) for k, v in _from_file(file).items()})
    found.update(_from_environment(environ))
    found.update({k: (v, "flag") for k, v in flags.items() if v is not None})
    return _build(found), found


def variable_of(key: str) -> str:
    return PREFIX + key.replace(".", "_").upper()


def _flat(settings: msgspec.Struct, path: str = "") -> Iterator[tuple[str, Value]]:
    for name in settings.__struct_fields__:
        value = getattr(settings, name)
        if isinstance(value, msgspec.Struct):
            yield from _flat(value, f"{path}{name}.")
        else:
            yield path + name, value


def _types(kind: type = Settings, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, hint in get_type_hints(kind).items():
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
            yield from _types(hint, f"{path}{name}.")
        else:
            yield path + name, hint


TYPES: Final = dict(_types())


def _from_file(file: Path) -> dict[str, Value]:
    try:
        with open(file, "rb") as stream:
            table = tomllib.load(stream).get(TABLE, {})
    except OSError as error:
        raise InvalidRequest(f"{file}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"{file}: {error}") from None
    if not isinstance(table, dict):
        raise InvalidRequest(f"{file}: {TABLE} must be a table")
    return {key: _checked(key, value, str(file)) for key, value in _leaves(table)}


def _leaves(table: dict[str, Any], path: str = "") -> Iterator[tuple[str, Value]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _leaves(value, f"{path}{name}.")
        else:
            yield path + name, value


def _from_environment(environ: Mapping[str, str]) -> Found:
    found: Found = {}
    for key, name in _ALSO.items():
        if environ.get(name):
            found[key] = (environ[name], name)
    known = {variable_of(key): key for key in TYPES}
    for name, text in environ.items():
        if not name.startswith(PREFIX):
            continue
        if name not in known:
            raise InvalidRequest(f"{name}: there is no such setting{_nearest(name, known)}")
        key = known[name]
        value: Value = text.split() if TYPES[key] == list[str] else text
        found[key] = (_checked(key, value, name, strict=False), name)
    return found


def _checked(key: str, value: Value, origin: str, *, strict: bool = True) -> Value:
    if key not in TYPES:
        raise InvalidRequest(f"{origin}: {key}: there is no such setting{_nearest(key, TYPES)}")
    try:
        made = msgspec.convert(value, TYPES[key], strict=strict)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"{origin}: {key}: {error}") from None
    if isinstance(made, int | float) and not isinstance(made, bool) and made < 1:
        raise InvalidRequest(f"{origin}: {key}: must be at least 1")
    return made


def _nearest(name: str, known: Mapping[str, Any]) -> str:
    near = difflib.get_close_matches(name, known, 1, 0.6)
    return f"; did you mean {near[0]}?" if near else ""


def _build(found: Found) -> Settings:
    nested: dict[str, Any] = {}
    for key, (value, _) in found.items():
        *tables, last = key.split(".")
        at = nested
        for table in tables:
            at = at.setdefault(table, {})
        at[last] = value
    return msgspec.convert(nested, Settings)
