"""Sessions that the configuration declares: had at the start, and again at each reload.

Beside `s0d.toml` all of `s0d.d/*.toml` counts.  What is as declared is not touched, what is no
longer declared is removed.  A session that depends on others is made when they are ready; what
cannot be had is logged, and the others go on.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

import trio
from msgspec import UNSET

from s0d.declare.file import Declaration, Declared, load
from s0d.declare.plan import Do, Existing, Step, plan
from s0d.model.errors import S0dError
from s0d.model.session import Phase
from s0d.supervisor import Sandbox, Session, Supervisor

_log = logging.getLogger("s0d.daemon")

_SETTLED = frozenset({Phase.RUNNING, Phase.EXITED, Phase.FAILED, Phase.STOPPED, Phase.PAUSED})


class Declarations:
    """`file` None: nothing is declared, and nothing done."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._round = trio.CancelScope()
        self._changed = trio.Event()
        self._wanted: Declaration | None = None
        self.reload()

    @property
    def any(self) -> bool:
        """Is there something to reload?"""
        return self._file is not None

    def reload(self) -> None:
        """Read the files again; `InvalidRequest`, and then all stays as it was."""
        if self._file is None:
            return
        beside = sorted((self._file.parent / "s0d.d").glob("*.toml"))
        self._wanted = load([self._file, *beside], os.environ, str(self._file.parent))
        self._changed.set()
        self._round.cancel()  # what the former one still waits for

    async def run(self, supervisor: Supervisor) -> None:
        """Carry out what is declared, now and after each reload, until cancelled."""
        while True:
            self._changed = trio.Event()
            if self._wanted is not None:
                with trio.CancelScope() as self._round:
                    await reconcile(supervisor.default, self._wanted)
            await self._changed.wait()


async def reconcile(sandbox: Sandbox, declaration: Declaration) -> None:
    """Have what is declared; returns when all of it is there."""
    sessions = {session.id: session for session in sandbox.sessions() if not session.removing}
    existing = [_existing(s) for s in sessions.values() if s.record.spec.name is not UNSET]
    steps = plan(declaration, existing, prune=True, start=False)
    done = {step.name: _Outcome() for step in steps if step.declared is not None}
    async with trio.open_nursery() as nursery:
        for step in steps:
            session = sessions[step.existing.id] if step.existing else None
            if step.declared is None:
                assert session is not None
                nursery.start_soon(_remove, session, step)
            else:
                nursery.start_soon(_have, sandbox, session, step, step.declared, done)


class _Outcome:
    """The session, once it is there; None where it could not be had."""

    def __init__(self) -> None:
        self.session: Session | None = None
        self.there = trio.Event()


async def _have(
    sandbox: Sandbox,
    session: Session | None,
    step: Step,
    declared: Declared,
    done: dict[str, _Outcome],
) -> None:
    outcome = done[step.name]
    try:
        if step.do is not Do.KEEP and not await _are_ready(declared, done):
            return
        if session is None:
            session, _ = await sandbox.create(declared.spec)
        elif step.do is Do.UPDATE:
            desired = session.record.spec.lifecycle.desired_state
            await session.update(declared.spec.with_desired_state(desired))
        if step.do is not Do.KEEP:
            _log.info("declared session", extra=_extra(step, session))
        outcome.session = session
    except S0dError as error:
        extra = _extra(step, session) | {"reason": error.message}
        _log.error("a declared session cannot be had", extra=extra)
    finally:
        outcome.there.set()


async def _are_ready(declared: Declared, done: dict[str, _Outcome]) -> bool:
    for name in declared.depends_on:
        await done[name].there.wait()
        other = done[name].session
        if other is not None:
            await other.wait_for(lambda s: s.phase in _SETTLED)
        if other is None or not _is_ready(other):
            extra = {"session": declared.name, "reason": f"{name} is not ready"}
            _log.error("a declared session cannot be had", extra=extra)
            return False
    return True


def _is_ready(session: Session) -> bool:
    if session.phase is Phase.EXITED:
        attempt = session.record.attempt
        return attempt is not None and attempt.exit_code == 0
    return session.phase in (Phase.RUNNING, Phase.PAUSED)


async def _remove(session: Session, step: Step) -> None:
    try:
        await session.delete()
    except S0dError as error:
        extra = _extra(step, session) | {"reason": error.message}
        _log.error("a session that is declared no longer cannot be removed", extra=extra)
    else:
        _log.info("declared session", extra=_extra(step, session))


def _existing(session: Session) -> Existing:
    spec = session.record.spec
    return Existing(session.id, spec.name or "", session.phase, spec)


def _extra(step: Step, session: Session | None) -> dict[str, str]:
    extra = {"session": step.name, "done": str(step.do)}
    if step.changed:
        extra["changed"] = " ".join(step.changed)
    return extra | ({"session_id": session.id} if session is not None else {})
