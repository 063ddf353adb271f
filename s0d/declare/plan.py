"""What is declared and what is there: what has to be done."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from s0d.model.spec import DesiredState, SessionSpec

from .file import MARK, Declaration, Declared

_RESTS: Final = ("stopped", "exited", "failed")


class Do(enum.StrEnum):
    CREATE = "create"
    UPDATE = "update"
    START = "start"
    KEEP = "keep"
    REMOVE = "remove"


@dataclass(frozen=True)
class Existing:
    """A session that is there."""

    id: str
    name: str
    phase: str
    spec: SessionSpec


@dataclass(frozen=True)
class Step:
    """`changed` are the fields that an update changes."""

    do: Do
    name: str
    existing: Existing | None = None
    declared: Declared | None = None
    changed: tuple[str, ...] = ()

    def __str__(self) -> str:
        changed = f" ({', '.join(self.changed)})" if self.changed else ""
        return f"{self.name}: {self.do}{changed}"


def plan(
    declaration: Declaration,
    existing: Iterable[Existing],
    names: set[str] | None = None,
    *,
    prune: bool,
    start: bool,
) -> list[Step]:
    """The steps, in the order of dependencies; what is to be removed first.

    Only sessions that carry the project's mark are looked at.  `names`: only these.  `start`: those
    that rest are started; else what is as declared is left alone, whatever it does.
    """
    ours: dict[str, Existing] = {}
    surplus: list[Existing] = []
    for one in existing:
        if dict(one.spec.env or {}).get(MARK) != declaration.project:
            continue
        if one.name in ours or one.name not in declaration.sessions:
            surplus.append(one)
        else:
            ours[one.name] = one
    steps = [Step(Do.REMOVE, one.name, one) for one in surplus] if prune else []
    for name, declared in declaration.sessions.items():
        if names is None or name in names:
            steps.append(_step(name, declared, ours.get(name), start))
    return steps


def _step(name: str, declared: Declared, there: Existing | None, start: bool) -> Step:
    if there is None:
        return Step(Do.CREATE, name, None, declared)
    changed = changes(there.spec, declared.spec)
    if changed:
        return Step(Do.UPDATE, name, there, declared, changed)
    if start and there.phase in _RESTS:
        return Step(Do.START, name, there, declared)
    return Step(Do.KEEP, name, there, declared)


def changes(old: SessionSpec, new: SessionSpec) -> tuple[str, ...]:
    """The fields in which they differ; whether it is to run is not one of them."""
    one, other = _comparable(old), _comparable(new)
    return tuple(name for name in sorted({*one, *other}) if one.get(name) != other.get(name))


def _comparable(spec: SessionSpec) -> Mapping[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(spec)
    fields["lifecycle"] = {**fields.get("lifecycle", {}), "desired_state": DesiredState.RUNNING}
    return fields
