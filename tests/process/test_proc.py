"""/proc is read right whatever a process calls itself, and when it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.process import proc

numbers = st.integers(0, 2**31)


@settings(deadline=None)
@given(
    pid=st.integers(1, 2**22),
    name=st.binary(max_size=64).filter(lambda name: b"\0" not in name),
    state=st.sampled_from("RSDTtZXI"),
    fields=st.lists(numbers, min_size=49, max_size=49),
)
def test_any_name(pid: int, name: bytes, state: str, fields: list[int]) -> None:
    tail = " ".join(map(str, fields)).encode()
    stat = proc.parse_stat(b"%d (%s) %s %s\n" % (pid, name, state.encode(), tail))
    assert (stat.pid, os.fsencode(stat.name), stat.state) == (pid, name, state)
    assert (stat.ppid, stat.pgid, stat.sid) == tuple(fields[:3])
    assert (stat.cpu_ticks, stat.waited_cpu_ticks) == (
        fields[10] + fields[11],
        fields[12] + fields[13],
    )
    assert (stat.threads, stat.start_time, stat.resident_pages) == (
        fields[16],
        fields[18],
        fields[20],
    )


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_anything_else_is_a_value_error(raw: bytes) -> None:
    try:
        proc.parse_stat(raw)
    except ValueError:
        return


def test_our_own() -> None:
    stat = proc.read_stat(os.getpid())
    assert stat is not None
    assert (stat.ppid, stat.pgid, stat.sid) == (os.getppid(), os.getpgid(0), os.getsid(0))
    assert stat.alive
    assert os.getpid() in proc.list_pids()


def test_a_zombie_is_not_alive_and_a_gone_one_is_none() -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    stat = proc.read_stat(child.pid)
    assert stat is not None
    assert not stat.alive
    assert proc.environment_value(child.pid, "PATH") is None
    child.wait()
    assert proc.read_stat(child.pid) is None
    assert proc.start_time(child.pid) is None
    assert proc.environment_value(child.pid, "PATH") is None


def test_a_process_whose_first_thread_has_ended_is_alive() -> None:
    code = (
        "import ctypes, threading, sys\n"
        "threading.Thread(target=sys.stdin.read).start()\n"
        "print(flush=True)\n"
        "ctypes.CDLL(None).syscall(60, 0)\n"  # exit(2) of this thread alone
    )
    if os.uname().machine != "x86_64":
        pytest.skip("the number of exit(2) is that of x86-64")
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        assert child.stdout is not None
        child.stdout.readline()
        while True:
            stat = proc.read_stat(child.pid)
            assert stat is not None
            if stat.state == "Z":
                break
        assert stat.alive
        child.kill()


@pytest.mark.parametrize("looks", [0, 1, 2])
def test_an_exec_that_ends_between_two_looks(looks: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment is empty when it is read, and there when the state is."""
    environments = iter([b""] * (looks + 1) + [b"A=1\0"])
    amid = iter([b"7 (x) " + b"9 " * 48 + b"0"] * looks)
    done = b"7 (x) " + b"9 " * 50

    def read(path: str) -> bytes:
        return next(environments) if path.endswith("environ") else next(amid, done)

    monkeypatch.setattr(proc, "_read", read)
    monkeypatch.setattr(proc, "_EXEC_PAUSE", 0)
    assert proc.environment_value(7, "A") == "1"


def test_value_of_a_variable() -> None:
    environment = {"A": "1", "AB": "2=3", "E": ""}
    with subprocess.Popen(
        ["/bin/cat"], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as child:
        values = {name: proc.environment_value(child.pid, name) for name in ("A", "AB", "E", "B")}
        child.communicate()
    assert values == {"A": "1", "AB": "2=3", "E": "", "B": None}


def test_last_pid_is_that_of_a_new_child() -> None:
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        assert abs(proc.last_pid() - child.pid) < 1000
        child.communicate()


def test_what_was_born_in_between_without_other_threads() -> None:
    before = proc.last_pid()
    stop = threading.Event()
    thread = threading.Thread(target=stop.wait)
    thread.start()
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as child:
        born = proc.pids_between(before, proc.last_pid())
        child.communicate()
    stop.set()
    thread.join()
    assert child.pid in born
    assert thread.native_id not in born


def test_numbers_that_began_again_mean_a_full_look() -> None:
    assert os.getpid() in proc.pids_between(2**22, 5)
