"""Sandboxes as they come and go: at the same time, on a bad disk, while the daemon ends."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from s0d.journal import RealDisk, Syncer
from s0d.model.errors import (
    InvalidRequest,
    LimitExceeded,
    S0dError,
    SandboxConflict,
    SandboxNotFound,
    Unavailable,
)
from s0d.model.sandbox import SandboxConfig, SandboxRecord
from s0d.model.session import Phase
from s0d.process.proc_tree import ProcTree
from s0d.supervisor import Supervisor, exec, open_supervisor, registry, roots
from s0d.supervisor.bounds import Bounds
from s0d.supervisor.clock import RuntimeClock
from s0d.supervisor.exec import attended, buffered
from s0d.supervisor.expiry import Expiry
from s0d.supervisor.launch import Launch
from s0d.supervisor.place import Place, empty_trash, make, remove
from s0d.supervisor.sandbox import Sandbox
from s0d.supervisor.sleep import MachineSleep
from s0d.supervisor.store import Store, remove_tree
from tests.support.sessions import PATIENCE, gone, output_of, reach, shell, spec_of

ORDINARY = 65534


def never() -> bool:
    return False


# -- the record ------------------------------------------------------------------------------


async def test_changes_at_the_same_time_are_all_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = Store.write_marker
    before = threading.Semaphore(0)

    def slow(store: Store, record: SandboxRecord) -> None:
        before.acquire(timeout=0.05)  # the first one waits for another that overtakes it
        before.release()
        write(store, record)

    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        monkeypatch.setattr(Store, "write_marker", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(sandbox.pause)
            nursery.start_soon(sandbox.refresh, 77)
            nursery.start_soon(sandbox.configure, lambda _: SandboxConfig(env_vars={"A": "b"}))
        stored = sandbox.store.read_marker()
    assert stored is not None
    assert (stored.paused, stored.lease) == (True, 77)
    assert stored.config.env_vars == {"A": "b"}
    assert stored == sandbox.record


async def test_what_was_left_alone_is_not_written_over(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        other = await supervisor.registry.create(sandbox_id="other")
        await other.create(spec_of("true"))
    marker = tmp_path / "sandboxes" / "other" / "sandbox.json"
    marker.write_text("{damaged")
    held = sorted(str(path) for path in marker.parent.rglob("*"))
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        with pytest.raises(SandboxConflict, match="cannot be opened"):
            await supervisor.registry.create(sandbox_id="other")
    assert marker.read_text() == "{damaged"
    assert sorted(str(path) for path in marker.parent.rglob("*")) == held


# -- the runtime -----------------------------------------------------------------------------


async def test_a_command_that_comes_during_a_pause_wakes_it(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        ending, may_end = trio.Event(), trio.Event()
        end_sessions = sandbox.end_sessions

        async def slowly() -> None:
            ending.set()
            await may_end.wait()
            await end_sessions()

        sandbox.end_sessions = slowly  # type: ignore[method-assign]
        said: list[bytes] = []

        async def run() -> None:
            result = await sandbox.execs.run(
                spec_of("echo", "woken"), lambda launch, _: buffered(launch, b"", PATIENCE)
            )
            said.append(bytes(result.stdout.data))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.pause)
                await ending.wait()
                nursery.start_soon(run)
                await trio.testing.wait_all_tasks_blocked()
                may_end.set()
        assert said == [b"woken\n"]
        assert (sandbox.status, sandbox.record.paused, sandbox.generation) == ("running", False, 2)


async def test_a_command_stands_still_in_a_frozen_sandbox(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        launched, done = trio.Event(), trio.Event()
        pids: list[int] = []

        async def use(launch: Launch, _: trio.Event) -> None:
            pids.append(launch.pid)
            launched.set()
            await done.wait()

        def stopped() -> bool:
            return Path(f"/proc/{pids[0]}/stat").read_text().rpartition(")")[2].split()[0] == "T"

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.execs.run, spec_of("sleep", "1000"), use)
                await launched.wait()
                await sandbox.pause(memory=True)
                assert stopped()
                await sandbox.resume()
                assert not stopped()
                done.set()


async def test_a_replacement_under_way_holds_up_no_freeze(tmp_path: Path) -> None:
    script = "trap 'while [ ! -e go ]; do sleep 0.01; done; exit 0' TERM; sleep 1000 & wait"
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        go = Path(sandbox.root, "go")
        session, _ = await sandbox.create(shell(f"echo ready; {script}"))
        with trio.fail_after(PATIENCE):
            with session.attach() as cursor:
                while (block := await cursor.read()) and b"ready" not in output_of(block.records):
                    pass
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(session.create_attempt, replace_current=True))
                await session.wait_for(lambda s: s.phase is Phase.STOPPING)
                nursery.cancel_scope.cancel()  # the client leaves
            await sandbox.pause(memory=True)
            assert sandbox.status == "paused"
            go.touch()
            await session.wait_for(lambda s: s.phase is Phase.PENDING)
            await sandbox.resume()
            await reach(session, Phase.RUNNING)
            assert session.record.attempt is not None
            assert session.record.attempt.number == 2
            await supervisor.registry.delete(sandbox)


async def test_a_freeze_that_fails_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(tree: ProcTree) -> None:
        raise OSError("refused")

    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        session, _ = await sandbox.create(spec_of("sleep", "1000"))
        monkeypatch.setattr(ProcTree, "freeze", refuse)
        with pytest.raises(ExceptionGroup):
            await sandbox.pause(memory=True)
        assert (sandbox.status, sandbox.clock.stopped) == ("running", False)
        with trio.fail_after(PATIENCE):
            await session.create_attempt(replace_current=True)
        assert session.phase is Phase.RUNNING


@pytest.mark.parametrize("ends", ["before", "with it"])
async def test_a_client_that_takes_no_output_holds_up_no_end_of_the_runtime(
    ends: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exec, "UNREAD_WITHIN", 0.1)
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        stuck = trio.Event()

        async def emit(_: list[bytes]) -> None:
            stuck.set()
            await trio.sleep_forever()

        async def use(launch: Launch, unwanted: trio.Event) -> None:
            await attended(launch, emit, trio.sleep_forever, unwanted)

        command = spec_of("yes") if ends == "with it" else spec_of("echo", "x")
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.execs.run, command, use)
                await stuck.wait()
                await sandbox.pause()
        assert len(sandbox.execs) == 0


# -- the end ---------------------------------------------------------------------------------


async def test_a_limit_that_cannot_be_kept_yet_ends_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = iter([Unavailable("the disk refuses"), OSError("so does it")])

    def refuse(place: Place, record: SandboxRecord) -> None:
        for refusal in refusals:
            raise refusal
        remove(place, record)

    monkeypatch.setattr(registry, "remove", refuse)
    monkeypatch.setattr(registry, "_RETRY", 0.01)
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create(config=SandboxConfig(hard_ttl=1))
        await gone(sandbox, supervisor.sandboxes)
        assert supervisor.default.status == "running"
    assert os.listdir(tmp_path / "roots") == []


async def test_a_refused_marker_holds_up_no_deletion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(store: Store, record: SandboxRecord) -> None:
        raise OSError(28, "No space left on device")

    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        monkeypatch.setattr(Store, "write_marker", refuse)
        with pytest.raises(Unavailable, match="No space left"):
            await sandbox.refresh()
        await supervisor.registry.delete(sandbox)
    assert os.listdir(tmp_path / "roots") == []


async def test_an_end_in_the_middle_of_deletions_is_orderly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn = threading.Lock()

    def one_by_one(place: Place, record: SandboxRecord) -> None:
        with turn:
            time.sleep(0.02)
            remove(place, record)

    async def slowly(sandbox: Sandbox) -> None:
        await trio.sleep(0.02)

    monkeypatch.setattr(registry, "remove", one_by_one)
    monkeypatch.setattr(Sandbox, "close", slowly)
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandboxes = [await supervisor.registry.create() for _ in range(12)]
        for sandbox in sandboxes:
            await sandbox.create(spec_of("sleep", "1000"))
        async with trio.open_nursery() as nursery:
            for sandbox in sandboxes:
                nursery.start_soon(supervisor.registry.delete, sandbox)
            await gone(sandboxes[0], supervisor.sandboxes)
            supervisor.stop()
            nursery.cancel_scope.cancel()  # the clients leave
    assert os.listdir(tmp_path / "sandboxes") == ["local"]


@pytest.mark.parametrize("end", ["delete", "stop"])
async def test_a_session_that_is_being_made_ends_with_the_rest(
    end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_session = Store.create_session
    making, may_go_on = trio.Event(), threading.Event()
    token = trio.lowlevel.current_trio_token()

    def slowly(*arguments: Any) -> Any:
        token.run_sync_soon(making.set)
        may_go_on.wait(PATIENCE)
        return create_session(*arguments)

    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        monkeypatch.setattr(Store, "create_session", slowly)
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.create, spec_of("sleep", "1000"))
                await making.wait()
                if end == "delete":
                    nursery.start_soon(supervisor.registry.delete, sandbox)
                else:
                    supervisor.stop()
                await sandbox.runtime.change.wait_for(lambda: sandbox.stopping)
                with pytest.raises((SandboxConflict, Unavailable)):
                    await sandbox.create(spec_of("sleep", "1000"))
                may_go_on.set()
    left = os.listdir(tmp_path / "sandboxes" / sandbox.id / "sessions") if end == "stop" else []
    assert len(left) == (end == "stop")
    assert os.listdir(tmp_path / "trash") == []


async def test_what_waits_when_its_sandbox_is_deleted_is_told_so(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        session, _ = await sandbox.create(spec_of("sleep", "1000"))
        ending, may_end = trio.Event(), trio.Event()
        end_sessions = sandbox.end_sessions

        async def slowly() -> None:
            ending.set()
            await may_end.wait()
            await end_sessions()

        sandbox.end_sessions = slowly  # type: ignore[method-assign]
        told: list[str] = []

        async def ask(work: Callable[[], Awaitable[object]]) -> None:
            try:
                await work()
            except S0dError as error:
                told.append(error.code)

        def use(launch: Launch, _: trio.Event) -> Any:
            return buffered(launch, b"", PATIENCE)

        asked: list[Callable[[], Awaitable[object]]] = [
            partial(sandbox.execs.run, spec_of("true"), use),
            partial(sandbox.create, spec_of("true")),
            partial(sandbox.pause, memory=True),
            sandbox.resume,
            sandbox.refresh,
            partial(sandbox.configure, lambda config: config),
            partial(supervisor.registry.fork, sandbox),
            session.start,
        ]
        waiting = asked[:4]
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(sandbox.pause)
                await ending.wait()
                for work in waiting:
                    nursery.start_soon(ask, work)
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(supervisor.registry.delete, sandbox)
                await trio.testing.wait_all_tasks_blocked(0.05)
                assert sandbox.status == "terminating"
                may_end.set()
            assert told == ["sandbox_conflict"] * len(waiting)
            told.clear()
            for work in asked:
                await ask(work)
        assert told == ["sandbox_not_found"] * len(asked)


async def test_nothing_is_made_once_the_end_has_begun(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await supervisor.registry.stop()
        with pytest.raises(Unavailable, match="shutting down"):
            await supervisor.registry.create()


def test_what_its_owner_has_locked_is_removed_too(short_dir: Path) -> None:
    short_dir.chmod(0o755)
    home = short_dir / "home"
    (home / "locked").mkdir(parents=True)
    if os.geteuid() == 0:
        for directory in (home, home / "locked"):
            os.chown(directory, ORDINARY, ORDINARY)
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setresuid(ORDINARY, ORDINARY, ORDINARY)
            inner = home / "locked" / "x" / "y"
            inner.mkdir(parents=True)
            (inner / "file").touch()
            inner.chmod(0)
            inner.parent.chmod(0o555)
            remove_tree(str(home / "locked"))
        finally:
            os._exit(0)  # whatever happened: it must not go on as a second pytest
    os.waitpid(child, 0)
    assert os.listdir(home) == []


# -- times -----------------------------------------------------------------------------------


@pytest.mark.parametrize("jump", [-86_400, 86_400])
async def test_a_wall_clock_that_jumps_moves_no_limit(
    jump: int, monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock
) -> None:
    wall = time.time_ns()
    monkeypatch.setattr(time, "time_ns", lambda: wall)
    record = SandboxRecord("x", config=SandboxConfig(ttl=50, hard_ttl=100), lease=50)
    record.created_at_ns = record.renewed_at_ns = wall - 20 * 10**9
    ended: list[float] = []
    paused: list[float] = []

    async def pause() -> None:
        paused.append(trio.current_time())

    sandbox: Any = SimpleNamespace(
        record=record,
        pause=pause,
        clock=RuntimeClock(),
        sleep=MachineSleep(),
        runtime=SimpleNamespace(state=None),
        id="x",
    )
    began = trio.current_time()
    expiry = Expiry(sandbox, lambda: ended.append(trio.current_time()))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(expiry._watch_hard_limit)
        nursery.start_soon(expiry._watch_lease)
        await trio.sleep(10)
        wall += jump * 10**9
        expiry.renew()
        expiry.reconfigure()
        await trio.sleep(80)
        nursery.cancel_scope.cancel()
    assert paused == [pytest.approx(began + 60)]
    assert ended == [pytest.approx(began + 80)]


# -- forks and roots -------------------------------------------------------------------------


async def test_a_source_that_goes_away_is_not_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        source = await supervisor.registry.create()
        copying, deleted = trio.Event(), trio.Event()
        token = trio.lowlevel.current_trio_token()

        def wait_for_deletion(*_: object) -> None:
            token.run_sync_soon(copying.set)
            trio.from_thread.run(deleted.wait, trio_token=token)

        monkeypatch.setattr(roots, "copy", wait_for_deletion)

        async def fork() -> None:
            with pytest.raises(SandboxNotFound):
                await supervisor.registry.fork(source)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fork)
            await copying.wait()
            await supervisor.registry.delete(source)
            deleted.set()
        assert list(supervisor.sandboxes) == ["local"]
        with pytest.raises(SandboxNotFound):
            await supervisor.registry.fork(source)
    assert os.listdir(tmp_path / "roots") == []
    assert os.listdir(tmp_path / "sandboxes") == ["local"]


def test_a_copy_is_given_up(tmp_path: Path) -> None:
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    program = tmp_path / "cp"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    asked = iter([False, True, True])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(Unavailable, match="shutting down"):
            roots.copy(str(tmp_path / "source"), str(tmp_path / "target"), lambda: next(asked))


@pytest.mark.parametrize("source", [".", "missing", "a/.."])
def test_what_is_not_copied(source: str, tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    with pytest.raises(SandboxConflict):
        roots.copy(str(tmp_path / source), str(tmp_path / "a"), never)


def test_a_fault_of_a_copy_names_no_path_of_ours(tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source" / "file").touch()
    (tmp_path / "target" / "file").mkdir(parents=True)
    with pytest.raises(Unavailable) as caught:
        roots.copy(str(tmp_path / "source"), str(tmp_path / "target"), never)
    assert str(tmp_path) not in str(caught.value)


def test_what_a_killed_daemon_had_begun_is_cleared_away(tmp_path: Path) -> None:
    place = Place(str(tmp_path), RealDisk(), None, Syncer(), "/", None)  # type: ignore[arg-type]
    (tmp_path / "sandboxes").mkdir()
    record = SandboxRecord("kept")
    record.root = place.root_for("kept", None)
    make(place, record, None, never)
    for half_made in ("roots/half", "trash/half.0", "trash/half.1/sessions"):
        (tmp_path / half_made).mkdir(parents=True)
        (tmp_path / half_made / "file").touch()
    empty_trash(place, ["kept"])
    assert os.listdir(tmp_path / "roots") == ["kept"]
    assert os.listdir(tmp_path / "trash") == []
    # A root that is there already is not that of the new sandbox.
    (tmp_path / "roots" / "half").mkdir()
    (tmp_path / "roots" / "half" / "file").touch()
    record = SandboxRecord("half")
    record.root = place.root_for("half", None)
    make(place, record, None, never)
    assert os.listdir(tmp_path / "roots" / "half") == []
    assert record.owns_root


@pytest.mark.parametrize(
    ("path", "made"), [("new", True), ("a/b/new/", True), ("there", False), ("link", False)]
)
def test_a_root_is_made_or_found(path: str, made: bool, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to("there")
    assert roots.make(f"{tmp_path}/{path}", None) is made
    assert os.path.isdir(tmp_path / path)
    assert roots.make("/", None) is False


@pytest.mark.parametrize(
    "path",
    ["relative", "/nul\0", "file", "file/below", "dangling", "x" * 300, "/proc/no", "/proc/no/no"],
)
def test_what_cannot_be_a_root(path: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "dangling").symlink_to("nowhere")
    absolute = path if path == "relative" or path[0] == "/" else f"{tmp_path}/{path}"
    with pytest.raises(InvalidRequest, match=r"config\.root"):
        roots.make(absolute, None)


@pytest.mark.parametrize(
    ("number", "asked"), [(errno.ENOSPC, True), (errno.EIO, True), (errno.EROFS, False)]
)
def test_what_the_disk_refuses_is_no_fault_of_the_path(
    number: int, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "mkdir", refuse)
    with pytest.raises(Unavailable, match=os.strerror(number)):
        roots.make(str(tmp_path / "new"), None, asked=asked)


# -- what is damaged, copied or held up --------------------------------------------------------


async def test_a_damaged_marker_is_made_anew_in_a_later_generation(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        session, _ = await supervisor.default.create(spec_of("true"))
        await session.wait_for(lambda s: s.phase is Phase.EXITED)
        before = supervisor.default.generation
    marker = tmp_path / "sandboxes" / "local" / "sandbox.json"
    marker.write_text("{damaged")
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        assert [one.id for one in supervisor.default.sessions()] == [session.id]
        assert supervisor.default.generation > before + 100
    assert marker.with_name("sandbox.json.damaged").read_text() == "{damaged"


async def test_a_root_that_was_named_is_kept_whatever_it_is_called(tmp_path: Path) -> None:
    named = tmp_path / "roots" / "named"
    async with open_supervisor(tmp_path / "state", cgroups=False) as supervisor:
        await supervisor.registry.create(sandbox_id="named", root=str(named))
        with pytest.raises(InvalidRequest, match=r"config\.root"):
            await supervisor.registry.create(sandbox_id="other", root="roots/other")
    async with open_supervisor(tmp_path / "state", cgroups=False) as supervisor:
        assert supervisor.sandbox("named").root == str(named)


async def test_a_damaged_marker_is_nobodys_where_a_reset_was_asked_for(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await supervisor.default.create(spec_of("true"))
    (tmp_path / "sandboxes" / "local" / "sandbox.json").write_text("{damaged")
    async with open_supervisor(tmp_path, cgroups=False, reset_copied_sessions=True) as supervisor:
        assert supervisor.default.sessions() == []


async def test_a_copy_of_the_state_directory_owns_no_root_outside(tmp_path: Path) -> None:
    state, outside = tmp_path / "state", tmp_path / "outside"
    async with open_supervisor(state, cgroups=False) as supervisor:
        own = await supervisor.registry.create(sandbox_id="own")
        await supervisor.registry.create(sandbox_id="named", root=str(outside))
        (Path(own.root) / "file").write_text("original")
    (outside / "file").write_text("original")
    shutil.copytree(state, tmp_path / "copy")
    async with open_supervisor(tmp_path / "copy", cgroups=False) as supervisor:
        copied = supervisor.sandbox("own")
        assert copied.root == str(tmp_path / "copy" / "roots" / "own")
        for name in ("own", "named"):
            await supervisor.registry.delete(supervisor.sandbox(name))
        assert not Path(copied.root).exists()
    assert (Path(own.root) / "file").read_text() == "original"
    assert (outside / "file").read_text() == "original"
    async with open_supervisor(state, cgroups=False) as supervisor:
        await supervisor.registry.delete(supervisor.sandbox("named"))
    assert not outside.exists()


async def test_a_fork_can_be_told_where_to_go(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path / "state", cgroups=False) as supervisor:
        source = await supervisor.registry.create()
        (Path(source.root) / "file").write_text("copied")
        made = await supervisor.registry.fork(source, root=str(tmp_path / "there"))
        assert (tmp_path / "there" / "file").read_text() == "copied"
        with pytest.raises(SandboxConflict, match="already"):
            await supervisor.registry.fork(source, root=str(tmp_path / "there"))
        await supervisor.registry.delete(made)
        assert not (tmp_path / "there").exists()


@asynccontextmanager
async def being_deleted(supervisor: Supervisor, sandbox: Sandbox) -> AsyncIterator[None]:
    """In the middle of the deletion of `sandbox`."""
    close, closing, may_close = sandbox.close, trio.Event(), trio.Event()

    async def slowly() -> None:
        closing.set()
        await may_close.wait()
        await close()

    sandbox.close = slowly  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(supervisor.registry.delete, sandbox)
        await closing.wait()
        try:
            yield
        finally:
            may_close.set()


async def test_a_key_gives_no_fork_that_is_going(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        source = await supervisor.registry.create()
        made = await supervisor.registry.fork(source, key="k")
        assert await supervisor.registry.fork(source, key="k") is made
        async with being_deleted(supervisor, made):
            with pytest.raises(SandboxConflict, match="Idempotency-Key"):
                await supervisor.registry.fork(source, key="k")
        again = await supervisor.registry.fork(source, key="k")
        assert again is not made
        async with being_deleted(supervisor, source):
            assert await supervisor.registry.fork(source, key="k") is again
            with pytest.raises(SandboxConflict, match="deleted"):
                await supervisor.registry.fork(source, key="other")


async def test_changes_at_once_all_hold(tmp_path: Path) -> None:
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        sandbox = await supervisor.registry.create()
        async with trio.open_nursery() as nursery:
            for name, value in (
                ("ttl", 100),
                ("idle_suspend_seconds", 200),
                ("auto_resume", False),
            ):
                change = partial(msgspec.structs.replace, **{name: value})
                nursery.start_soon(sandbox.configure, change)
        config = sandbox.record.config
        assert (config.ttl, config.idle_suspend_seconds, config.auto_resume) == (100, 200, False)


async def test_a_deletion_that_goes_on_slowly_is_not_overtaken_by_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a start beside a sandbox that was being deleted; its idle time is over meanwhile."""
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        config = SandboxConfig(idle_suspend_seconds=1)
        sandbox = await supervisor.registry.create(config=config)
        await sandbox.store_record(deleting=True)
    write, go_on = Store.write_marker, threading.Event()
    writes: list[str] = []

    def slow(store: Store, record: SandboxRecord) -> None:
        writes.append(record.id)
        if record.deleting and writes.count(record.id) > 1:  # the first one is of the start
            go_on.wait(PATIENCE)
        write(store, record)

    monkeypatch.setattr(Store, "write_marker", slow)
    async with open_supervisor(tmp_path, cgroups=False) as supervisor:
        await trio.sleep(1.2)  # the idle time; nothing tells that nothing came of it
        go_on.set()
        await gone(sandbox, supervisor.registry.table)


async def test_the_limit_of_sessions_is_exact(tmp_path: Path) -> None:
    bounds = Bounds(sessions=3)
    async with open_supervisor(tmp_path, cgroups=False, bounds=bounds) as supervisor:
        sandbox, refused = supervisor.default, []
        await sandbox.create(spec_of("true"), idempotency_key="one")

        async def one(key: str | None) -> None:
            try:
                await sandbox.create(spec_of("true"), idempotency_key=key)
            except LimitExceeded:
                refused.append(key)

        async with trio.open_nursery() as nursery:
            for key in (None, "two", None, "three", None):
                nursery.start_soon(one, key)
        assert len(sandbox.sessions()) == 3
        assert len(refused) == 3
