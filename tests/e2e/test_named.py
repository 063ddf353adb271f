"""Named sessions over real HTTP, with real children (wire contract, section 4)."""

from __future__ import annotations

import itertools
import json
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
import trio

from tests.support.client import Client
from tests.support.named import Named

SLEEP = ("sleep", "1000")
LIVE = ("STARTING", "IDLE", "ATTACHED")
KINDS = {
    "name": str,
    "command": list,
    "working_dir": str,
    "status": str,
    "attached": bool,
    "started_at_unix_nanos": int,
    "last_activity_unix_nanos": int,
}
_numbers = itertools.count()


@pytest.fixture
def name() -> Iterator[str]:
    return iter([f"n{next(_numbers)}"]).__next__()  # type: ignore[return-value]


def check_info(info: dict[str, Any]) -> None:
    """Every field of the type that the contract gives it, and no other."""
    kinds = dict(KINDS)
    if info["status"] in ("EXITED", "KILLED", "FAILED"):
        kinds["ended_at_unix_nanos"] = int
        assert not info["attached"] or info["status"]
        if "exit" in info:
            kinds["exit"] = dict
            exit = {"exit_code": int, "signaled": bool, "signal": int}
            assert {k: type(v) for k, v in info["exit"].items()} == exit
    else:
        assert info["status"] in LIVE
    assert {k: type(v) for k, v in info.items()} == kinds


# -- create ------------------------------------------------------------------------------------


async def test_a_session_is_created_listed_and_got(named: Named, name: str) -> None:
    before = time.time_ns()
    info = await named.create(name, *SLEEP, path="/tmp")
    check_info(info)
    assert (info["name"], info["command"], info["working_dir"]) == (name, list(SLEEP), "/tmp")
    assert (info["status"], info["attached"]) == ("IDLE", False)
    assert before <= info["started_at_unix_nanos"] <= time.time_ns()
    assert await named.get(name) == info
    answer = (await named.ask("GET", "/sessions")).json
    assert set(answer) == {"sessions", "sandbox_suspended"}
    assert answer["sandbox_suspended"] is False
    assert info in answer["sessions"]
    await named.kill(name, signal="KILL")


async def test_it_is_a_terminal_session_that_never_runs_again_by_itself(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, *SLEEP, env={"A": "b"}, cols=100, rows=30)
    answer = await supervised.ask("GET", f"?name={name}")
    [session] = answer.data["sessions"]
    spec = session["spec"]
    assert spec["name"] == name
    assert spec["env"] == {"A": "b"}
    assert spec["io"]["mode"] == "pty"
    assert (spec["io"]["terminal"]["rows"], spec["io"]["terminal"]["cols"]) == (30, 100)
    assert spec["lifecycle"]["restart"]["policy"] == "never"
    assert spec["lifecycle"]["runtime_recovery"] == "stop"
    await named.kill(name, signal="KILL")


async def test_an_absent_size_or_0_is_the_usual_one(named: Named, name: str) -> None:
    command = ("sh", "-c", "stty size >size; cat size; exec sleep 1000")
    for number, size in enumerate(({}, {"cols": 0, "rows": 0}, {"cols": 512, "rows": 1})):
        each = f"{name}-{number}"
        await named.create(each, *command, path="/tmp", **size)
        async with named.attach(each) as (attached, accepted):
            await attached.reads(b"1 512\r\n" if size.get("cols") else b"24 80\r\n")
            assert (accepted["rows"], accepted["cols"]) == ((1, 512) if number == 2 else (24, 80))
        await named.kill(each, signal="KILL")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "Upper"}, "name"),
        ({"name": "1st"}, "name"),
        ({"name": "a" * 33}, "name"),
        ({"name": "a\n"}, "name"),
        ({"name": "a_b"}, "name"),
        ({"name": None}, "name"),
        ({"cmd": []}, "cmd"),
        ({"cmd": [" "]}, "cmd[0]"),
        ({"cmd": ["a\0"]}, "cmd[0]"),
        ({"cmd": "ls"}, "cmd"),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"A": None}}, "env"),
        ({"path": "a\0"}, "path"),
        ({"cols": 513}, "cols"),
        ({"rows": -1}, "rows"),
        ({"cols": "80"}, "cols"),
        ({"replace": "yes"}, "replace"),
        ({"restart": "always"}, "restart"),
    ],
)
async def test_what_is_not_valid_is_refused_with_its_field(
    named: Named, change: dict[str, Any], field: str
) -> None:
    body = {"name": "never", "cmd": ["true"], **change}
    answer = await named.ask("POST", "/sessions", body)
    assert answer.code == (400, "validation_failed")
    assert field in answer.problem["detail"]
    assert "never" not in await named.names()


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"name": "never", "cmd": ["true"]} x'])
async def test_a_body_that_is_no_json_object_is_refused(named: Named, body: bytes) -> None:
    answer = await named.ask("POST", "/sessions", body)
    assert answer.code == (400, "validation_failed")


async def test_a_command_that_cannot_start_makes_a_failed_session(named: Named, name: str) -> None:
    info = await named.create(name, "/no/such/program")
    check_info(info)
    assert info["status"] == "FAILED"
    assert "exit" not in info
    assert info["ended_at_unix_nanos"] >= info["started_at_unix_nanos"]


# -- names -------------------------------------------------------------------------------------


async def test_a_live_name_is_taken_with_and_without_replace(named: Named, name: str) -> None:
    first = await named.create(name, *SLEEP)
    for replace in (False, True, None):
        body = {"name": name, "cmd": ["true"], "replace": replace}
        assert (await named.ask("POST", "/sessions", body)).code == (409, "session_exists")
    assert await named.get(name) == first
    await named.kill(name, signal="KILL")


async def test_an_ended_name_is_replaced_with_its_history_and_only_if_asked(
    named: Named, supervised: Client, name: str
) -> None:
    await named.create(name, "echo", "former")
    await named.reaches(name, "EXITED")
    [former] = (await supervised.ask("GET", f"?name={name}")).data["sessions"]
    body = {"name": name, "cmd": ["echo", "latter"]}
    assert (await named.ask("POST", "/sessions", body)).code == (409, "session_exists")
    assert (await named.ask("POST", "/sessions", body | {"replace": True})).status == 201
    async with named.attach(name) as (attached, _):
        await attached.reads(b"latter")
        assert b"former" not in attached.output
    assert (await supervised.ask("GET", f"/{former['id']}")).status == 404
    assert (await named.names()).count(name) == 1


async def test_of_many_who_create_one_name_at_once_one_makes_it(named: Named, name: str) -> None:
    statuses: Counter[int] = Counter()

    async def create(replace: bool) -> None:
        body = {"name": name, "cmd": SLEEP, "replace": replace}
        statuses[(await named.ask("POST", "/sessions", body)).status] += 1

    for round in range(2):  # a new name; then one that has ended
        statuses.clear()
        async with trio.open_nursery() as nursery:
            for number in range(12):
                nursery.start_soon(create, bool(round) or number % 2 == 0)
        assert statuses == {201: 1, 409: 11}
        await named.kill(name, signal="KILL")


# -- both surfaces -----------------------------------------------------------------------------


async def test_a_supervised_session_is_reached_by_its_name_newest_live_first(
    named: Named, supervised: Client, name: str
) -> None:
    async def create(*command: str, **fields: Any) -> str:
        spec = {"name": name, "command": command, **fields}
        answer = await supervised.ask("POST", "", spec)
        return str(answer.data["id"])

    async def command() -> Any:
        return (await named.get(name))["command"]

    oldest = await create("sleep", "1001")
    assert await command() == ["sleep", "1001"]
    await create("sleep", "1002")
    assert await command() == ["sleep", "1002"]
    ended = await create("true")
    answer = await supervised.ask("POST", f"/{ended}/wait", {"for": {"exit": True}})
    assert answer.status == 200
    assert await command() == ["sleep", "1002"]  # the newest live one
    assert (await named.names()).count(name) == 1
    for _ in range(2):
        await named.kill(name, signal="KILL")
    assert await command() == ["true"]  # all ended: the newest
    assert (await supervised.ask("GET", f"/{oldest}")).data["phase"] == "stopped"


@pytest.mark.parametrize("wrong", ["Upper", "under_score", "a" * 33, "-a"])
async def test_a_name_of_another_form_is_not_reached(
    named: Named, supervised: Client, wrong: str
) -> None:
    created = await supervised.ask("POST", "", {"name": wrong, "command": ["true"]})
    assert created.status == 201
    assert wrong not in await named.names()
    assert (await named.ask("GET", f"/sessions/{wrong}")).code == (404, "session_not_found")


# -- kill --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "number"),
    [({}, 15), ({"signal": "INT"}, 2), ({"signal": "HUP"}, 1), ({"signal": "KILL"}, 9)],
)
async def test_a_kill_sends_its_signal(
    named: Named, name: str, body: dict[str, Any], number: int
) -> None:
    await named.create(name, *SLEEP)
    check_info(await named.kill(name, **body))
    info = await named.reaches(name, "KILLED")
    check_info(info)
    assert info["exit"] == {"exit_code": 128 + number, "signaled": True, "signal": number}


async def test_a_kill_is_answered_at_once_and_ends_the_whole_tree_after_its_grace(
    named: Named, name: str
) -> None:
    script = "trap '' TERM HUP; setsid sh -c 'trap \"\" TERM; sleep 1000' & echo ready; wait; wait"
    await named.create(name, "sh", "-c", script)
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        began = time.monotonic()
        info = await named.kill(name, grace_ms=400)
        assert time.monotonic() - began < 0.35
        assert info["status"] == "ATTACHED"
        assert (await attached.until("EXIT"))["signal"] == 9
        assert time.monotonic() - began >= 0.4
    info = await named.get(name)
    assert (info["status"], info["exit"]["signal"]) == ("KILLED", 9)


async def test_killed_it_is_whatever_its_exit_code(named: Named, name: str) -> None:
    await named.create(
        name, "sh", "-c", "trap 'exit 0' TERM; echo ready; while :; do sleep 0.01; done"
    )
    async with named.attach(name) as (attached, _):
        await attached.reads(b"ready")
        await named.kill(name)
        exited = await attached.until("EXIT")
    assert exited == {
        "type": "EXIT",
        "exit_code": 0,
        "signaled": False,
        "signal": 0,
        "status": "KILLED",
    }
    assert (await named.get(name))["status"] == "KILLED"


async def test_the_kill_of_an_ended_session_changes_nothing(named: Named, name: str) -> None:
    await named.create(name, "sh", "-c", "exit 3")
    before = await named.reaches(name, "EXITED")
    assert before["exit"] == {"exit_code": 3, "signaled": False, "signal": 0}
    assert await named.kill(name, signal="KILL") == before


@pytest.mark.parametrize(
    "body",
    [
        {"signal": "USR1"},
        {"signal": "term"},
        {"signal": 9},
        {"grace_ms": -1},
        {"grace_ms": 60001},
        {"grace_ms": 1.5},
    ],
)
async def test_a_kill_that_is_not_valid_kills_nothing(
    named: Named, name: str, body: dict[str, Any]
) -> None:
    await named.create(name, *SLEEP)
    answer = await named.ask("POST", f"/sessions/{name}/kill", body)
    assert answer.code == (400, "validation_failed")
    assert (await named.get(name))["status"] == "IDLE"
    await named.kill(name, signal="KILL")


async def test_an_empty_kill_of_any_type_counts_as_absent(named: Named, name: str) -> None:
    await named.create(name, *SLEEP)
    headers = {"Content-Type": "text/plain"}
    answer = await named.ask("POST", f"/sessions/{name}/kill", b"", headers)
    assert answer.status == 200
    assert (await named.reaches(name, "KILLED"))["exit"]["signal"] == 15


# -- delete, resume ----------------------------------------------------------------------------


async def test_only_what_has_ended_is_deleted(named: Named, name: str) -> None:
    await named.create(name, *SLEEP)
    path = f"/sessions/{name}"
    assert (await named.ask("DELETE", path)).code == (409, "session_live")
    await named.kill(name, signal="KILL")
    answer = await named.ask("DELETE", path)
    assert (answer.status, answer.body) == (204, b"")
    assert not {"content-type", "content-length"} & answer.headers.keys()
    for method, suffix in (("GET", ""), ("DELETE", ""), ("POST", "/kill")):
        assert (await named.ask(method, path + suffix)).code == (404, "session_not_found")


@pytest.mark.parametrize("body", [None, b"", {}])
async def test_resume_says_that_it_runs(named: Named, body: Any) -> None:
    answer = await named.ask("POST", "/resume", body)
    assert answer.json == {"sandbox_id": "local", "already_running": True}


# -- errors ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/sessions/none", (404, "session_not_found")),
        ("GET", "/nothing", (404, "not_found")),
        ("GET", "/sessions/a%2Fb", (404, "not_found")),
        ("PUT", "/sessions", (405, "method_not_allowed")),
        ("GET", "/sessions/none/attach", (400, "validation_failed")),
    ],
)
async def test_errors_are_problem_details(
    named: Named, method: str, path: str, code: tuple[int, str]
) -> None:
    answer = await named.ask(method, path)
    assert answer.code == code
    assert "x-request-id" in answer.headers
    assert ("allow" in answer.headers) == (code[0] == 405)


@pytest.mark.parametrize("sandbox", ["other", "Not-An-Id", "a" * 64])
async def test_another_sandbox_is_not_found(named: Named, sandbox: str) -> None:
    for method, path in (("GET", "/sessions"), ("POST", "/resume"), ("GET", "/sessions/a/attach")):
        answer = await named.ask(method, path, prefix=f"/v1/sandbox/{sandbox}")
        if not path.endswith("attach"):
            assert answer.code == (404, "sandbox_not_found")


async def test_media_type_size_and_length_are_checked(named: Named) -> None:
    body = {"name": "never", "cmd": ["true"]}
    headers = {"Content-Type": "text/plain"}
    answer = await named.ask("POST", "/sessions", json.dumps(body).encode(), headers)
    assert answer.code == (415, "unsupported_media_type")
    headers = {"Content-Length": str(1 << 30)}
    assert (await named.ask("POST", "/sessions", b"", headers)).code == (413, "request_too_large")


# -- what its terminal shows -------------------------------------------------------------------


async def test_a_screen_is_there_by_name_too(named: Named, supervised: Client, name: str) -> None:
    script = "printf 'one\\r\\n\\033[1mtwo\\033[0m'; exec sleep 1000"
    await named.create(name, "sh", "-c", script, cols=20, rows=4)
    found = next(
        one
        for one in (await supervised.ask("GET", "")).data["sessions"]
        if one["spec"].get("name") == name
    )
    wanted = {"for": {"screen": "two"}, "timeout_ms": 30_000}
    assert (await supervised.ask("POST", f"/{found['id']}/wait", wanted)).status == 200
    screen = (await named.ask("GET", f"/sessions/{name}/screen")).json
    assert (screen["session_id"], screen["rows"], screen["cols"]) == (found["id"], 4, 20)
    text = await named.ask("GET", f"/sessions/{name}/screen?format=text")
    assert text.body.split() == [b"one", b"two"]
    refused = await named.ask("GET", f"/sessions/{name}/screen?format=png")
    assert refused.code == (400, "validation_failed")
    assert (await named.ask("GET", "/sessions/none/screen")).code == (404, "session_not_found")
    await named.kill(name, signal="KILL")
