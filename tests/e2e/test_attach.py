"""Attachments over real WebSockets, with real children (wire contract, section 4, "Attach")."""

from __future__ import annotations

import base64
import hashlib
import itertools
import re
import sys
from collections.abc import Callable
from typing import Any

import pytest
import trio

from s0d.terminal import Screen
from tests.support.client import Client, Event
from tests.support.daemon import Daemon
from tests.support.named import Attached, Closed, Named

MIB = 1 << 20
CAT = ("sh", "-c", "stty raw -echo; echo ready; exec cat")
ECHO = ("sh", "-c", "echo ready; cat")
# Writes so many MiB, no two alike, without anything that a terminal would change.
WRITER = """
import hashlib, os, sys
block = os.urandom(1 << 19).hex().encode()
os.system("stty raw -echo")
sys.stdout.write("ready")
sys.stdout.flush()
sys.stdin.read(1)
total = hashlib.sha256()
for number in range(int(sys.argv[1])):
    data = b"%016d" % number + block[16:]
    total.update(data)
    sys.stdout.buffer.write(data)
sys.stdout.buffer.flush()
print("", total.hexdigest(), end="")
"""
# Writes so many bytes whenever it is sent one, and says which time it was.
ROUNDS = """
import os, sys
os.system("stty raw -echo")
sys.stdout.write("ready")
sys.stdout.flush()
for number in range(100):
    sys.stdin.read(1)
    sys.stdout.write("x" * int(sys.argv[1]) + f"<{number}>")
    sys.stdout.flush()
"""
ROUND = 16 * MIB
_numbers = itertools.count()


@pytest.fixture
def name() -> str:
    return f"a{next(_numbers)}"


async def session_id(supervised: Client, name: str) -> str:
    answer = await supervised.ask("GET", f"?name={name}")
    return str(answer.data["sessions"][-1]["id"])


async def events(supervised: Client, name: str) -> list[Event]:
    return await supervised.history(await session_id(supervised, name))


async def create_supervised(supervised: Client, name: str, *command: str, **spec: Any) -> str:
    answer = await supervised.ask("POST", "", {"name": name, "command": command, **spec})
    assert answer.status == 201, answer
    return str(answer.data["id"])


async def refused(named: Named, name: str, first: Any) -> tuple[str, str]:
    """The code and message with which a first message is refused."""
    async with named.socket(f"/sessions/{name}/attach") as attached:
        await attached.send(first)
        error, closed = await attached.rest()
        assert set(error) == {"type", "code", "message"}
        assert error["type"] == "ERROR"
        assert closed.code == 1008
        return error["code"], error["message"]


# -- the order of frames -----------------------------------------------------------------------


async def test_accepted_replay_live_exit_and_close(named: Named, name: str) -> None:
    script = "echo before; read line; printf 'after %s' \"$line\"; exit 7"
    await named.create(name, "sh", "-c", script)
    async with named.attach(name) as (first, _):
        await first.reads(b"before\r\n")
    async with named.attach(name) as (attached, accepted):
        info = accepted.pop("session")
        assert (info["name"], info["status"], info["attached"]) == (name, "ATTACHED", True)
        seq = accepted.pop("seq")
        assert accepted == {
            "type": "ACCEPTED",
            "replayed_bytes": 8,
            "history_dropped": False,
            "cols": 80,
            "rows": 24,
        }
        assert await attached.receive() == b"before\r\n"
        live = await attached.receive()
        assert isinstance(live, dict)
        assert live.pop("seq") > seq
        assert live == {"type": "LIVE"}
        await attached.send(b"x\n")
        frames = await attached.rest()
        assert attached.output.endswith(b"after x")
        exited = {"exit_code": 7, "signaled": False, "signal": 0, "status": "EXITED"}
        assert frames[-2:] == [{"type": "EXIT", **exited}, Closed(1000, "")]


async def test_what_has_ended_is_replayed_and_ends(named: Named, name: str) -> None:
    await named.create(name, "sh", "-c", "printf out; kill -KILL $$")
    await named.reaches(name, "EXITED")
    for replay in ("history", "none", "screen"):
        async with named.attach(name, replay=replay) as (attached, accepted):
            frames = await attached.rest()
            assert [frame["type"] for frame in frames[:-1]] == ["LIVE", "EXIT"]
            assert frames[1]["signal"] == 9
            assert frames[1]["signaled"]
            assert frames[1]["exit_code"] == 137
            assert len(attached.output) == accepted["replayed_bytes"]
            assert (b"out" in attached.output) == (replay != "none")


async def test_one_that_could_not_start_has_no_exit_code(named: Named, name: str) -> None:
    await named.create(name, "/no/such/program")
    async with named.attach(name) as (attached, _):
        live, exited, closed = await attached.rest()
    assert (live["type"], closed.code) == ("LIVE", 1000)
    assert exited == {"type": "EXIT", "signaled": False, "signal": 0, "status": "FAILED"}


@pytest.mark.parametrize(("mib", "late"), [(0, False), (8, False), (8, True)])
async def test_the_exit_comes_after_the_last_byte(
    named: Named, name: str, mib: int, late: bool
) -> None:
    """Also for a client that reads when all is over: the end then comes with the last output."""
    await named.create(name, sys.executable, "-c", WRITER, str(mib))
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"x")
        if late:
            await named.reaches(name, "EXITED")
        frames = await attached.rest()
    assert frames[-2]["type"] == "EXIT"
    written = attached.output.removeprefix(b"ready")
    data, digest = written[: mib * MIB], written[mib * MIB :].decode()
    assert digest == " " + hashlib.sha256(data).hexdigest()


# -- replay ------------------------------------------------------------------------------------


async def test_history_is_the_newest_of_the_output(named: Named, name: str) -> None:
    await named.create(name, sys.executable, "-c", WRITER, "3")
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"x")
        await attached.until("EXIT")
        whole = attached.output
    for most in (None, 0, 1, 1000, 70_000, MIB + 1, len(whole) - 1, len(whole), 1 << 30):
        start = {} if most is None else {"max_replay_bytes": most}
        async with named.attach(name, **start) as (attached, accepted):
            await attached.until("LIVE")
            size = min(MIB if most is None else most, len(whole))
            assert attached.output == whole[len(whole) - size :]
            assert accepted["replayed_bytes"] == size
            assert accepted["history_dropped"] is (size < len(whole))


async def test_none_is_only_what_comes(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
    async with named.attach(name, replay="none") as (attached, accepted):
        assert (await attached.until("LIVE"))["seq"] == accepted["seq"]
        assert (accepted["replayed_bytes"], attached.output) == (0, b"")
        await attached.send(b"new")
        await attached.reads(b"new")
        assert attached.output == b"new"
    await named.kill(name, signal="KILL")


async def test_a_screen_is_painted_as_it_is(named: Named, supervised: Client, name: str) -> None:
    script = "printf '\\033[2J\\033[5;10H\\033[31mred\\033[0m\\033[?1049h\\033[3;3Halt'; exec cat"
    await named.create(name, "sh", "-c", script, cols=40, rows=10)
    session = await session_id(supervised, name)
    wait = {"for": {"screen": "alt"}}
    assert (await supervised.ask("POST", f"/{session}/wait", wait)).status == 200
    async with named.attach(name, replay="screen", cols=50, rows=12) as (attached, accepted):
        assert (accepted["rows"], accepted["cols"]) == (12, 50)
        await attached.until("LIVE")
        assert len(attached.output) == accepted["replayed_bytes"]
        screen = Screen(12, 50)
        screen.feed(attached.output)
        shown = (await supervised.ask("GET", f"/{session}/screen")).data
        lines = [[run["text"] for run in line] for line in shown["lines"]]
        assert [[run.text for run in line] for line in screen.snapshot().lines] == lines
        assert screen.snapshot().alternate is shown["alternate"] is True
        await attached.send(b"more\r")
        await attached.reads(b"more")
    await named.kill(name, signal="KILL")


async def test_after_is_exact_however_often_the_connection_is_lost(named: Named, name: str) -> None:
    """Whatever a SEQ has confirmed is never sent again, and nothing is left out."""
    await named.create(name, sys.executable, "-c", WRITER, "24")
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        seq, output = (await attached.until("SEQ"))["seq"], attached.output
        await attached.send(b"x")
    exited = False
    for lost_after in itertools.count(1):
        if exited:
            break
        async with named.attach(name, after=seq) as (attached, accepted):
            assert accepted["seq"] == seq
            kept = output
            frames = 0
            while not exited and (frames < lost_after * 3 or seq == accepted["seq"]):
                frame = await attached.receive()
                frames += 1
                if isinstance(frame, bytes):
                    output += frame
                elif frame["type"] == "SEQ":  # type: ignore[index]
                    seq, kept = frame["seq"], output  # type: ignore[index]
                elif frame["type"] == "LIVE":  # type: ignore[index]
                    assert len(attached.output) == accepted["replayed_bytes"]
                    seq, kept = frame["seq"], output  # type: ignore[index]
                else:
                    assert frame["type"] == "EXIT"  # type: ignore[index]
                    exited, kept = True, output
            output = kept
    written = output.removeprefix(b"ready")
    assert len(written) == 24 * MIB + 65
    assert written[24 * MIB :].decode() == " " + hashlib.sha256(written[: 24 * MIB]).hexdigest()


async def test_a_cursor_that_cannot_be_served_is_refused(
    named: Named, supervised: Client, name: str
) -> None:
    session = await create_supervised(
        supervised,
        name,
        *(sys.executable, "-c", WRITER, "2"),
        io={"mode": "pty"},
        event_retention={"max_bytes": 1 << 18},
    )
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"x")
        await attached.until("EXIT")
    cursor = (await supervised.ask("GET", f"/{session}")).data["cursor"]
    assert cursor["earliest"] > 1
    code, message = await refused(named, name, {"type": "START", "after": 0})
    assert code == "event_cursor_expired"
    assert f"after={cursor['earliest'] - 1}" in message
    first = {"type": "START", "after": cursor["latest"] + 1}
    assert (await refused(named, name, first))[0] == "validation_failed"
    async with named.attach(name, after=cursor["earliest"] - 1) as (attached, accepted):
        await attached.until("EXIT")
        assert len(attached.output) == accepted["replayed_bytes"]
    async with named.attach(name) as (attached, accepted):
        assert accepted["history_dropped"] is True


async def test_a_slow_client_is_told_to_the_byte_what_it_has_missed(
    named: Named, supervised: Client, name: str
) -> None:
    """Several times: it reads on, and falls behind again."""
    await create_supervised(
        supervised,
        name,
        *(sys.executable, "-c", ROUNDS, str(ROUND)),
        io={"mode": "pty"},
        event_retention={"max_bytes": 1 << 18},
    )
    async with named.attach(name) as (fast, _), named.attach(name, role="viewer") as (slow, _):
        await slow.reads(b"ready")
        for number in range(4):
            await fast.send(b"x")
            await fast.reads(b"<%d>" % number)  # it reads along while the slow one does not
            await slow.until("OUTPUT_DROPPED")
        # No EOF before it: in raw mode that is a character, which begins another round.
        await fast.send({"type": "SIGNAL", "signal": "TERM"})
        await slow.rest()
    dropped = [frame for frame in slow.controls if frame["type"] == "OUTPUT_DROPPED"]
    assert len(dropped) >= 4
    assert all(set(f) == {"type", "dropped_bytes", "seq"} for f in dropped)
    assert all(frame["dropped_bytes"] > 0 for frame in dropped)
    missed = sum(frame["dropped_bytes"] for frame in dropped)
    whole = len(b"ready") + 4 * (ROUND + len(b"<0>"))
    assert len(slow.output) + missed == whole
    assert slow.output.endswith(b"<3>")


async def test_how_far_it_has_come_is_told_while_output_flows(named: Named, name: str) -> None:
    script = "while :; do echo tick; sleep 0.05; done"
    await named.create(name, "sh", "-c", script)
    async with named.attach(name) as (attached, _):
        began = trio.current_time()
        told = [(await attached.until("SEQ"))["seq"] for _ in range(3)]
        assert trio.current_time() - began < 3
        assert told == sorted(set(told))
    await named.kill(name, signal="KILL")


# -- several clients ---------------------------------------------------------------------------


async def test_many_clients_see_all_output_and_leave_without_a_trace(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, *CAT)
    async with named.attach(name) as (one, _):
        await one.reads(b"ready")
        async with named.attach(name) as (two, _), named.attach(name) as (three, _):
            for number, client in enumerate((one, two, three)):
                await client.send(f"<{number}>".encode())
            for client in (one, two, three):
                for number in range(3):
                    await client.reads(f"<{number}>".encode())
            assert one.output == two.output == three.output
            await two.hang_up()
            await three.send({"type": "DETACH"})
            frames = await three.rest()
            assert frames[-2:] == [{"type": "ENDED", "reason": "DETACHED"}, Closed(1000, "")]
        await one.send(b"still here")
        await one.reads(b"still here")
        assert (await named.get(name))["status"] == "ATTACHED"
    kinds = {event.fields["type"] for event in await events(supervised, name)}
    assert "signal.sent" not in kinds
    assert "attempt.exited" not in kinds
    info = await named.get(name)
    while info["attached"]:  # the daemon learns of the last one's end a moment later
        info = await named.get(name)
    assert info["status"] == "IDLE"
    await named.kill(name, signal="KILL")


async def test_a_viewer_only_looks(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with (
        named.attach(name) as (client, _),
        named.attach(name, role="viewer", cols=10, rows=10) as (viewer, accepted),
    ):
        assert (accepted["rows"], accepted["cols"]) == (24, 80)
        await viewer.reads(b"ready")
        for message in (
            b"input",
            {"type": "EOF"},
            {"type": "SIGNAL", "signal": "KILL"},
            {"type": "RESIZE", "cols": 10, "rows": 10},
        ):
            await viewer.send(message)  # type: ignore[arg-type]
            assert (await viewer.until("ERROR"))["code"] == "forbidden"
        await viewer.send({"type": "PING"})
        await viewer.until("PONG")
        await client.send(b"seen")
        await viewer.reads(b"seen")
        assert b"input" not in viewer.output
    await named.kill(name, signal="KILL")


async def test_a_takeover_detaches_the_others(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with (
        named.attach(name) as (one, _),
        named.attach(name, role="viewer") as (two, _),
    ):
        await one.reads(b"ready")
        async with named.attach(name, role="takeover") as (three, _):
            for client in (one, two):
                frames = await client.rest()
                ended = {"type": "ENDED", "reason": "TAKEOVER"}
                assert frames[-2:] == [ended, Closed(1000, "")]
            await three.send(b"mine")
            await three.reads(b"mine")
            async with named.attach(name) as (four, _):  # later ones may come
                await four.send(b"ours")
                await three.reads(b"ours")
    await named.kill(name, signal="KILL")


async def test_the_last_resize_wins_and_the_others_are_told(
    named: Named, supervised: Client, name: str
) -> None:
    script = "trap 'stty size' WINCH; echo ready; while :; do sleep 0.01; done"
    await named.create(name, "bash", "-c", script, cols=80, rows=24)
    async with named.attach(name) as (one, _):
        await one.reads(b"ready")
        async with named.attach(name, cols=100) as (two, accepted):
            assert (accepted["rows"], accepted["cols"]) == (24, 100)
            assert await one.until("RESIZED") == {"type": "RESIZED", "cols": 100, "rows": 24}
            await one.send({"type": "RESIZE", "cols": 60, "rows": 20})
            assert await two.until("RESIZED") == {"type": "RESIZED", "cols": 60, "rows": 20}
            await one.reads(b"20 60")
            await two.send({"type": "RESIZE", "cols": 61, "rows": 21})
            assert await one.until("RESIZED") == {"type": "RESIZED", "cols": 61, "rows": 21}
            for cols, rows in ((0, 1), (1, 0), (65536, 1), (1, -1)):
                await two.send({"type": "RESIZE", "cols": cols, "rows": rows})
                assert (await two.until("ERROR"))["code"] == "validation_failed"
            for client, told in ((one, [100, 61]), (two, [60])):  # and never of its own
                sizes = [f["cols"] for f in client.controls if f["type"] == "RESIZED"]
                assert sizes == told
    resized = [
        (event.fields["rows"], event.fields["cols"])
        for event in await events(supervised, name)
        if event.fields["type"] == "terminal.resized"
    ]
    assert resized == [(24, 100), (20, 60), (21, 61)]
    await named.kill(name, signal="KILL")


# -- input -------------------------------------------------------------------------------------


async def test_input_is_accepted_in_order_and_recorded(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, *CAT)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        sent = [f"{number:04d}".encode() for number in range(500)]
        for piece in sent:
            await attached.send(piece)
        await attached.reads(sent[-1])
        assert attached.output.partition(b"ready")[2].lstrip() == b"".join(sent)
    accepted = [e.fields for e in await events(supervised, name) if "input_id" in e.fields]
    assert len({fields["input_id"] for fields in accepted}) == len(sent)
    assert {fields["type"] for fields in accepted} == {"input.accepted"}
    assert sum(fields["bytes"] for fields in accepted) == 2000
    await named.kill(name, signal="KILL")


async def test_input_larger_than_the_queue_waits_for_the_program(named: Named, name: str) -> None:
    script = "stty raw -echo; echo ready; head -c 6000000 | sha256sum"
    await named.create(name, "sh", "-c", script)
    data = bytes(range(256)) * 23438
    data = data[:6_000_000]
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        for at in range(0, len(data), 500_000):
            await attached.send(data[at : at + 500_000])
        await attached.reads(hashlib.sha256(data).hexdigest().encode())


async def test_eof_signals_and_pings(named: Named, name: str) -> None:
    script = "trap 'echo caught' USR1; echo ready; while read line; do :; done; echo eof; exec cat"
    await named.create(name, "bash", "-c", script)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await attached.send({"type": "PING"})
        assert await attached.until("PONG") == {"type": "PONG"}
        await attached.send({"type": "SIGNAL", "signal": "SIGUSR1"})
        await attached.reads(b"caught")
        await attached.send({"type": "EOF"})
        await attached.reads(b"eof")
        await attached.send({"type": "EOF"})
        assert (await attached.until("EXIT"))["exit_code"] == 0


@pytest.mark.parametrize(
    "message",
    [
        "{",
        "[]",
        {"type": "NONSENSE"},
        {"type": "START"},
        {"type": "RESIZE"},
        {"type": "SIGNAL", "signal": "NOPE"},
        {"type": "SIGNAL"},
        {"kind": "PING"},
    ],
)
async def test_a_message_that_is_not_valid_is_answered_and_the_client_stays(
    named: Named, name: str, message: Any
) -> None:
    await named.create(name, *CAT)
    async with named.attach(name) as (attached, _):
        await attached.send(message)
        assert (await attached.until("ERROR"))["code"] == "validation_failed"
        await attached.send(b"")
        await attached.send(b"fine")
        await attached.reads(b"fine")
    await named.kill(name, signal="KILL")


# -- admission ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "code"),
    [
        (b"bytes", "validation_failed"),
        ("{", "validation_failed"),
        ({"type": "PING"}, "validation_failed"),
        ({"type": "START", "role": "owner"}, "validation_failed"),
        ({"type": "START", "replay": "all"}, "validation_failed"),
        ({"type": "START", "cols": 65536}, "validation_failed"),
        ({"type": "START", "max_replay_bytes": -1}, "validation_failed"),
        ({"type": "START", "after": -1}, "validation_failed"),
        ({"type": "START", "x": "y" * (64 << 10)}, "request_too_large"),
    ],
)
async def test_a_start_that_is_not_valid_is_refused(
    named: Named, name: str, first: Any, code: str
) -> None:
    await named.create(name, *CAT)
    assert (await refused(named, name, first))[0] == code
    assert not (await named.get(name))["attached"]
    await named.kill(name, signal="KILL")


@pytest.mark.parametrize("wrong", ["none", "Not-A-Name"])
async def test_a_session_that_is_not_there_is_refused_at_start(named: Named, wrong: str) -> None:
    assert (await refused(named, wrong, {"type": "START"}))[0] == "session_not_found"


async def test_options_in_the_query_do_not_count(named: Named, name: str) -> None:
    await named.create(name, *CAT)
    async with named.socket(f"/sessions/{name}/attach?role=takeover&replay=none") as attached:
        await attached.send({"type": "START", "role": "viewer"})
        await attached.reads(b"ready")
        await attached.send(b"x")
        assert (await attached.until("ERROR"))["code"] == "forbidden"
    await named.kill(name, signal="KILL")


# -- both surfaces -----------------------------------------------------------------------------


async def test_a_session_with_pipes_takes_input_and_no_size(
    named: Named, supervised: Client, name: str
) -> None:
    script = "echo out; echo err >&2; cat; exit 4"
    await create_supervised(supervised, name, "sh", "-c", script)
    async with named.attach(name, cols=100, rows=30) as (attached, accepted):
        assert (accepted["rows"], accepted["cols"]) == (0, 0)
        await attached.reads(b"out\n")
        await attached.reads(b"err\n")
        await attached.send({"type": "RESIZE", "cols": 80, "rows": 24})
        assert (await attached.until("ERROR"))["code"] == "session_conflict"
        await attached.send(b"in\n")
        await attached.reads(b"in\n")
        await attached.send({"type": "EOF"})
        assert (await attached.until("EXIT"))["exit_code"] == 4
    assert (await refused(named, name, {"type": "START", "replay": "screen"}))[0] == (
        "session_conflict"
    )


async def test_a_stop_from_the_other_surface_ends_it_as_killed(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, *CAT)
    session = await session_id(supervised, name)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        answer = await supervised.ask("PUT", f"/{session}/desired-state", {"state": "stopped"})
        assert answer.status == 200
        exited = await attached.until("EXIT")
        assert (exited["signaled"], exited["status"]) == (True, "KILLED")
    assert (await named.get(name))["status"] == "KILLED"


async def test_restarts_of_a_supervised_session_are_seen_through(
    named: Named, supervised: Client, name: str
) -> None:
    restart = {"policy": "always", "max_restarts": 2, "initial_backoff_ms": 50}
    script = 'echo "run $$."; read line'
    session = await create_supervised(
        supervised, name, "sh", "-c", script, io={"mode": "pty"}, lifecycle={"restart": restart}
    )
    async with named.attach(name) as (attached, _):
        for run in range(3):
            while len(re.findall(rb"run \d+\.", attached.output)) <= run:
                await attached.receive()
            wait = {"for": {"phase": "running"}}
            assert (await supervised.ask("POST", f"/{session}/wait", wait)).status == 200
            await attached.send(b"\n")
        assert (await attached.until("EXIT"))["status"] == "FAILED"


async def test_input_between_two_attempts_is_refused_and_said_to_be(
    named: Named, supervised: Client, name: str
) -> None:
    restart = {"policy": "always", "initial_backoff_ms": 60_000, "max_backoff_ms": 60_000}
    session = await create_supervised(
        supervised, name, "true", io={"mode": "pty"}, lifecycle={"restart": restart}
    )
    wait = {"for": {"phase": "backoff"}}
    assert (await supervised.ask("POST", f"/{session}/wait", wait)).status == 200
    async with named.attach(name) as (attached, accepted):
        assert accepted["session"]["status"] == "ATTACHED"
        await attached.send(b"x")
        assert (await attached.until("ERROR"))["code"] == "session_conflict"
        await named.kill(name)
        assert (await attached.until("EXIT"))["status"] == "KILLED"


async def test_a_delete_ends_it_after_the_last_byte(
    named: Named, supervised: Client, name: str
) -> None:
    script = "trap 'printf last; exit' TERM HUP; echo ready; while :; do sleep 0.01; done"
    await named.create(name, "sh", "-c", script)
    session = await session_id(supervised, name)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        assert (await supervised.ask("DELETE", f"/{session}")).status == 200
        frames = await attached.rest()
        assert frames[-2:] == [{"type": "ENDED", "reason": "DELETED"}, Closed(1000, "")]
        assert "EXIT" not in [frame["type"] for frame in frames[:-1]]
        assert attached.output.endswith(b"last")


async def test_what_is_typed_here_is_seen_on_the_other_surface(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, *CAT)
    session = await session_id(supervised, name)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"here")
        wait = {"for": {"output": "here"}}
        assert (await supervised.ask("POST", f"/{session}/wait", wait)).status == 200
        data = base64.b64encode(b"there").decode()
        body = {"input_id": "1", "data_base64": data}
        assert (await supervised.ask("POST", f"/{session}/inputs", body)).status == 202
        await attached.reads(b"there")
    await named.kill(name, signal="KILL")


async def test_what_a_killed_daemon_had_accepted_is_there_for_the_next(daemon: Daemon) -> None:
    named, supervised = Named(daemon.socket), Client(daemon.socket)
    await named.create("one", *CAT)
    async with named.attach("one") as (attached, _):
        await attached.reads(b"ready")
        await attached.send(b"typed")
        await attached.reads(b"typed")
        daemon.kill()
    await trio.to_thread.run_sync(daemon.start)
    info = await named.get("one")
    assert (info["status"], info["attached"], "exit" in info) == ("KILLED", False, False)
    async with named.attach("one") as (attached, _):
        live, exited, closed = await attached.rest()
        assert attached.output.endswith(b"typed")
    assert (live["type"], closed) == ("LIVE", Closed(1000, ""))
    assert exited == {"type": "EXIT", "signaled": False, "signal": 0, "status": "KILLED"}
    kinds = [event.fields["type"] for event in await events(supervised, "one")]
    assert "input.accepted" in kinds
    replaced = {"name": "one", "cmd": ["true"], "replace": True}
    assert (await named.ask("POST", "/sessions", replaced)).status == 201


# -- the runtime -------------------------------------------------------------------------------


async def test_a_shutdown_ends_attachments_at_once(daemon: Daemon) -> None:
    named = Named(daemon.socket)
    await named.create("one", "sh", "-c", "trap '' TERM HUP; echo ready; sleep 1000")
    async with (
        named.attach("one") as (attached, _),
        named.socket("/sessions/one/attach") as waiting,
        trio.open_nursery() as nursery,
    ):
        await attached.reads(b"ready")
        await named.kill("one", grace_ms=300)  # so that the daemon need not wait for its grace
        nursery.start_soon(trio.to_thread.run_sync, daemon.stop)
        for each in (attached, waiting):
            frames = await each.rest()
            assert frames[-2:] == [{"type": "ENDED", "reason": "SHUTDOWN"}, Closed(1001, "")]


async def test_attaching_wakes_a_frozen_sandbox(daemon: Daemon) -> None:
    named = Named(daemon.socket)
    await named.create("one", *CAT)
    async with named.attach("one") as (attached, _):
        await attached.reads(b"ready")
    pause: Callable[[], Any] = lambda: named.ask(  # noqa: E731
        "POST", "/api/v1/sandboxes/local/pause", {"memory": True}, prefix=""
    )
    assert (await pause()).status == 200
    listed = (await named.ask("GET", "/sessions")).json
    assert listed["sandbox_suspended"] is True
    assert listed["sessions"][0]["status"] == "IDLE"
    async with named.socket("/sessions/one/attach") as unadmitted:
        assert (await named.ask("GET", "/sessions")).json["sandbox_suspended"] is True
        await unadmitted.send({"type": "START"})
        await unadmitted.until("ACCEPTED")
        assert (await named.ask("GET", "/sessions")).json["sandbox_suspended"] is False
        await unadmitted.send(b"awake")
        await unadmitted.reads(b"awake")
        assert (await pause()).status == 200  # explicit: also with somebody attached
        await unadmitted.send(b"again")  # and input wakes it
        await unadmitted.reads(b"again")
    assert isinstance(unadmitted, Attached)


async def test_a_pause_that_ends_the_runtime_ends_attachments(daemon: Daemon) -> None:
    named = Named(daemon.socket)
    await named.create("one", *CAT)
    async with named.attach("one") as (attached, _):
        await attached.reads(b"ready")
        await named.ask("POST", "/api/v1/sandboxes/local/pause", prefix="")
        assert (await attached.until("EXIT"))["status"] == "KILLED"
    assert (await named.get("one"))["status"] == "KILLED"
    assert (await named.ask("POST", "/resume")).json["already_running"] is False
    assert (await named.get("one"))["status"] == "KILLED"  # it never runs again by itself


async def test_a_deleted_sandbox_ends_attachments(daemon: Daemon) -> None:
    named = Named(daemon.socket)
    claimed = await named.ask(
        "POST", "/api/v1/sandboxes", {"template": "t", "id": "box"}, prefix=""
    )
    assert claimed.status == 201, claimed
    box = Named(daemon.socket, "/v1/sandbox/box")
    await box.create("one", *CAT)
    assert await named.names() == []
    async with box.attach("one") as (attached, _), box.socket("/exec") as terminal:
        await terminal.send({"type": "START", "cmd": ["cat"]})
        await terminal.until("LIVE")
        await attached.reads(b"ready")
        deleted = await named.ask("DELETE", "/api/v1/sandboxes/box", prefix="")
        assert deleted.status == 202, deleted
        for each in (attached, terminal):
            frames = await each.rest()
            assert frames[-2:] == [{"type": "ENDED", "reason": "DELETED"}, Closed(1000, "")]
