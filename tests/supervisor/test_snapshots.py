"""Snapshots: written in a thread and by retention, never back in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from s0d.model.session import SessionRecord
from s0d.supervisor.session import Session
from s0d.supervisor.snapshots import Snapshots
from s0d.supervisor.store import Store, decode_record
from tests.support.fakes import FakeHost, make_session


class FakeStore:
    def __init__(self) -> None:
        self.written: list[SessionRecord] = []

    def write_record(self, session_id: str, data: bytes) -> None:
        self.written.append(decode_record(data))


@dataclass
class OvertakenJournal:
    """While one snapshot waits for durability, retention asks for a newer one."""

    snapshots: Snapshots
    record: SessionRecord
    checkpointed: int = 0
    session: Session = field(init=False)

    async def wait_durable(self, seq: int) -> None:
        self.record.seq += 10
        self.snapshots.checkpoint(self.session)


async def test_a_snapshot_never_replaces_a_newer_one() -> None:
    """Retention has removed what lies between the two: state and receipts would be lost."""
    store = FakeStore()
    snapshots = Snapshots(cast(Store, store))
    session, _ = make_session(FakeHost())
    journal = OvertakenJournal(snapshots, session.record)
    journal.session = session
    session.journal = journal  # type: ignore[assignment]
    snapshots.stale(session)
    await snapshots.write_stale()
    assert [record.seq for record in store.written] == [11]
    assert journal.checkpointed == 11


async def test_a_checkpoint_is_written_once() -> None:
    store = FakeStore()
    snapshots = Snapshots(cast(Store, store))
    session, journal = make_session(FakeHost())
    assert snapshots.checkpoint(session) == 1
    assert journal.checkpointed == 1
    snapshots.stale(session)
    await snapshots.write_stale()
    assert [record.seq for record in store.written] == [1]
