"""Buffered commands over real HTTP, with real children (wire contract, section 4)."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.client import Client
from tests.support.daemon import Daemon
from tests.support.leftovers import processes_with
from tests.support.named import PATIENCE, Answer, Named

MIB = 1 << 20
KINDS = {
    "exit_code": int,
    "signaled": bool,
    "timed_out": bool,
    "stdout": str,
    "stderr": str,
    "stdout_truncated": bool,
    "stderr_truncated": bool,
    "output_encoding": str,
}


@pytest.fixture
def mark(shared_daemon: Daemon, request: pytest.FixtureRequest) -> str:
    """A variable in the environment of this test's processes alone."""
    return f"{abs(hash(request.node.nodeid))}"


async def execute(named: Named, *cmd: str, **fields: Any) -> dict[str, Any]:
    answer = await named.ask("POST", "/exec", {"cmd": cmd, **fields})
    result = dict(answer.json)
    kinds = KINDS | ({"signal": int} if result["signaled"] else {})
    assert {k: type(v) for k, v in result.items()} == kinds
    return result


async def gone(mark: str) -> None:
    """Wait until no process of the test lives."""
    with trio.fail_after(PATIENCE):
        while processes_with(f"MARK={mark}"):  # noqa: ASYNC110  (nobody tells)
            await trio.sleep(0.01)


async def test_output_and_exit_code(named: Named) -> None:
    script = "echo out; echo err >&2; exit 3"
    assert await execute(named, "sh", "-c", script) == {
        "exit_code": 3,
        "signaled": False,
        "timed_out": False,
        "stdout": "out\n",
        "stderr": "err\n",
        "stdout_truncated": False,
        "stderr_truncated": False,
        "output_encoding": "utf8",
    }


async def test_environment_and_directory(named: Named) -> None:
    script = 'echo "$A|$S0D_SANDBOX_ID|${S0D_SESSION_ID-none}"; pwd'
    result = await execute(named, "sh", "-c", script, env={"A": "b c"}, path="/tmp")
    assert result["stdout"] == "b c|local|none\n/tmp\n"


async def test_it_is_no_session_and_leaves_nothing(named: Named, shared_daemon: Daemon) -> None:
    await execute(named, "true")
    answer = await Client(shared_daemon.socket).ask("GET")
    assert answer.data["sessions"] == []
    execs = shared_daemon.state_dir / "sandboxes/local/execs"
    assert os.listdir(execs) == []


@pytest.mark.parametrize("size", [0, 1, 100_000, 3 * MIB])
async def test_standard_input_goes_in_whole_and_then_ends(named: Named, size: int) -> None:
    data = os.urandom(size)
    script = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    stdin = base64.b64encode(data).decode()
    result = await execute(named, "python3", "-c", script, stdin_b64=stdin)
    assert result["stdout"].strip() == hashlib.sha256(data).hexdigest()


async def test_input_that_is_not_read_is_no_fault(named: Named) -> None:
    stdin = base64.b64encode(bytes(2 * MIB)).decode()
    assert (await execute(named, "true", stdin_b64=stdin))["exit_code"] == 0


async def test_output_of_any_bytes(named: Named) -> None:
    data = bytes(range(256))
    stdin = base64.b64encode(data).decode()
    result = await execute(named, "cat", stdin_b64=stdin, output_encoding="base64")
    assert base64.b64decode(result["stdout"]) == data
    assert result["output_encoding"] == "base64"
    result = await execute(named, "cat", stdin_b64=stdin, output_encoding="utf8")
    assert result["stdout"] == data.decode("utf-8", "replace")


@pytest.mark.parametrize(("size", "cut"), [(MIB, False), (MIB + 1, True), (20 * MIB, True)])
async def test_a_mebibyte_of_each_stream_is_kept(named: Named, size: int, cut: bool) -> None:
    script = f"import sys; sys.stdout.write('o' * {size}); sys.stderr.write('e' * {size})"
    result = await execute(named, "python3", "-c", script)
    assert (result["stdout"], result["stderr"]) == ("o" * MIB, "e" * MIB)
    assert result["stdout_truncated"] is result["stderr_truncated"] is cut
    assert result["exit_code"] == 0


async def test_a_character_that_is_cut_in_two_is_left_out(named: Named) -> None:
    script = f"import sys; sys.stdout.write('x' * {MIB - 1} + 'é')"
    result = await execute(named, "python3", "-c", script, env={"PYTHONIOENCODING": "utf-8"})
    assert result["stdout"] == "x" * (MIB - 1)
    assert result["stdout_truncated"]


async def test_a_signal_is_a_number(named: Named) -> None:
    result = await execute(named, "sh", "-c", "kill -TERM $$")
    assert (result["exit_code"], result["signaled"], result["signal"]) == (143, True, 15)


async def test_a_timeout_ends_the_whole_tree(named: Named, mark: str) -> None:
    script = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 1000' & echo before; sleep 1000"
    began = time.monotonic()
    result = await execute(named, "sh", "-c", script, timeout_s=1, env={"MARK": mark})
    assert 1 <= time.monotonic() - began < 3
    assert processes_with(f"MARK={mark}") == []
    assert (result["timed_out"], result["signaled"], result["signal"]) == (True, True, 9)
    assert result["stdout"] == "before\n"


async def test_what_is_left_in_the_background_ends_with_it(named: Named, mark: str) -> None:
    script = "setsid sleep 1000 >/dev/null 2>&1 & echo done"
    result = await execute(named, "sh", "-c", script, env={"MARK": mark})
    assert (result["exit_code"], result["stdout"]) == (0, "done\n")
    assert processes_with(f"MARK={mark}") == []


async def test_nothing_is_left_when_the_client_goes_away(
    named: Named, shared_daemon: Daemon, mark: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    script = "trap '' TERM HUP; setsid sleep 1000 & echo >\"$0\"; sleep 1000"
    body = {"cmd": ["sh", "-c", script, str(started)], "env": {"MARK": mark}}
    async with trio.open_nursery() as nursery:
        nursery.start_soon(named.ask, "POST", "/exec", body)
        await trio.to_thread.run_sync(started.read_text)
        assert len(processes_with(f"MARK={mark}")) >= 2
        nursery.cancel_scope.cancel()
    await gone(mark)


async def test_many_at_once(named: Named) -> None:
    async def one(number: int) -> None:
        assert (await execute(named, "echo", str(number)))["stdout"] == f"{number}\n"

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(one, number)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"cmd": []}, "cmd"),
        ({"cmd": ["a\0b"]}, "cmd[0]"),
        ({"cmd": None}, "cmd"),
        ({"cmd": ["/no/such/program"]}, "cmd: /no/such/program"),
        ({"path": "/no/such/directory"}, "path: working directory: /no/such/directory"),
        ({"path": "/dev/null"}, "path: "),
        ({"env": {"A=": ""}}, "env"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"timeout_s": 301}, "timeout_s"),
        ({"stdin_b64": "%"}, "stdin_b64"),
        ({"output_encoding": "latin1"}, "output_encoding"),
    ],
)
async def test_what_is_not_valid_is_refused(
    named: Named, change: dict[str, Any], field: str
) -> None:
    answer = await named.ask("POST", "/exec", {"cmd": ["true"], **change})
    assert answer.code == (400, "validation_failed")
    assert field in answer.problem["detail"]


async def test_a_daemon_that_was_killed_leaves_no_command(
    daemon: Daemon, mark: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    script = "trap '' HUP PIPE; (exec env -i sleep 1001) & echo >\"$0\"; exec sleep 1000"
    body = {"cmd": ["sh", "-c", script, str(started)], "env": {"MARK": mark}}

    async def ask() -> Answer | None:
        try:
            return await Named(daemon.socket).ask("POST", "/exec", body)
        except Exception:
            return None

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.to_thread.run_sync(started.read_text)
        daemon.kill()
    await trio.to_thread.run_sync(daemon.start)
    assert processes_with(f"MARK={mark}") == []
    assert os.listdir(daemon.state_dir / "sandboxes/local/execs") == []


async def test_a_daemon_that_stops_ends_its_commands(
    daemon: Daemon, mark: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    script = "trap '' TERM HUP; echo >\"$0\"; sleep 1000"
    body = {"cmd": ["sh", "-c", script, str(started)], "env": {"MARK": mark}}

    async def ask() -> None:
        try:
            await Named(daemon.socket).ask("POST", "/exec", body)
        except Exception:
            return

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.to_thread.run_sync(started.read_text)
        assert await trio.to_thread.run_sync(daemon.stop) == 0
    assert processes_with(f"MARK={mark}") == []


async def test_a_pause_ends_it_and_a_freeze_does_not(
    daemon: Daemon, mark: str, tmp_path: Path
) -> None:
    started = tmp_path / "started"
    os.mkfifo(started)
    named, answers = Named(daemon.socket), []
    script = 'echo >"$0"; read line; exec sleep 1000'
    body = {"cmd": ["sh", "-c", script, str(started)], "env": {"MARK": mark}}

    async def ask() -> None:
        answers.append(await named.ask("POST", "/exec", body))

    async def pause(memory: bool) -> None:
        path = "/api/v1/sandboxes/local/pause"
        answer = await named.ask("POST", path, {"memory": memory}, prefix="")
        assert json.loads(answer.body)["success"], answer

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await trio.to_thread.run_sync(started.read_text)
        await pause(memory=True)
        assert (await named.ask("GET", "/sessions")).json["sandbox_suspended"] is True
        assert (await named.ask("POST", "/resume")).json["already_running"] is False
        assert processes_with(f"MARK={mark}") != []
        assert not answers
        await pause(memory=False)
    assert processes_with(f"MARK={mark}") == []
    assert answers[0].json["signal"] == 9
    assert (await execute(named, "echo", "awake"))["stdout"] == "awake\n"  # it wakes the sandbox
