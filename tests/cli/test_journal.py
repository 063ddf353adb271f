"""`s0d journal`: exit codes, table, JSON, lines, and a reader that leaves."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from s0d.cli.main import main
from s0d.journal import Entry, Journal, Limits, RealDisk
from tests.cli.conftest import Done
from tests.support.journals import FIRST, flip, held, newest, session, write_state

Run = Callable[..., Done]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return write_state(tmp_path / "state")


@pytest.fixture
def s0d(capfd: pytest.CaptureFixture[str]) -> Run:
    """Runs `s0d ARGUMENTS`; there is no daemon."""

    def run(*arguments: object) -> Done:
        code = main([str(argument) for argument in arguments])
        return Done(code, *capfd.readouterr())

    return run


def test_all_is_sound(s0d: Run, state: Path) -> None:
    done = s0d("journal", "verify", state)
    assert (done.code, done.err) == (0, "")
    head, first, _ = (line.split() for line in done.out.splitlines())
    assert head == ["STATUS", "RECORDS", "FIRST", "LAST", "BYTES", "JOURNAL"]
    size = str(newest(state).stat().st_size)
    assert first == ["sound", "3", "1", "3", size, f"{session(state)}/journal"]


def test_damage(s0d: Run, state: Path) -> None:
    flip(newest(state), 120)
    (session(state) / "journal/a\nb").touch()
    done = s0d("journal", "verify", session(state))
    assert (done.code, done.err) == (1, "")
    _, row, *notes = done.out.splitlines()
    assert row.startswith("damaged ")
    path = f"{session(state)}/journal"
    assert notes == [
        f"{path}/{newest(state).name}: at 104: wrong checksum; 1..1 are lost",
        rf"{path}/a\nb: not a part of the journal",
    ]


@pytest.mark.parametrize(
    "arguments", [["-o", "json", "journal", "verify"], ["journal", "verify", "-o", "json"]]
)
def test_json(s0d: Run, state: Path, arguments: list[str]) -> None:
    flip(newest(state), 120)
    done = s0d(*arguments, state, session(state))
    assert (done.code, done.err) == (1, "")
    found = json.loads(done.out)
    assert [one["status"] for one in found] == ["damaged", "sound"], "each journal once"
    assert found[0]["damage"][0]["reason"] == "wrong checksum"


def test_repair_says_that_there_was_damage(s0d: Run, state: Path) -> None:
    (session(state) / "journal/mark").write_bytes(b"")
    done = s0d("journal", "verify", "--repair", state)
    assert (done.code, done.err) == (1, "")
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["repaired", "sound"]
    assert lines[3:] == [
        f"{session(state)}/journal/mark: at 0: the mark cannot be relied on",
        f"{session(state)}/journal/mark: repaired: written anew; "
        "a journal.gap tells of the numbers that are lost",
    ]
    assert s0d("journal", "verify", "--repair", state).code == 0


def test_what_a_daemon_holds_is_not_repaired(s0d: Run, state: Path) -> None:
    (session(state) / "journal/mark").write_bytes(b"")
    with held(state):
        assert s0d("journal", "verify", state).code == 1
        done = s0d("journal", "verify", "--repair", session(state))
    assert (done.code, done.out) == (2, "")
    expected = f"s0d: nothing was repaired: {state} is in use by process {os.getpid()}\n"
    assert done.err == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["verify"], "Missing argument 'PATH…'. (see s0d journal verify --help)"),
        (["verify", "{}/nowhere"], "{}/nowhere: No such file or directory"),
        (["verify", "{}/lock"], "{}/lock: Not a directory"),
        (["dump", "{}/.."], "{}/.. is no journal, session, sandbox or state directory"),
        (["dump", "{}"], "{} has 2 journals: name one of them"),
        (["dump", "--after", "-1", "{}"], None),
        (["dump", "-o", "table", "{}"], None),
    ],
)
def test_usage_errors(s0d: Run, state: Path, arguments: list[str], message: str | None) -> None:
    done = s0d("journal", *(argument.format(state) for argument in arguments))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    if message is not None:
        expected = message.format(state).replace(f"{state}/.. is", f"{state.parent} is")
        assert done.err == f"s0d: {expected}\n"


def test_dump(s0d: Run, state: Path) -> None:
    done = s0d("journal", "dump", session(state), "--after", "1")
    assert (done.code, done.err) == (0, "")
    assert [json.loads(line)["seq"] for line in done.out.splitlines()] == [2, 3]
    done = s0d("journal", "dump", session(state), "--type", "output")
    assert [json.loads(line)["data_base64"] for line in done.out.splitlines()] == ["AP8="]


def test_dump_as_text(s0d: Run, state: Path) -> None:
    flip(newest(state), 120)
    done = s0d("journal", "dump", session(state), "-o", "text")
    assert r"stdout: \x00\xff" in done.out
    first = done.out.splitlines()[0].split()
    assert [first[0], *first[2:]] == ["1", "journal.gap", "reason=damage", "first=1", "last=1"]


def test_a_large_journal_is_streamed_and_its_reader_may_leave(tmp_path: Path) -> None:
    path = tmp_path / "journal"
    journal = Journal.create(RealDisk(), str(path), FIRST, Limits(1 << 30))
    data = {"stream": "stdout", "data": bytes(64 * 1024)}
    for _ in range(16):
        journal.append([Entry(1, 1, "a", "output", data, True)] * 50)
    journal.close()
    limited = (
        # VmHWM begins anew at exec, while ru_maxrss goes on from what the parent had.
        "import sys; from s0d.cli.main import main\n"
        "code = main(['journal', 'dump', {!r}])\n"
        "status = open('/proc/self/status').read()\n"
        "print(code, status.partition('VmHWM:')[2].split()[0], file=sys.stderr)"
    )
    command = [sys.executable, "-c", limited.format(str(path))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as leaving:
        assert leaving.stdout is not None
        assert leaving.stderr is not None
        assert json.loads(leaving.stdout.readline())["seq"] == 1
        leaving.stdout.close()
        assert leaving.stderr.read().split()[0] == b"0"
    assert leaving.returncode == 0
    done = subprocess.run(command, capture_output=True, timeout=60)
    assert done.stdout.count(b"\n") == 800
    code, peak = done.stderr.split()
    assert (code, int(peak) < 100 * 1024) == (b"0", True)  # KiB, of 50 MiB of records
    shutil.rmtree(path)


def test_finding_the_verbs_imports_no_server() -> None:
    code = (
        "import sys\nfrom s0d.cli.main import main\nmain(['journal', '--help'])\n"
        "print({'trio', 'quart', 'hypercorn', 's0d.daemon'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stdout.splitlines()[-1] == "set()"
