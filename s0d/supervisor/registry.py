"""The sandboxes of a state directory: opened at start, made, forked, deleted.

Each runs in a nursery of its own, which its deletion cancels.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid
from functools import partial
from typing import Final

import trio

from s0d.model.errors import (
    InvalidRequest,
    LimitExceeded,
    SandboxConflict,
    SandboxNotFound,
    Unavailable,
)
from s0d.model.ids import is_sandbox_id
from s0d.model.sandbox import SandboxConfig, SandboxRecord
from s0d.model.session import ACTIVE

from . import recovery
from .place import Place, empty_trash, make, own_others, remove
from .recovery import Found
from .sandbox import Sandbox, see_through
from .session import Session

log = logging.getLogger("s0d.supervisor")

_RETRY: Final = 5.0
"""Seconds, after a deletion that nobody waits for could not be seen through."""


class Registry:
    """The table of sandboxes, and how they come and go."""

    def __init__(self, place: Place, nursery: trio.Nursery, default: str) -> None:
        self.table: dict[str, Sandbox] = {}
        self._place = place
        self._nursery = nursery
        self._default = default
        self._scopes: dict[str, trio.CancelScope] = {}
        self._making: dict[str, trio.Event] = {}
        self._deleting: dict[str, trio.Event] = {}
        self._stopping = threading.Event()  # copying, in a thread, looks at it

    @property
    def default(self) -> Sandbox:
        return self.table[self._default]

    def get(self, sandbox_id: str) -> Sandbox:
        """Look up a sandbox; `SandboxNotFound`."""
        sandbox = self.table.get(sandbox_id)
        if sandbox is None:
            raise SandboxNotFound("no such sandbox")
        return sandbox

    def slept(self, seconds: float) -> None:
        """The machine has slept so long, see `sleep`."""
        for sandbox in list(self.table.values()):
            sandbox.slept(seconds)

    # -- the start ---------------------------------------------------------------------------

    async def open(self, first: SandboxRecord) -> None:
        """Open `first`, the default one, and all others; end what a dead daemon left."""
        place = self._place
        others = await trio.to_thread.run_sync(own_others, place, first.id)
        found: dict[str, list[Found]] = {}
        for record in (first, *others):
            await self._begin(record)
            load = partial(recovery.load, place.store(record.id), place.syncer, record.generation)
            found[record.id] = await trio.to_thread.run_sync(load)
        await place.host.end_leftovers()
        for sandbox_id in found:
            await recovery.end_noted(place.store(sandbox_id), place.host)
        await recovery.end_leftovers([one for some in found.values() for one in some], place.host)
        for sandbox_id, some in found.items():
            self._recover(self.table[sandbox_id], some)
        await trio.to_thread.run_sync(empty_trash, place, list(self.table))

    def _recover(self, sandbox: Sandbox, found: list[Found]) -> None:
        for one in found:
            session = Session(one.record, one.journal, sandbox)
            sandbox.adopt(session)
            if sandbox.suspended:
                session.lose_runtime()
            elif one.record.phase in ACTIVE:
                session.recover()
            sandbox.start(session)
        sandbox.begin()
        if sandbox.deleting:
            self._nursery.start_soon(self._expire, sandbox)

    async def _begin(self, record: SandboxRecord) -> Sandbox:
        """Run the sandbox of `record`, which is on disk."""
        sandbox: Sandbox = await self._nursery.start(self._run, record)
        return sandbox

    async def _run(self, record: SandboxRecord, *, task_status: trio.TaskStatus[Sandbox]) -> None:
        place = self._place
        async with trio.open_nursery() as nursery:
            sandbox = Sandbox(
                record,
                place.store(record.id),
                place.host,
                place.syncer,
                nursery,
                root=place.root_of(record),
                expired=lambda: self._nursery.start_soon(self._expire, sandbox),
            )
            self.table[record.id] = sandbox
            self._scopes[record.id] = nursery.cancel_scope
            task_status.started(sandbox)
            await trio.sleep_forever()

    # -- new ones ----------------------------------------------------------------------------

    async def create(
        self,
        *,
        sandbox_id: str | None = None,
        template: str = "",
        root: str | None = None,
        config: SandboxConfig | None = None,
    ) -> Sandbox:
        """Make a sandbox; durable on return.

        `root` is made where it is not there; without one the sandbox gets its own.  Raises
        `InvalidRequest`, `SandboxConflict` for an id that is taken, `LimitExceeded`, `Unavailable`.
        """
        record = _new_record(sandbox_id, template, config or SandboxConfig())
        record.root = self._place.root_for(record.id, root)
        return await self._add(record, None)

    async def fork(
        self, source: Sandbox, *, root: str | None = None, key: str | None = None
    ) -> Sandbox:
        """Make a paused sandbox with a copy of `source`'s root directory, and nothing else of it.

        `root` is where the copy goes, and must not be there yet; by default it gets its own.
        The same `key` gives the same fork again.
        """
        fork_key = None if key is None else f"{source.id} {key}"
        if fork_key is not None:
            while (pending := self._making.get(fork_key)) is not None:
                await pending.wait()
            for sandbox in self.table.values():
                if sandbox.record.fork_key == fork_key:
                    if sandbox.deleting:
                        raise SandboxConflict("Idempotency-Key: its sandbox is being deleted")
                    return sandbox
        source.check_not_ending()
        if not source.record.root:
            raise SandboxConflict(
                "the default sandbox works in its user's own directory, which is not copied"
            )
        record = _new_record(None, source.record.template, source.record.config)
        record.paused, record.fork_key = True, fork_key
        record.root = self._place.root_for(record.id, root)
        return await self._add(record, source)

    async def _add(self, record: SandboxRecord, source: Sandbox | None) -> Sandbox:
        if self._stopping.is_set():
            raise Unavailable("s0d is shutting down")
        if record.id in self.table or record.id in self._making:
            raise SandboxConflict(f"id: there is a sandbox {record.id} already")
        most = self._place.host.bounds.sandboxes
        if len(self.table) + len(self._making) >= most:
            raise LimitExceeded(f"at most {most} sandboxes")
        claims = [record.id, *([record.fork_key] if record.fork_key else [])]
        done = trio.Event()
        self._making.update(dict.fromkeys(claims, done))
        try:
            with trio.CancelScope(shield=True):  # all of it or nothing, also when the client leaves
                copied = None if source is None else source.root
                work = partial(make, self._place, record, copied, self._stopping.is_set)
                await trio.to_thread.run_sync(work)
                if source is not None and source.stopping:  # what was copied may be half of it
                    await trio.to_thread.run_sync(remove, self._place, record)
                    source.check_not_ending()
                sandbox = await self._begin(record)
                sandbox.begin()
        finally:
            for claim in claims:
                del self._making[claim]
            done.set()
        return sandbox

    # -- the end -----------------------------------------------------------------------------

    async def delete(self, sandbox: Sandbox) -> None:
        """End its sessions, remove them and everything of it on disk; of several callers one does.

        Goes on where a caller leaves.
        """
        if sandbox.id == self._default:
            raise SandboxConflict("the default sandbox cannot be deleted")
        await see_through(self._nursery, partial(self._delete, sandbox))

    async def _delete(self, sandbox: Sandbox) -> None:
        while (pending := self._deleting.get(sandbox.id)) is not None:
            await pending.wait()
        if self.table.get(sandbox.id) is not sandbox:
            return
        self._deleting[sandbox.id] = done = trio.Event()
        try:
            await sandbox.clear()
            await sandbox.close()
            await trio.to_thread.run_sync(remove, self._place, sandbox.record)
            del self.table[sandbox.id]
            sandbox.removed = True
            self._scopes.pop(sandbox.id).cancel()
        finally:
            del self._deleting[sandbox.id]
            done.set()

    async def _expire(self, sandbox: Sandbox) -> None:
        """Delete it, with nobody who could be told that this failed: until it is gone."""
        while self.table.get(sandbox.id) is sandbox:
            try:
                await self._delete(sandbox)
            except Exception as error:
                log.warning("not deleted yet: %s", error, extra={"sandbox_id": sandbox.id})
                await trio.sleep(_RETRY)

    async def stop(self) -> None:
        """The daemon ends: end every attempt, close every journal.

        What is being made or deleted is seen through; copies are given up.
        """
        self._stopping.set()
        for making in list(self._making.values()):
            await making.wait()
        async with trio.open_nursery() as nursery:
            for sandbox in self.table.values():
                nursery.start_soon(sandbox.suspend)
        for deleting in list(self._deleting.values()):
            await deleting.wait()
        for sandbox in list(self.table.values()):
            await sandbox.close()


def _new_record(sandbox_id: str | None, template: str, config: SandboxConfig) -> SandboxRecord:
    if sandbox_id is not None and not is_sandbox_id(sandbox_id):
        raise InvalidRequest("id: must match [a-z0-9][a-z0-9_-]{0,62}")
    now = time.time_ns()
    return SandboxRecord(
        id=sandbox_id or f"sbx-{uuid.uuid4().hex[:16]}",
        generation=1,
        created_at_ns=now,
        template=template,
        config=config,
        updated_at_ns=now,
        renewed_at_ns=now,
        lease=config.ttl,
    )
