"""`s0d logs` and `GET …/logs`, with real daemons and real children."""

from __future__ import annotations

import itertools
import json
import random
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

MIB = 1 << 20
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"l{next(_numbers)}"


def create(daemon: Daemon, name: str, script: str, *flags: str) -> str:
    command = ("session", "create", "--name", name, *flags, "--", "sh", "-c", script)
    return str(daemon.json(*command)["id"])


def finish(daemon: Daemon, name: str, script: str, *flags: str) -> None:
    create(daemon, name, script, *flags)
    daemon.json("session", "wait", name, "--exit")


def out(daemon: Daemon, *arguments: str) -> list[str]:
    done = daemon.cli("logs", *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode().splitlines()


def test_lines_and_what_happened(shared_daemon: Daemon, name: str) -> None:
    finish(shared_daemon, name, "echo one; echo two >&2; printf three; exit 3")
    done = shared_daemon.cli("logs", name)
    assert sorted(done.stdout.splitlines()) == [b"one", b"three", b"two"]
    told = done.stderr.decode().splitlines()
    assert told[0].startswith("-- session.created")
    assert re.fullmatch(r"-- attempt.exited reason=exited exit_code=3", told[-1])
    assert out(shared_daemon, name, "--stream", "stderr") == ["two"]
    assert sorted(out(shared_daemon, name, "--stream", "stdout")) == ["one", "three"]
    stamped = out(shared_daemon, name, "--timestamps", "--grep", "one")
    assert re.fullmatch(r"20\d\d-\d\d-\d\dT[\d:.]+Z one", stamped[0])


def test_filters_come_before_the_tail(shared_daemon: Daemon, name: str) -> None:
    finish(shared_daemon, name, "seq 1 5000; echo LAST")
    assert out(shared_daemon, name, "--tail", "2") == ["5000", "LAST"]
    assert out(shared_daemon, name, "-n", "3", "--grep", "^1.*7$") == ["1977", "1987", "1997"]
    assert out(shared_daemon, name, "--grep", "^last$", "-i") == ["LAST"]
    assert out(shared_daemon, name, "--tail", "0") == []
    assert len(out(shared_daemon, name)) == 5001
    assert out(shared_daemon, name, "--tail", "9999") == out(shared_daemon, name)


def test_times(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "echo before; read x; echo after; read x")
    shared_daemon.json("session", "wait", name, "--output", "before")
    border = shared_daemon.json("session", "input", name, "--data", "x\n")
    shared_daemon.json("session", "wait", name, "--output", "after")
    events = shared_daemon.json("session", "events", name)
    at = next(e["occurred_at"] for e in events if e.get("input_id") == border["input_id"])
    assert out(shared_daemon, name, "--since", at) == ["after"]
    assert out(shared_daemon, name, "--until", at) == ["before"]
    assert out(shared_daemon, name, "--since", at, "--tail", "9") == ["after"]
    assert out(shared_daemon, name, "--until", at, "--tail", "9") == ["before"]
    assert out(shared_daemon, name, "--since", "1h") == ["before", "after"]
    assert out(shared_daemon, name, "--until", "1h") == []
    assert out(shared_daemon, name, "--since", "2000-01-01 12:00") == ["before", "after"]
    for text in ("yesterday", "25:00", "-5"):
        done = shared_daemon.cli("logs", name, f"--since={text}")
        assert (done.returncode, done.stdout) == (2, b"")
    shared_daemon.json("session", "stop", name)


def test_attempts(shared_daemon: Daemon, name: str) -> None:
    id = create(shared_daemon, name, "echo of $S0D_ATTEMPT_ID")
    shared_daemon.json("session", "wait", name, "--exit")
    for _ in range(2):
        shared_daemon.json("session", "attempt", name)
        shared_daemon.json("session", "wait", name, "--phase", "exited")
    every = out(shared_daemon, id)
    assert len(set(every)) == 3
    for number, line in enumerate(every, 1):
        assert out(shared_daemon, name, "--attempt", str(number)) == [line]
        assert out(shared_daemon, name, "--attempt", line.split()[1], "--tail", "5") == [line]
    assert out(shared_daemon, name, "--attempt", "4") == []
    done = shared_daemon.cli("logs", "-f", name, "--attempt", "2")
    assert done.returncode == 2
    assert b"the newest attempt is 3" in done.stderr


def test_bytes_that_are_no_text(shared_daemon: Daemon, name: str) -> None:
    finish(shared_daemon, name, r"printf 'caf\303\251 \377\n\033]0;evil\007\033[31mred\033[0m\n'")
    assert out(shared_daemon, name) == ["café \\xff", "red"]
    raw = shared_daemon.cli("logs", name, "--raw")
    assert raw.stdout == b"caf\xc3\xa9 \xff\n\x1b]0;evil\x07\x1b[31mred\x1b[0m\n"
    lines = shared_daemon.json("logs", name, "--grep", "caf|red")
    assert [line["line"] for line in lines] == ["café \\xff", "\x1b]0;evil\x07\x1b[31mred\x1b[0m"]
    assert lines[0]["data_base64"] == "Y2Fmw6kg/w=="
    assert set(lines[1]) == {"seq", "occurred_at", "attempt_id", "stream", "line"}


def test_a_terminals_lines(shared_daemon: Daemon, name: str) -> None:
    finish(shared_daemon, name, r"printf '10%%\r50%%\r100%%\ndone\n'", "--pty")
    assert out(shared_daemon, name) == ["100%", "done"]
    assert out(shared_daemon, name, "--grep", "^done$") == ["done"]


def test_what_has_no_end_yet(shared_daemon: Daemon, name: str) -> None:
    create(shared_daemon, name, "echo whole; printf part; read x")
    shared_daemon.json("session", "wait", name, "--output", "part")
    assert out(shared_daemon, name) == ["whole", "part"]
    assert out(shared_daemon, name, "--tail", "5", "--grep", "a") == ["part"]
    shared_daemon.json("session", "stop", name)


def test_over_http(shared_daemon: Daemon, name: str) -> None:
    id = create(shared_daemon, name, "echo one; echo two; printf three")
    shared_daemon.json("session", "wait", name, "--exit")
    transport = httpx.HTTPTransport(uds=str(shared_daemon.socket))
    base = f"http://localhost/api/v1/sessions/{id}"
    with httpx.Client(transport=transport, base_url=base) as client:
        for query, text in {"": "one\ntwo\nthree\n", "?grep=t&tail=1": "three\n"}.items():
            answer = client.get(f"/logs{query}")
            assert (answer.status_code, answer.text) == (200, text)
            assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        for query in (
            "events=true",
            "tail=x",
            "since=soon",
            "format=xml",
            "stream=in",
            "grep=(",
            "ignore_case=x",
        ):
            answer = client.get(f"/logs?{query}")
            assert answer.status_code == 400
            assert query.partition("=")[0] in answer.json()["error"]["message"]


def test_json(shared_daemon: Daemon, name: str) -> None:
    finish(shared_daemon, name, "echo one; echo two")
    items = shared_daemon.json("logs", name)
    assert [item["line"] for item in items if "line" in item] == ["one", "two"]
    assert items[-1]["event"]["type"] == "attempt.exited"
    assert shared_daemon.json("logs", name, "--grep", "no such") == []


@pytest.mark.parametrize("seed", range(3))
def test_a_tail_is_the_end_of_the_whole(shared_daemon: Daemon, name: str, seed: int) -> None:
    """Lines of every length, of two streams, over the borders of pieces and of small segments."""
    source = random.Random(seed)
    script = shared_daemon.directory / f"{name}.py"
    sizes = [source.choice((0, 3, 50, 3000, 20_000)) for _ in range(400)]
    script.write_text(
        f"import os\nfor n, size in enumerate({sizes}):\n"
        "    data = f'{n}:'.encode() + b'x' * size + (b'' if n % 7 == 3 else b'\\n')\n"
        "    os.write(1 + n % 3 // 2, data)\n"
    )
    spec = {
        "name": name,
        "command": [sys.executable, str(script)],
        "event_retention": {"max_bytes": 1 << 20},
    }
    file = shared_daemon.directory / f"{name}.json"
    file.write_text(json.dumps(spec))
    shared_daemon.json("session", "create", "-f", str(file))
    shared_daemon.json("session", "wait", name, "--exit")
    for flags in ((), ("--grep", "^[0-9]*[05]:"), ("--stream", "stderr")):
        whole = out(shared_daemon, name, *flags)
        assert len(whole) > 20
        for count in (1, 7, len(whole) // 2, len(whole) - 1):
            assert out(shared_daemon, name, *flags, "--tail", str(count)) == whole[-count:]


class Follow:
    """`s0d logs -f` in the background; its two outputs are files."""

    def __init__(self, daemon: Daemon, name: str, *flags: str) -> None:
        self.out, self.err = daemon.directory / "follow.out", daemon.directory / "follow.err"
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "s0d", "logs", "-f", name, *flags],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env=daemon.client_environment,
            )


def test_following_shows_each_line_once_over_attempts_and_a_restart(daemon: Daemon) -> None:
    script = (
        "n=$(cat n 2>/dev/null || echo 1); echo $((n + 1)) > n; "
        "for i in $(seq 500); do echo attempt $n line $i; done; printf 'open '; "
        "read x; echo end of $n; [ $n = 3 ] && read x; exit 1"
    )
    flags = ("--restart", "on_failure", "--cwd", str(daemon.directory), "--stop-grace", "1")
    create(daemon, "up", script, *flags)
    follow = Follow(daemon, "up")
    try:
        daemon.json("session", "input", "up", "--data", "x\n")  # the first attempt ends
        wait_for_text(follow.out, "attempt 2 line 500")
        daemon.restart()  # in the middle of the line "open"
        wait_for_text(follow.out, "attempt 3 line 500")
        daemon.json("session", "input", "up", "--data", "x\n")
        wait_for_text(follow.out, "end of 3")
        daemon.json("session", "delete", "up")
        assert follow.process.wait(30) == 0
    finally:
        follow.process.kill()
        follow.process.wait()
    lines = follow.out.read_text().splitlines()
    expected = []
    for n, last in ((1, "open end of 1"), (2, "open "), (3, "open end of 3")):
        expected += [f"attempt {n} line {i}" for i in range(1, 501)] + [last]
    assert lines == expected
    err = follow.err.read_text()
    assert err.count("-- attempt.started") == 3
    assert "runtime_replaced" in err
    assert err.endswith("s0d: the session was deleted\n")


def test_following_filters(daemon: Daemon) -> None:
    create(daemon, "up", "echo old yes; echo old no; read x; echo new no; echo new yes; read x")
    daemon.json("session", "wait", "up", "--output", "old no")
    follow = Follow(daemon, "up", "--grep", "yes$", "-o", "json")
    try:
        wait_for_text(follow.out, "old yes")
        daemon.json("session", "input", "up", "--data", "x\n")
        wait_for_text(follow.out, "new yes")
        daemon.json("session", "delete", "up")
        assert follow.process.wait(30) == 0
    finally:
        follow.process.kill()
        follow.process.wait()
    lines = [json.loads(line) for line in follow.out.read_text().splitlines()]
    assert [line["line"] for line in lines] == ["old yes", "new yes"]


@pytest.mark.parametrize(
    ("flags", "code", "message"),
    [
        (("--grep", "("), 1, "grep: not a regular expression (RE2)"),
        (("--follow", "--until", "1m"), 2, "--until does not go with --follow"),
        (("-i",), 2, "--ignore-case goes with --grep"),
        (("--raw", "-t"), 2, "--raw is the bytes as they are"),
        (("--stream", "stdin"), 2, "stdin"),
        (("--tail", "-1"), 2, "tail"),
    ],
)
def test_nonsense(
    shared_daemon: Daemon, name: str, flags: tuple[str, ...], code: int, message: str
) -> None:
    create(shared_daemon, name, "true")
    done = shared_daemon.cli("logs", name, *flags)
    assert (done.returncode, done.stdout) == (code, b"")
    assert message in done.stderr.decode()
    assert shared_daemon.cli("logs", "no-such").returncode == 3


def resident(pid: int) -> int:
    """The most memory that a process has had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) << 10


def test_a_tail_is_bounded_and_says_so(shared_daemon: Daemon, name: str) -> None:
    script = f"head -c {44 * MIB} /dev/zero | tr '\\0' x | fold -w 60000; echo; echo end"
    file = shared_daemon.directory / f"{name}.json"
    limits = {"max_bytes": 128 * MIB}
    command = ["sh", "-c", script]
    file.write_text(json.dumps({"name": name, "command": command, "event_retention": limits}))
    shared_daemon.json("session", "create", "-f", str(file))
    shared_daemon.json("session", "wait", name, "--exit")
    done = shared_daemon.cli("logs", name, "--tail", "100000", "--grep", "x|end")
    assert done.stdout.endswith(b"x\nend\n")
    assert 32 * MIB < len(done.stdout) < 40 * MIB
    assert b"only the end of what was asked for" in done.stderr
    whole = shared_daemon.cli("logs", name, "--grep", "x|end")
    assert whole.stdout.endswith(done.stdout)
    assert len(whole.stdout) > 44 * MIB
    shared_daemon.json("rm", name)


@pytest.mark.parametrize("mib", [64, pytest.param(1060, marks=pytest.mark.long)])
def test_a_tail_of_a_large_history_takes_little(daemon: Daemon, mib: int) -> None:
    """Also where what is looked for stands at the other end of a gigabyte, or nowhere."""
    block = "".join(f"{n:07} the quick brown fox jumps over the lazy dog\n" for n in range(20_000))
    source = daemon.directory / "block"
    source.write_text(block)
    script = f"echo needle one; for i in $(seq {mib}); do cat {source}; done; echo needle two"
    spec: dict[str, Any] = {
        "name": "big",
        "command": ["sh", "-c", script],
        "event_retention": {"max_bytes": 1300 * MIB},
    }
    file = daemon.directory / "big.json"
    file.write_text(json.dumps(spec))
    daemon.json("session", "create", "-f", str(file))
    daemon.json("session", "wait", "big", "--exit", "--timeout", "2m")
    expected = {
        "needle": ["needle one", "needle two"],
        "no.*such thing": [],
        "^001999[89] the": [line for line in block.splitlines() if line[:7] > "0019997"] * 5,
    }
    for grep, lines in expected.items():
        begun = time.monotonic()
        assert out(daemon, "big", "--tail", "10", "--grep", grep) == lines
        assert time.monotonic() - begun < 2
    assert resident(daemon.pid) < 150 * MIB
