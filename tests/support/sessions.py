"""Helpers for tests that run a supervisor with real children."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import msgspec
import trio

from s0d.journal import Record
from s0d.model.parse import parse_spec
from s0d.model.session import Phase
from s0d.model.spec import SessionSpec
from s0d.process.proc import read_stat
from s0d.supervisor import Session, Supervisor
from s0d.supervisor.sandbox import Sandbox

PATIENCE = 30.0  # seconds: never reached, unless something is broken


def spec_of(*command: str, **fields: Any) -> SessionSpec:
    return parse_spec(msgspec.json.encode({"command": list(command), **fields}))


def shell(script: str, **fields: Any) -> SessionSpec:
    return spec_of("sh", "-c", script, **fields)


async def create(supervisor: Supervisor, spec: SessionSpec, key: str | None = None) -> Session:
    session, _ = await supervisor.default.create(spec, idempotency_key=key)
    return session


async def reach(session: Session, *phases: Phase) -> None:
    """Wait until the session is in one of `phases`."""
    with trio.fail_after(PATIENCE):
        await session.wait_for(lambda s: s.phase in phases)


async def stalled(session: Session) -> None:
    """Wait until the journal refuses the session's output."""
    with trio.fail_after(PATIENCE):
        await session.wait_for(lambda s: bool(s.view().journal_error))


async def healed(session: Session) -> None:
    """Wait until it takes it again."""
    with trio.fail_after(PATIENCE):
        await session.wait_for(lambda s: not s.view().journal_error)


async def gone(sandbox: Sandbox, table: Container[str]) -> None:
    """Wait until the sandbox is not in the table of sandboxes any more."""
    with trio.fail_after(PATIENCE):
        while sandbox.id in table:  # noqa: ASYNC110, nothing tells of it
            await trio.sleep(0.01)


async def read_events(session: Session, after: int | None = None) -> list[Record]:
    """Every retained event."""
    events: list[Record] = []
    with session.cursor(after) as cursor:
        while (block := await cursor.read_available()) is not None:
            events.extend(block.records)
    return events


async def follow_until(session: Session, type: str) -> list[Record]:
    """Read along until an event of `type` has come."""
    events: list[Record] = []
    with session.attach() as cursor, trio.fail_after(PATIENCE):
        while (block := await cursor.read()) is not None:
            events.extend(block.records)
            if any(event.type == type for event in block.records):
                break
    return events


def output_of(events: list[Record], stream: str = "stdout") -> bytes:
    return b"".join(
        event.fields["data"]
        for event in events
        if event.type == "output" and event.fields["stream"] == stream
    )


def lives(pid: int) -> bool:
    """Does the process live?  A zombie, whose parent has not asked for its status, does not."""
    stat = read_stat(pid)
    return stat is not None and stat.alive


def told(events: list[Record]) -> list[tuple[str, str]]:
    """Every event but output as (type, reason)."""
    return [(e.type, e.fields.get("reason", "")) for e in events if e.type != "output"]
