"""Every route of a session over HTTP, with the real supervisor and real processes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.supervisor import Supervisor, open_supervisor
from tests.api.harness import AUTH, JSON, LIMIT, Answer, Served, b64, request, serving

ROOT = "/api/v1/sandboxes/local/sessions"
DEFAULT = "/api/v1/sessions"
CAT = {"command": ["cat"], "lifecycle": {"stop_grace_period_seconds": 1}}


@pytest.fixture
async def supervised(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with open_supervisor(tmp_path) as supervisor:
        yield supervisor


@pytest.fixture
async def real(supervised: Supervisor, short_dir: Path) -> AsyncIterator[Served]:
    async with serving(supervised, short_dir) as running:
        yield running


async def created(served: Served, spec: Any = CAT) -> Any:
    answer = await served.ask("POST", ROOT, body=spec)
    assert answer.status == 201
    return answer.data


async def events(served: Served, sid: str, until: str) -> list[dict[str, Any]]:
    """The events of a session up to the first of a type, from the stream."""
    wire = await served.connect()
    await wire.send(request("GET", f"{ROOT}/{sid}/events/stream", AUTH))
    await wire.head()
    found = []
    async with wire.stream:
        while not found or found[-1]["type"] != until:
            line = (await wire.until(b"\n")).decode()
            if line.startswith("data: "):
                found.append(json.loads(line[6:]))
    return found


async def test_life_of_a_session(real: Served) -> None:
    session = await created(real, {**CAT, "name": " worker "})
    sid = session["id"]
    assert session["spec"]["name"] == "worker"
    assert session["phase"] == "running"
    assert session["spec"]["lifecycle"]["restart"]["max_restarts"] == 5
    attempt = session["attempt"]["id"]

    body = {"input_id": "one", "data_base64": b64(b"hi\n"), "expected_attempt_id": attempt}
    sent = await real.ask("POST", f"{ROOT}/{sid}/inputs", body=body)
    assert sent.status == 202
    accepted = {"input_id": "one", "attempt_id": attempt, "accepted": True, "duplicate": False}
    assert sent.data == accepted
    again = await real.ask("POST", f"{ROOT}/{sid}/inputs", body=body)
    assert (again.status, again.data) == (202, {**accepted, "duplicate": True})
    await events(real, sid, "output")

    stopped = await real.ask("PUT", f"{ROOT}/{sid}/desired-state", body={"state": "stopped"})
    assert (stopped.status, stopped.data["phase"]) == (200, "stopped")
    assert stopped.data["attempt"]["reason"] == "desired_state_stopped"
    started = await real.ask("PUT", f"{ROOT}/{sid}/desired-state", body={"state": "running"})
    assert started.status == 200
    assert started.data["attempt"]["number"] == 2

    running = await real.ask("POST", f"{ROOT}/{sid}/attempts", body={})
    assert (running.status, running.code) == (409, "session_conflict")
    replaced = await real.ask("POST", f"{ROOT}/{sid}/attempts", body={"replace_current": True})
    assert (replaced.status, replaced.data["attempt"]["number"]) == (201, 3)

    updated = await real.ask("PUT", f"{ROOT}/{sid}", body={"command": ["cat", "-u"]})
    assert (updated.status, updated.data["spec"]["command"]) == (200, ["cat", "-u"])
    assert "name" not in updated.data["spec"]

    signal = await real.ask("POST", f"{ROOT}/{sid}/signals", body={"signal": "kill"})
    assert (signal.status, signal.data) == (202, {"accepted": True})

    deleted = await real.ask("DELETE", f"{ROOT}/{sid}")
    assert (deleted.status, deleted.data) == (200, {"deleted": True})
    for method, end in (("GET", ""), ("DELETE", ""), ("GET", "/events"), ("GET", "/events/stream")):
        gone = await real.ask(method, f"{ROOT}/{sid}{end}")
        assert (gone.status, gone.code) == (404, "session_not_found")


async def test_both_prefixes_are_one(real: Served) -> None:
    session = await created(real)
    for root in (ROOT, DEFAULT):
        assert (await real.ask("GET", f"{root}/{session['id']}")).data["id"] == session["id"]
        listed = (await real.ask("GET", root)).data
        assert [s["id"] for s in listed["sessions"]] == [session["id"]]
        assert set(listed) == {"sessions"}
    other = await real.ask("GET", "/api/v1/sandboxes/other/sessions")
    assert (other.status, other.code) == (404, "sandbox_not_found")


async def test_idempotency_key(real: Served) -> None:
    keyed = {**JSON, "Idempotency-Key": " key "}
    spec = json.dumps(CAT).encode()
    first = await real.ask("POST", ROOT, keyed, spec)
    retry = await real.ask("POST", ROOT, {**JSON, "Idempotency-Key": "key"}, spec)
    assert (first.status, retry.status) == (201, 200)
    assert retry.data["id"] == first.data["id"]
    other = await real.ask("POST", ROOT, keyed, b'{"command": ["true"]}')
    assert (other.status, other.code) == (409, "session_conflict")
    for key in ("", "  ", "x" * 256):
        bad = await real.ask("POST", ROOT, {**JSON, "Idempotency-Key": key}, spec)
        assert (bad.status, bad.code) == (400, "invalid_request")
    assert len((await real.ask("GET", ROOT)).data["sessions"]) == 1


async def test_terminal_and_its_size(real: Served) -> None:
    spec = {
        "command": [
            "sh",
            "-c",
            "trap 'stty size; exit' WINCH; echo ready; while :; do read x; done",
        ],
        "io": {"mode": "pty"},
        "readiness": {"type": "output", "output": "ready"},
    }
    session = await created(real, spec)
    sid = session["id"]
    await events(real, sid, "session.ready")
    resized = await real.ask("PUT", f"{ROOT}/{sid}/terminal", body={"rows": 7, "cols": 99})
    assert (resized.status, resized.data) == (200, {"resized": True})
    seen = await events(real, sid, "attempt.exited")
    size = next(event for event in seen if event["type"] == "terminal.resized")
    assert (size["rows"], size["cols"]) == (7, 99)
    pipes = await created(real)
    refused = await real.ask("PUT", f"{ROOT}/{pipes['id']}/terminal", body={"rows": 7, "cols": 99})
    assert (refused.status, refused.code) == (409, "session_conflict")


async def test_list_can_be_cut_and_filtered(real: Served) -> None:
    made = [
        (await created(real, {"command": ["true"], "name": name, "lifecycle": STOPPED}))["id"]
        for name in ("a", "b", "a", "c", "a")
    ]
    walked: list[str] = []
    cursor = ""
    while True:
        page = (await real.ask("GET", f"{ROOT}?limit=2&cursor={cursor}")).data
        walked += [session["id"] for session in page["sessions"]]
        if "next_cursor" not in page:
            break
        cursor = page["next_cursor"]
    assert walked == made
    named = (await real.ask("GET", f"{ROOT}?name=a&limit=2")).data
    assert [session["id"] for session in named["sessions"]] == [made[0], made[2]]
    rest = (await real.ask("GET", f"{ROOT}?name=a&limit=2&cursor={named['next_cursor']}")).data
    assert [session["id"] for session in rest["sessions"]] == [made[4]]
    assert "next_cursor" not in rest
    assert len((await real.ask("GET", f"{ROOT}?phase=stopped")).data["sessions"]) == 5
    assert (await real.ask("GET", f"{ROOT}?phase=running")).data == {"sessions": []}


STOPPED = {"desired_state": "stopped"}


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "cursor=x", "cursor=1.x", "phase=nice"])
async def test_list_of_nonsense(real: Served, query: str) -> None:
    answer = await real.ask("GET", f"{ROOT}?{query}")
    assert (answer.status, answer.code) == (400, "invalid_request")


async def test_command_that_cannot_start_is_still_a_session(real: Served) -> None:
    session = await created(real, {"command": ["/no/such/program"]})
    assert session["phase"] == "failed"
    assert session["attempt"]["reason"] == "start_failed"
    assert "/no/such/program" in session["attempt"]["message"]


BODIES = [
    ("POST", "", "SessionSpec"),
    ("PUT", "/{sid}", "SessionSpec"),
    ("PUT", "/{sid}/desired-state", "state"),
    ("POST", "/{sid}/attempts", "optional"),
    ("POST", "/{sid}/inputs", "input"),
    ("POST", "/{sid}/signals", "signal"),
    ("PUT", "/{sid}/terminal", "size"),
]


@pytest.fixture
async def sid(real: Served) -> str:
    return str((await created(real))["id"])


@pytest.mark.parametrize(("method", "path", "kind"), BODIES)
async def test_bad_bodies_get_the_documented_error(
    real: Served, sid: str, method: str, path: str, kind: str
) -> None:
    target = ROOT + path.format(sid=sid)
    before = (await real.ask("GET", ROOT)).data

    async def refused(body: bytes, content_type: str = "application/json") -> Answer:
        headers = {**AUTH, "Content-Type": content_type}
        return await real.ask(method, target, headers, body)

    deep = b'{"unknown": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    for body in (b"{", b"[]", b'"x"', b"1", b"{} {}", b"\xff", b"{}x", deep, b"nul"):
        answer = await refused(body)
        assert (answer.status, answer.code) == (400, "invalid_request"), body
        assert b"Traceback" not in answer.body
    for content_type in ("text/plain", "application/x-www-form-urlencoded", "application/jsonx"):
        answer = await refused(b"{}", content_type)
        assert (answer.status, answer.code) == (415, "unsupported_media_type")
    if kind != "optional":
        assert (await refused(b"")).status == 400
        assert (await refused(b"{}", "application/json; charset=utf-8")).status == 400
    assert (await real.ask("GET", ROOT)).data == before


async def test_empty_body_of_an_optional_one(real: Served, sid: str) -> None:
    """Whatever its type."""
    for content_type in ("application/json", "text/plain"):
        headers = {**AUTH, "Content-Type": content_type}
        answer = await real.ask("POST", f"{ROOT}/{sid}/attempts", headers)
        assert (answer.status, answer.code) == (409, "session_conflict")  # one is running
    untyped = await real.ask("POST", f"{ROOT}/{sid}/attempts", AUTH, b'{"replace_current": true}')
    assert untyped.status == 201


NAMED = [
    ("inputs", {}, "input_id"),
    ("inputs", {"input_id": ""}, "input_id"),
    ("inputs", {"input_id": "x"}, "data_base64"),
    ("inputs", {"input_id": "x", "data_base64": "a"}, "data_base64"),
    ("inputs", {"input_id": "x", "data_base64": "YQ"}, "data_base64"),
    ("inputs", {"input_id": "x", "data_base64": "YQ==\n"}, "data_base64"),
    ("inputs", {"input_id": "x", "data_base64": "_-8="}, "data_base64"),
    ("inputs", {"input_id": "x", "eof": "yes"}, "eof"),
    ("inputs", {"input_id": "x" * 256, "eof": True}, "input_id"),
    ("inputs", {"input_id": 1, "eof": True}, "input_id"),
    ("signals", {"signal": "NOPE"}, "signal"),
    ("signals", {"signal": 0}, "signal"),
    ("signals", {"signal": 65}, "signal"),
    ("signals", {"signal": True}, "signal"),
    ("signals", {}, "signal"),
    ("terminal", {"rows": 0, "cols": 1}, "rows"),
    ("terminal", {"rows": 1, "cols": 65536}, "cols"),
    ("terminal", {"rows": 1}, "cols"),
    ("desired-state", {"state": "paused"}, "state"),
    ("desired-state", {}, "state"),
    ("attempts", {"replace_current": 1}, "replace_current"),
]


async def test_message_names_the_field(real: Served, sid: str) -> None:
    for path, body, field in NAMED:
        method = "PUT" if path in ("terminal", "desired-state") else "POST"
        answer = await real.ask(method, f"{ROOT}/{sid}/{path}", body=body)
        assert (answer.status, answer.code) == (400, "invalid_request"), (path, body)
        assert field in answer.json["error"]["message"]


async def test_unknown_fields(real: Served, sid: str) -> None:
    """Refused in a specification, ignored elsewhere."""
    misspelt = await real.ask("POST", ROOT, body={**CAT, "lifecyle": {}})
    assert (misspelt.status, misspelt.code) == (400, "invalid_request")
    assert "lifecyle" in misspelt.json["error"]["message"]
    signal = await real.ask("POST", f"{ROOT}/{sid}/signals", body={"signal": "CONT", "x": [1]})
    assert signal.status == 202


async def test_body_over_the_limit(supervised: Supervisor, short_dir: Path) -> None:
    """16 MiB by default; a chunked body is counted as it comes."""
    async with serving(supervised, short_dir, max_body=1000) as served:
        spec = json.dumps({**CAT, "env": {"A": "x" * 1000}}).encode()
        long = await served.ask("POST", ROOT, JSON, spec)
        assert (long.status, long.code) == (413, "request_too_large")
        wire = await served.connect()
        await wire.send(request("POST", ROOT, {**JSON, "Transfer-Encoding": "chunked"}))
        await wire.send(b"".join(b"1\r\n%c\r\n" % byte for byte in spec) + b"0\r\n\r\n")
        chunked = await wire.answer()
        assert (chunked.status, chunked.code) == (413, "request_too_large")
        assert (await served.ask("GET", ROOT)).data == {"sessions": []}


async def test_chunked_body_is_taken(real: Served) -> None:
    wire = await real.connect()
    spec = json.dumps(CAT).encode()
    await wire.send(request("POST", ROOT, {**JSON, "Transfer-Encoding": "chunked"}))
    for byte in spec:
        await wire.send(b"1\r\n%c\r\n" % byte)
    await wire.send(b"0\r\n\r\n")
    assert (await wire.answer()).status == 201


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PATCH", "", "GET, HEAD, POST"),
        ("DELETE", "", "GET, HEAD, POST"),
        ("POST", "/{sid}", "DELETE, GET, HEAD, PUT"),
        ("GET", "/{sid}/inputs", "POST"),
        ("OPTIONS", "/{sid}/terminal", "PUT"),
        ("POST", "/{sid}/events", "GET, HEAD"),
    ],
)
async def test_other_methods(real: Served, sid: str, method: str, path: str, allow: str) -> None:
    answer = await real.ask(method, ROOT + path.format(sid=sid))
    assert (answer.status, answer.code) == (405, "method_not_allowed")
    assert answer.headers["allow"] == allow


async def test_head_has_no_body(real: Served) -> None:
    wire = await real.connect()
    await wire.send(request("HEAD", ROOT, AUTH))
    answer = await wire.answer("HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert (await wire.ask("GET", ROOT)).status == 200


async def test_websocket_and_plain_routes_are_told_apart(real: Served, sid: str) -> None:
    answer = await real.ask("GET", f"{ROOT}/{sid}/ws")
    assert (answer.status, answer.code) == (400, "invalid_request")


async def test_websocket_echo(real: Served, sid: str) -> None:
    socket = await real.websocket(f"{ROOT}/{sid}/ws?after=4")
    for n in range(3):
        data = b64(b"%d" % n)
        await socket.send({"type": "input", "input_id": str(n), "data_base64": data})
        seen = await socket.until("ack")
        while not any(m.get("event", {}).get("data_base64") == data for m in seen):
            seen.append(await socket.receive())
    assert (await real.ask("GET", f"{ROOT}/{sid}")).data["attachments"] == 1


async def test_delete_ends_every_stream(real: Served, sid: str) -> None:
    socket = await real.websocket(f"{ROOT}/{sid}/ws")
    wire = await real.connect()
    await wire.send(request("GET", f"{ROOT}/{sid}/events/stream", AUTH))
    await wire.head()
    assert (await real.ask("DELETE", f"{ROOT}/{sid}")).status == 200
    assert b"event: attempt.exited" in await wire.rest()
    with trio.fail_after(LIMIT):
        while isinstance(message := await socket.receive(), dict):
            last = message["event"]["type"]
    assert message == (1000, "session deleted")
    assert last == "attempt.exited"


async def test_supervisors_stop_ends_streams(supervised: Supervisor, short_dir: Path) -> None:
    """Also of an application that was mounted elsewhere, which nobody tells of a shutdown."""
    async with serving(supervised, short_dir) as served:
        sid = (await created(served))["id"]
        socket = await served.websocket(f"{ROOT}/{sid}/ws")
        supervised.stop()
        while isinstance(message := await socket.receive(), dict):
            pass
        assert message.code == 1001
        refused = await served.ask("GET", ROOT)
        assert (refused.status, refused.code) == (503, "unavailable")
        assert refused.headers["retry-after"] == "1"
