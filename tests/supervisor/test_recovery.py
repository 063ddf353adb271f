"""What survives the end of a supervisor, orderly or not, and whose state it is."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest
import trio

from s0d.journal import Block, Entry, Journal, JournalError
from s0d.model.errors import StateDirectoryError, Unavailable
from s0d.model.ids import new_session_id
from s0d.model.session import Phase
from s0d.supervisor import open_supervisor
from tests.journal.disks import FailDisk, Stopped
from tests.support.sessions import (
    create,
    follow_until,
    output_of,
    reach,
    read_events,
    shell,
    spec_of,
    told,
)


def sandbox_path(state: Path) -> Path:
    return state / "sandboxes" / "local"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "state"


async def test_an_orderly_end_is_a_replaced_runtime(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        runs = await create(supervisor, shell("echo first; exec sleep 1000"))
        stops = await create(
            supervisor, spec_of("sleep", "1000", lifecycle={"runtime_recovery": "stop"})
        )
        ended = await create(supervisor, shell("exit 3"), "key")
        await reach(ended, Phase.EXITED)
        await follow_until(runs, "output")
    async with open_supervisor(state) as supervisor:
        assert supervisor.default.generation == 2
        again = supervisor.default.session(runs.id)
        await reach(again, Phase.RUNNING)
        events = await read_events(again)
        assert output_of(events).startswith(b"first\n")
        assert ("attempt.exited", "runtime_replaced") in told(events)
        assert ("attempt.starting", "runtime_recovered") in told(events)
        assert [e.seq for e in events] == list(range(1, len(events) + 1)), "a clean end has no gap"
        stopped = supervisor.default.session(stops.id)
        assert (stopped.phase, stopped.record.desired) == (Phase.STOPPED, "stopped")
        exited = supervisor.default.session(ended.id)
        assert exited.phase is Phase.EXITED
        assert exited.record.attempt is not None
        assert exited.record.attempt.exit_code == 3
        same, new = await supervisor.default.create(shell("exit 3"), idempotency_key="key")
        assert (same.id, new) == (ended.id, False)
        sessions = [s.id for s in supervisor.default.sessions()]
        assert sessions == [runs.id, stops.id, ended.id]


async def test_receipts_survive(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, spec_of("cat"))
        attempt_id = (await session.input("i1", b"x")).attempt_id
    async with open_supervisor(state) as supervisor:
        again = supervisor.default.session(session.id)
        accepted = await again.input("i1", b"x")
        assert (accepted.attempt_id, accepted.duplicate) == (attempt_id, True)


async def test_the_record_is_rebuilt_from_the_journal(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, spec_of("sleep", "1000", name="n"), "k")
        await session.stop()
        record = session.view()
    path = sandbox_path(state) / "sessions" / session.id / "session.json"
    for damage in (b"", b"{", b'{"id": 3}'):
        path.write_bytes(damage)
        async with open_supervisor(state) as supervisor:
            again = supervisor.default.session(session.id).view()
            assert (again.spec, again.phase, again.attempt) == (
                record.spec,
                record.phase,
                record.attempt,
            )
            assert (
                await create(supervisor, spec_of("sleep", "1000", name="n"), "k")
            ).id == session.id


async def test_a_session_that_cannot_be_rebuilt_is_shown_as_failed(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        broken = await create(supervisor, shell("exit 0"))
        sound = await create(supervisor, shell("exit 0"))
        await reach(broken, Phase.EXITED)
        await reach(sound, Phase.EXITED)
    directory = sandbox_path(state) / "sessions" / broken.id
    (directory / "session.json").write_bytes(b"rubbish")
    for segment in (directory / "journal").glob("*.seg"):
        segment.write_bytes(b"rubbish")
    for _ in range(2):  # also once it has been set aside
        async with open_supervisor(state) as supervisor:
            assert supervisor.default.session(sound.id).phase is Phase.EXITED
            failed = supervisor.default.session(broken.id)
            assert failed.phase is Phase.FAILED
            assert told(await read_events(failed)) == [
                ("session.created", ""),
                ("session.failed", "state_damaged"),
            ]
            kept = directory / "damaged"
            assert (kept / "session.json").read_bytes() == b"rubbish"
            assert len(list((kept / "journal").glob("*.seg"))) == 1
    async with open_supervisor(state) as supervisor:
        await supervisor.default.session(broken.id).delete()
        assert [s.id for s in supervisor.default.sessions()] == [sound.id]
    assert not directory.exists()


RUBBISH = b"rubbish" * 100


@pytest.fixture
async def broken(state: Path) -> Path:
    """A session's directory of which nothing can be read."""
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, shell("exit 0"))
        await reach(session, Phase.EXITED)
    directory = sandbox_path(state) / "sessions" / session.id
    (directory / "session.json").write_bytes(RUBBISH)
    for segment in (directory / "journal").glob("*.seg"):
        segment.write_bytes(RUBBISH)
    return directory


async def check_kept(state: Path, broken: Path) -> None:
    async with open_supervisor(state) as supervisor:
        assert supervisor.default.session(broken.name).phase is Phase.FAILED
    kept = [path.read_bytes() for path in (broken / "damaged").rglob("*") if path.is_file()]
    assert kept.count(RUBBISH) == 2, "record and segment"


@pytest.mark.parametrize("name", ["damaged", "journal", ".seg", "mark"])
@pytest.mark.parametrize("operation", ["mkdir", "open", "fallocate", "pwrite", "writev", "fsync"])
async def test_what_is_set_aside_on_a_full_disk_is_kept(
    state: Path, broken: Path, operation: str, name: str
) -> None:
    disk = FailDisk()
    disk.fail(operation, errno.ENOSPC, name=name, times=None)
    async with open_supervisor(state, disk=disk):
        pass
    await check_kept(state, broken)


@pytest.mark.parametrize("operation", ["rename", "fsync"])
@pytest.mark.parametrize("moves", range(3))
async def test_what_is_set_aside_when_the_daemon_dies_is_kept(
    state: Path, broken: Path, moves: int, operation: str
) -> None:
    disk = FailDisk()
    name = broken.name if operation == "fsync" else ""
    disk.fail(operation, name=name, stop=True, skip=moves)
    with pytest.raises(Stopped):
        async with open_supervisor(state, disk=disk):
            pass
    await check_kept(state, broken)


@pytest.mark.parametrize("record", ["sound", "rubbish"])
async def test_a_session_whose_journal_is_gone_is_shown_as_failed(state: Path, record: str) -> None:
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, shell("exit 0"))
        await reach(session, Phase.EXITED)
    directory = sandbox_path(state) / "sessions" / session.id
    shutil.rmtree(directory / "journal")
    if record == "rubbish":
        (directory / "session.json").write_bytes(RUBBISH)
    content = (directory / "session.json").read_bytes()
    for _ in range(2):
        async with open_supervisor(state) as supervisor:
            failed = supervisor.default.session(session.id)
            assert failed.phase is Phase.FAILED
            assert ("session.failed", "state_damaged") in told(await read_events(failed))
    assert (directory / "damaged" / "session.json").read_bytes() == content


async def test_a_creation_that_was_never_answered_leaves_nothing(state: Path) -> None:
    async with open_supervisor(state):
        pass
    sessions = sandbox_path(state) / "sessions"
    (sessions / new_session_id()).mkdir()
    (sessions / new_session_id() / "journal").mkdir(parents=True)
    async with open_supervisor(state) as supervisor:
        assert supervisor.default.sessions() == []
    assert list(sessions.iterdir()) == []


async def test_a_session_at_rest_is_not_written_to_until_it_is_used(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, shell("exit 0"))
        await reach(session, Phase.EXITED)
    journal = sandbox_path(state) / "sessions" / session.id / "journal"
    before = {path: path.stat().st_mtime_ns for path in journal.iterdir()}
    async with open_supervisor(state) as supervisor:
        assert supervisor.default.session(session.id).phase is Phase.EXITED
    assert {path: path.stat().st_mtime_ns for path in journal.iterdir()} == before
    for use in ("start", "stop", "update", "create_attempt", "delete"):
        async with open_supervisor(state) as supervisor:
            again = supervisor.default.session(session.id)
            if use == "update":
                await again.update(shell("exit 0", name="renamed"))
            else:
                await getattr(again, use)()
            if use != "delete":
                await reach(again, Phase.EXITED, Phase.STOPPED)
            events = [] if use == "delete" else await read_events(again)
            assert [e.seq for e in events] == list(range(1, len(events) + 1))


async def test_a_full_disk_at_the_start_delays_a_recovery_and_nothing_else(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_supervisor(state) as supervisor:
        runs = await create(supervisor, spec_of("sleep", "1000"))
        other = await create(supervisor, shell("exit 0"))
        await reach(other, Phase.EXITED)
    append = Journal.append
    refusals = 3

    def full(journal: Journal, entries: list[Entry]) -> Block:
        nonlocal refusals
        if refusals and journal.path.startswith(str(sandbox_path(state) / "sessions" / runs.id)):
            refusals -= 1
            raise JournalError("no space", errno.ENOSPC)
        return append(journal, entries)

    recovery = {"lifecycle": {"runtime_recovery": "stop"}}
    async with open_supervisor(state) as supervisor:
        await supervisor.default.session(runs.id).update(spec_of("sleep", "1000", **recovery))
    monkeypatch.setattr(Journal, "append", full)
    async with open_supervisor(state) as supervisor:
        again = supervisor.default.session(runs.id)
        with pytest.raises(Unavailable, match="recovered"):
            await again.start()
        assert again.view().journal_error
        await reach(again, Phase.STOPPED)
        assert refusals == 0


async def test_one_directory_has_one_supervisor(state: Path) -> None:
    async with open_supervisor(state):
        with pytest.raises(StateDirectoryError, match=str(os.getpid())):
            async with open_supervisor(state):
                pass
    async with open_supervisor(state):
        pass


async def test_a_directory_that_others_can_write_to_is_refused(state: Path) -> None:
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    with pytest.raises(StateDirectoryError, match="chmod 700"):
        async with open_supervisor(state):
            pass
    state.chmod(0o700)
    async with open_supervisor(state):
        pass


# -- the owner -------------------------------------------------------------------------------


async def make_copied_state(state: Path, owner: str | None) -> str:
    """State of sandbox `local` that says it belongs to `owner`; returns its session."""
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, spec_of("sleep", "1000"))
    marker = sandbox_path(state) / "sandbox.json"
    if owner is None:
        marker.unlink()
    else:
        marker.write_text(json.dumps({**json.loads(marker.read_text()), "id": owner}))
    return session.id


async def test_foreign_state_is_refused(state: Path) -> None:
    await make_copied_state(state, "other")
    before = sorted(sandbox_path(state).rglob("*"))
    with pytest.raises(StateDirectoryError, match=r"'other'.*reset-copied-sessions"):
        async with open_supervisor(state):
            pass
    assert sorted(sandbox_path(state).rglob("*")) == before


@pytest.mark.parametrize("owner", ["other", None])
async def test_reset_clears_foreign_and_ownerless_sessions_before_anything_starts(
    state: Path, owner: str | None
) -> None:
    await make_copied_state(state, owner)
    async with open_supervisor(state, reset_copied_sessions=True) as supervisor:
        assert supervisor.default.sessions() == []
        kept = await create(supervisor, spec_of("sleep", "1000"))
    # A repeated activation finds a matching owner and keeps its sessions.
    async with open_supervisor(state, reset_copied_sessions=True) as supervisor:
        assert [s.id for s in supervisor.default.sessions()] == [kept.id]


async def test_ownerless_state_is_adopted(state: Path) -> None:
    session_id = await make_copied_state(state, None)
    async with open_supervisor(state) as supervisor:
        await reach(supervisor.default.session(session_id), Phase.RUNNING)
    assert json.loads((sandbox_path(state) / "sandbox.json").read_text())["id"] == "local"


async def test_after_an_unclean_end_every_event_carries_its_generation(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    close = Journal.close
    # An unclean end is one whose journals were not closed cleanly: as after a kill.
    monkeypatch.setattr(Journal, "close", lambda journal, clean=True: close(journal, clean=False))
    async with open_supervisor(state) as supervisor:
        session = await create(supervisor, spec_of("sleep", "1000"))
    monkeypatch.undo()
    async with open_supervisor(state) as supervisor:
        again = supervisor.default.session(session.id)
        await reach(again, Phase.RUNNING)
        events = await read_events(again)
    gap = next(event for event in events if event.type == "journal.gap")
    assert (gap.generation, gap.fields["reason"]) == (2, "unclean_end")
    assert [e.generation for e in events] == sorted(e.generation for e in events)


async def test_a_session_that_is_being_deleted_can_still_be_read(state: Path) -> None:
    async with open_supervisor(state) as supervisor:
        script = "trap '' TERM; echo here; while :; do sleep 0.05; done"
        lifecycle = {"stop_grace_period_seconds": 1}
        session = await create(supervisor, shell(script, lifecycle=lifecycle))
        await follow_until(session, "output")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.delete)
            await reach(session, Phase.STOPPING)
            events = await follow_until(session, "attempt.exited")
    assert told(events)[-1] == ("attempt.exited", "session_deleted")
