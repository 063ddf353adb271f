"""A program starts exactly as asked, or the error says what stands in the way."""

from __future__ import annotations

import errno
import os
import resource
import subprocess
import threading
from pathlib import Path

import pytest
import trio

from s0d.process import libc
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.launch import launch
from s0d.process.pty import TerminalSize
from s0d.process.request import SpawnRequest
from s0d.process.spawner import Spawner

from .conftest import PATH, Run, Start, children, descriptors, python


async def test_environment_is_exactly_what_was_given(run: Run) -> None:
    odd = {"A": "1", "no-identifier.x": "2", "EMPTY": "", "LINES": "a\nb", "UTF": "é", "_": "x"}
    result = await run("/usr/bin/env", "-0", env=odd)
    entries = dict(item.split("=", 1) for item in result.stdout.decode().split("\0")[:-1])
    assert entries == odd


async def test_environment_may_be_empty(run: Run) -> None:
    result = await run("/bin/cat", "/proc/self/environ", env={})
    assert (result.status.exit_code, result.stdout) == (0, b"")


async def test_arguments_are_passed_as_they_are(run: Run) -> None:
    arguments = ["", "a b", "$HOME", "*", "'", "\n", "é", "\udcff"]
    result = await run("/usr/bin/printf", "%s\\0", *arguments)
    assert result.stdout.split(b"\0")[:-1] == [os.fsencode(text) for text in arguments]


async def test_signals_are_default_and_unblocked_also_those_ignored_here(run: Run) -> None:
    # Python ignores SIGPIPE and SIGXFSZ, and the spawner's thread blocks everything.
    result = await run("/bin/cat", "/proc/self/status")
    values = dict(line.split(b":\t") for line in result.stdout.splitlines() if b":\t" in line)
    masks = {values[name] for name in (b"SigPnd", b"ShdPnd", b"SigBlk", b"SigIgn", b"SigCgt")}
    assert masks == {b"0" * 16}


@pytest.mark.parametrize("terminal", [False, True])
async def test_no_descriptor_but_the_three(run: Run, terminal: bool) -> None:
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        result = await run("/bin/sh", "-c", "ls /proc/$$/fd", terminal=terminal)
    finally:
        os.close(reading)
        os.close(writing)
    assert result.stdout.split() == [b"0", b"1", b"2"]


async def test_no_descriptor_leaks_with_an_older_libc(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Old:
        """A C library that has not posix_spawn_file_actions_addclosefrom_np."""

        def __getattr__(self, name: str) -> object:
            if name.endswith("closefrom_np"):
                raise AttributeError(name)
            return getattr(real, name)

    real = libc._libc
    monkeypatch.setattr(libc, "_libc", Old())
    reading, writing = os.pipe()
    os.set_inheritable(writing, True)
    try:
        result = await run("/bin/sh", "-c", "ls /proc/$$/fd")
    finally:
        os.close(reading)
        os.close(writing)
    assert result.stdout.split() == [b"0", b"1", b"2"]


async def test_umask_is_the_childs_and_not_ours(run: Run) -> None:
    before = os.umask(0o077)
    try:
        result = await run("/bin/sh", "-c", "umask")
        other = await run("/bin/sh", "-c", "umask", umask=0o027)
        ours = os.umask(0o077)
    finally:
        os.umask(before)
    assert (result.stdout, other.stdout, ours) == (b"0022\n", b"0027\n", 0o077)


async def test_umask_where_the_thread_may_not_have_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> None:
        raise PermissionError("seccomp")

    monkeypatch.setattr("s0d.process.libc.unshare_fs", refuse)
    before = os.umask(0o077)
    try:
        async with Spawner() as spawner:
            process = await spawner.spawn(SpawnRequest("a", ["/bin/sh", "-c", "umask"], {}, "/"))
            await process.wait()
            assert process.stdout_fd is not None
            assert os.read(process.stdout_fd, 99) == b"0022\n"
            process.close()
        assert os.umask(0o077) == 0o077
    finally:
        os.umask(before)


async def test_working_directory(run: Run, public_dir: Path) -> None:
    result = await run("pwd", "-P", cwd=str(public_dir))
    assert result.stdout.decode() == f"{public_dir}\n"
    assert os.getcwd() != str(public_dir)


async def test_program_with_a_slash_is_relative_to_the_directory(
    run: Run, public_dir: Path
) -> None:
    script = public_dir / "bin" / "hello"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\necho hello $0\n")
    script.chmod(0o755)
    result = await run("bin/hello", cwd=str(public_dir))
    assert result.stdout == b"hello bin/hello\n"


async def test_program_is_looked_up_in_the_attempts_own_path(run: Run, public_dir: Path) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755)):
        program = public_dir / name / "tool"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(mode)
    (public_dir / "zeroth" / "tool").mkdir(parents=True)
    path = f"/nowhere:{public_dir}/zeroth:{public_dir}/first:second"
    result = await run("tool", env={"PATH": path}, cwd=str(public_dir))
    assert result.stdout == b"second\n"


async def test_without_a_path_the_systems_default_is_searched(run: Run) -> None:
    assert (await run("true", env={})).status.exit_code == 0


async def test_leader_of_a_session_and_a_group_of_its_own(start: Start) -> None:
    running = await start("/bin/sleep", "100")
    pid = running.process.pid
    assert (os.getpgid(pid), os.getsid(pid)) == (pid, pid)


async def test_terminal_is_there_at_the_first_instruction(run: Run) -> None:
    script = "stty size; ps -o tpgid= -o pgid= -o sid= -o pid= -o tty= -p $$; tty"
    result = await run("/bin/sh", "-c", script, terminal=TerminalSize(33, 101))
    size, ids, tty = result.stdout.decode().splitlines()
    *numbers, short = ids.split()
    assert size == "33 101"
    assert len(set(numbers)) == 1
    assert tty == f"/dev/{short}"


async def test_terminal_is_all_three_descriptors_and_can_be_opened_by_name(run: Run) -> None:
    script = "test -t 0 && test -t 1 && test -t 2 && echo yes > /dev/tty"
    result = await run("/bin/sh", "-c", script, terminal=True)
    assert (result.status.exit_code, result.stdout) == (0, b"yes\r\n")


async def test_start_time_names_the_process(start: Start) -> None:
    running = await start("/bin/sleep", "100")
    fields = Path(f"/proc/{running.process.pid}/stat").read_text().rpartition(")")[2].split()
    assert running.process.start_time == int(fields[19])


# --- errors ---------------------------------------------------------------------------------


def make_program(directory: Path, name: str, content: bytes, mode: int = 0o755) -> str:
    path = directory / name
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


CASES = {
    "missing": ("/no/such/program", "/", "not_found", "/no/such/program", "No such file"),
    "not in PATH": ("no-such-tool", "/", "not_found", "no-such-tool", "not found in PATH"),
    "a file as directory": ("{dir}/plain/x", "/", "not_found", "{dir}/plain/x", "Not a directory"),
    "not executable": ("{dir}/plain", "/", "access_denied", "{dir}/plain", "Permission denied"),
    "directory": ("{dir}", "/", "is_directory", "{dir}", "Is a directory"),
    "empty": ("{dir}/empty", "/", "bad_format", "{dir}/empty", "Exec format error"),
    "text": ("{dir}/text", "/", "bad_format", "{dir}/text", "Exec format error"),
    "no interpreter": ("{dir}/script", "/", "interpreter", "/no/such/sh", "{dir}/script"),
    "no loader": ("{dir}/elf", "/", "interpreter", "/no64/ld-linux-x86-64.so.2", "{dir}/elf"),
    "no directory": ("true", "{dir}/gone", "cwd_not_found", "{dir}/gone", "No such file"),
    "file as cwd": ("true", "{dir}/plain", "cwd_not_directory", "{dir}/plain", "Not a directory"),
    "NUL in argv": ("a\0b", "/", "invalid", "", "argv[0]"),
    "surrogate": ("a\ud800", "/", "invalid", "", "argv[0]"),
    "NUL in cwd": ("true", "/\0", "invalid", "", "cwd"),
    "empty name": ("", "/", "invalid", "", "no program"),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("terminal", [False, True])
async def test_errors_are_told_apart(
    start: Start, public_dir: Path, case: str, terminal: bool
) -> None:
    make_program(public_dir, "plain", b"#!/bin/sh\n", 0o644)
    make_program(public_dir, "empty", b"")
    make_program(public_dir, "text", b"just words\n")
    make_program(public_dir, "script", b"#!/no/such/sh -e\n")
    make_program(
        public_dir, "elf", Path("/bin/true").read_bytes().replace(b"/lib64/ld", b"/no64/ld")
    )
    name, cwd, kind, path, words = (text.format(dir=public_dir) for text in CASES[case])
    with pytest.raises(SpawnError) as caught:
        await start(name, cwd=cwd, terminal=terminal)
    assert (caught.value.kind.value, caught.value.path) == (kind, path)
    assert words in caught.value.message
    if kind != "invalid":
        assert caught.value.path in caught.value.message
        assert os.strerror(caught.value.errno) in caught.value.message


@pytest.mark.parametrize("env", [{"": "x"}, {"a=b": "x"}, {"a": "x\0"}, {"a\0": "x"}])
async def test_impossible_environments_are_refused(start: Start, env: dict[str, str]) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("true", env=env)
    assert caught.value.kind is SpawnErrorKind.INVALID


async def test_values_never_appear_in_an_error(start: Start) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("true", env={"TOKEN": "hunter2\0"})
    assert "hunter2" not in str(caught.value)


async def test_too_long(start: Start) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("/bin/true", "x" * 200_000)
    assert (caught.value.kind, caught.value.errno) == (SpawnErrorKind.TOO_LONG, 7)
    for name in ("x" * 200_000, "/" + "x" * 300):
        with pytest.raises(SpawnError) as caught:
            await start(name)
        assert (caught.value.kind, caught.value.errno) == (SpawnErrorKind.TOO_LONG, 36)
        assert len(str(caught.value)) < 200


@pytest.mark.skipif(os.geteuid() == 0, reason="root may enter any directory")
async def test_directory_that_may_not_be_entered(start: Start) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("true", cwd="/root")
    assert (caught.value.kind, caught.value.path) == (SpawnErrorKind.CWD_DENIED, "/root")


async def test_directory_that_may_be_entered_but_not_read(run: Run, public_dir: Path) -> None:
    public_dir.chmod(0o111)
    result = await run("/bin/true", cwd=str(public_dir))
    public_dir.chmod(0o755)
    assert result.status.exit_code == 0


def take_all_descriptors() -> list[int]:
    hogs = []
    while True:
        try:
            hogs.append(os.dup(2))
        except OSError:
            return hogs


@pytest.mark.parametrize("terminal", [None, TerminalSize(24, 80)])
async def test_short_of_descriptors_by_any_number(
    spawner: Spawner, terminal: TerminalSize | None
) -> None:
    """It is said, nothing leaks, and with enough of them it works again."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    request = SpawnRequest("a", ["/bin/true"], {}, "/", terminal)
    outcomes = []
    before = descriptors()
    for free in range(12):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, before)) + 20, hard))
        hogs = take_all_descriptors()
        for fd in hogs[:free]:
            os.close(fd)
        try:
            process = await spawner.spawn(request)
        except SpawnError as error:
            outcomes.append((error.kind, error.errno))
        else:
            outcomes.append(None)
            assert (await process.wait()).exit_code == 0
            process.close()
        finally:
            for fd in hogs[free:]:
                os.close(fd)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        assert descriptors() == before
    assert set(outcomes[:3]) == {(SpawnErrorKind.RESOURCES, errno.EMFILE)}
    assert set(outcomes) == {(SpawnErrorKind.RESOURCES, errno.EMFILE), None}
    assert outcomes[-1] is None


# --- the thread ------------------------------------------------------------------------------


async def test_leaving_joins_the_thread_and_processes_live_on() -> None:
    before = set(threading.enumerate())
    async with Spawner() as spawner:
        process = await spawner.spawn(SpawnRequest("a", ["/bin/sleep", "100"], {}, "/"))
    assert set(threading.enumerate()) - before == set()
    process.signal(9)
    assert (await process.wait()).signal == "SIGKILL"
    process.close()
    with pytest.raises(RuntimeError, match="not running"):
        await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/"))


async def test_cancelled_before_its_turn_nothing_is_started(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch, public_dir: Path
) -> None:
    """The first request holds the thread while the second is cancelled."""
    entered, leave = threading.Event(), threading.Event()

    def slow(*arguments: object) -> object:
        entered.set()
        assert leave.wait(20)
        return launch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("s0d.process.spawner.launch", slow)
    processes = []

    async def first() -> None:
        processes.append(await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/")))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await trio.to_thread.run_sync(entered.wait)
        marker = public_dir / "ran"
        with trio.move_on_after(0) as scope:
            await spawner.spawn(SpawnRequest("b", ["/bin/touch", str(marker)], {}, "/"))
        assert scope.cancelled_caught
        leave.set()
    await processes[0].wait()
    processes[0].close()
    assert not marker.exists()


async def test_cancelled_while_being_started_it_is_delivered(
    spawner: Spawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, leave = threading.Event(), threading.Event()

    def slow(*arguments: object) -> object:
        entered.set()
        assert leave.wait(20)
        return launch(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("s0d.process.spawner.launch", slow)
    processes = []

    async def one(scope: trio.CancelScope) -> None:
        with scope:
            processes.append(await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/")))

    scope = trio.CancelScope()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(one, scope)
        await trio.to_thread.run_sync(entered.wait)
        scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        leave.set()
    assert len(processes) == 1
    await processes[0].wait()
    processes[0].close()


async def test_a_bug_in_the_thread_reaches_the_task_that_asked(
    spawner: Spawner, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*arguments: object) -> None:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        patch.setattr("s0d.process.spawner.launch", broken)
        with pytest.raises(ZeroDivisionError):
            await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/"))
    assert (await run("/bin/true")).status.exit_code == 0


async def test_many_at_once_all_told_apart(spawner: Spawner) -> None:
    codes: dict[int, int] = {}

    async def one(code: int) -> None:
        process = await spawner.spawn(
            SpawnRequest(f"a{code}", ["/bin/sh", "-c", f"exit {code}"], {"PATH": PATH}, "/")
        )
        codes[code] = (await process.wait()).exit_code
        process.close()

    async with trio.open_nursery() as nursery:
        for code in range(60):
            nursery.start_soon(one, code)
    assert codes == {code: code for code in range(60)}
    assert len(spawner.registry) == 0


CLOSED = """
import os, trio
from s0d.process.spawner import Spawner
from s0d.process.request import SpawnRequest, ResourceLimits, TerminalSize
for fd in (0, 1, 2): os.close(fd)
argv = ["/bin/sh", "-c", "cat; echo out; echo err >&2; ls /proc/self/fd | wc -l"]
async def main():
    found = []
    async with Spawner() as s:
        for limits in (ResourceLimits(), ResourceLimits(core=0)):
            p = await s.spawn(SpawnRequest("a", argv, {"PATH": "/bin"}, "/", limits=limits))
            os.write(p.stdin_fd, b"in ")
            p.close_stdin()
            await p.wait()
            found += [os.read(p.stdout_fd, 99), os.read(p.stderr_fd, 99)]
            p.close()
            size = TerminalSize(5, 6)
            stty = ["/bin/stty", "size"]
            p = await s.spawn(SpawnRequest("a", stty, {}, "/", size, limits=limits))
            await p.wait()
            found.append(os.read(p.master_fd, 99))
            p.close()
    return found
found = trio.run(main)
open(%r, "w").write(repr(found))
"""


def test_started_with_standard_descriptors_closed(tmp_path: Path) -> None:
    answer = tmp_path / "answer"
    subprocess.run(python("-c", CLOSED % str(answer)), check=True, timeout=60)
    one = [b"in out\n4\n", b"err\n", b"5 6\r\n"]
    assert answer.read_text() == repr(one * 2)


@pytest.mark.long
async def test_attempt_ten_thousand_is_like_the_first(spawner: Spawner) -> None:
    request = SpawnRequest("a", ["/bin/true"], {}, "/")
    for terminal in (None, TerminalSize(24, 80)):
        before = None
        for number in range(5000):
            asked = SpawnRequest(request.attempt_id, request.argv, {}, "/", terminal)
            process = await spawner.spawn(asked)
            assert (await process.wait()).exit_code == 0
            process.close()
            if number == 10:
                before = descriptors()
        assert descriptors() == before
    assert children() == set()
