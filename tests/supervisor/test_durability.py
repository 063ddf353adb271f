"""Acknowledged means durable: no command is answered before its event is on the disk."""

from __future__ import annotations

import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from s0d.model.session import Phase
from s0d.supervisor import Session, open_supervisor
from tests.support.sessions import create, reach, read_events, spec_of

PTY: dict[str, Any] = {"io": {"mode": "pty"}}

COMMANDS: dict[str, tuple[str, Callable[[Session], Awaitable[object]]]] = {
    "update": ("session.updated", lambda s: s.update(spec_of("cat", name="renamed", **PTY))),
    "stop": ("session.stopped", lambda s: s.stop()),
    "start": ("attempt.starting", lambda s: s.start()),
    "replace": ("attempt.starting", lambda s: s.update(spec_of("sleep", "1000", **PTY))),
    "attempt": ("attempt.starting", lambda s: s.create_attempt(replace_current=True)),
    "input": ("input.accepted", lambda s: s.input("i", b"x")),
    "signal": ("signal.sent", lambda s: s.signal(signal.SIGUSR1)),
    "resize": ("terminal.resized", lambda s: s.resize(30, 90)),
}


@pytest.mark.parametrize("name", COMMANDS)
async def test_what_is_answered_is_on_the_disk(tmp_path: Path, name: str) -> None:
    type, command = COMMANDS[name]
    async with open_supervisor(tmp_path / "state") as supervisor:
        session = await create(supervisor, spec_of("cat", **PTY))
        assert session.journal.durable >= 1
        await reach(session, Phase.RUNNING)
        if name == "start":
            await session.stop()
        before = session.journal.latest
        await session.wait_durable(before)
        await command(session)
        durable = session.journal.durable
        told = [event.seq for event in await read_events(session, before) if event.type == type]
        assert told
        assert told[0] <= durable
