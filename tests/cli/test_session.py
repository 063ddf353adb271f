"""Every verb sends what the wire contract says, and prints what it heard."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Done
from tests.cli.fake import Answer, FakeServer, Request, failure, frame, success

SESSION: dict[str, Any] = {
    "id": "ses-000000000001",
    "spec": {
        "name": "web",
        "command": ["sh", "-c", "echo hi"],
        "cwd": "/tmp",
        "lifecycle": {"desired_state": "running"},
    },
    "phase": "running",
    "runtime_generation": 3,
    "restart_count": 2,
    "attempt": {"id": "att-1", "pid": 42},
    "cursor": {"earliest": 1, "latest": 9},
    "created_at": "2026-01-02T03:04:05Z",
    "updated_at": "2026-01-02T03:04:05Z",
    "last_activity_at": "2026-01-02T03:04:05Z",
}
ID = SESSION["id"]
Run = Callable[..., Done]

CASES: list[tuple[tuple[str, ...], str, str, Any]] = [
    (("create", "--", "echo", "-n"), "POST", "", {"command": ["echo", "-n"]}),
    (("create", "echo", "x"), "POST", "", {"command": ["echo", "x"]}),
    (("get", ID), "GET", f"/{ID}", None),
    (("update", ID, "--name", "n", "--", "a"), "PUT", f"/{ID}", {"command": ["a"], "name": "n"}),
    (("start", ID), "PUT", f"/{ID}/desired-state", {"state": "running"}),
    (("stop", ID), "PUT", f"/{ID}/desired-state", {"state": "stopped"}),
    (("attempt", ID), "POST", f"/{ID}/attempts", {"replace_current": False}),
    (("attempt", ID, "--replace"), "POST", f"/{ID}/attempts", {"replace_current": True}),
]


@pytest.mark.parametrize(("arguments", "method", "path", "body"), CASES)
def test_a_verb_sends_its_request_and_prints_the_session(
    fake: FakeServer, s0d: Run, arguments: tuple[str, ...], method: str, path: str, body: Any
) -> None:
    fake.script(success(SESSION), success(SESSION))
    table = s0d("session", *arguments)
    printed = s0d("-o", "json", "session", *arguments)
    request = fake.requests[0]
    assert (request.method, request.path, request.body) == (
        method,
        f"/api/v1/sessions{path}",
        body,
    )
    assert (table.code, table.err) == (0, "")
    assert f"id:         {ID}\n" in table.out
    assert "phase:      running\n" in table.out
    assert "cursor:     1..9\n" in table.out
    assert json.loads(printed.out) == SESSION


@pytest.mark.parametrize(
    ("arguments", "method", "path", "body", "said"),
    [
        (("signal", ID, "HUP"), "POST", "signals", {"signal": "HUP"}, "sent HUP"),
        (
            ("signal", ID, "9", "--attempt-id", "att-1"),
            "POST",
            "signals",
            {"signal": "9", "expected_attempt_id": "att-1"},
            "sent 9",
        ),
        (("resize", ID, "50", "132"), "PUT", "terminal", {"rows": 50, "cols": 132}, "50x132"),
        (
            ("input", ID, "--input-id", "i", "--data", "hé\n", "--eof", "--attempt-id", "att-1"),
            "POST",
            "inputs",
            {
                "input_id": "i",
                "expected_attempt_id": "att-1",
                "data_base64": "aMOpCg==",
                "eof": True,
            },
            "accepted by att-1 (already accepted before)",
        ),
        (
            ("input", ID, "--input-id", "i", "--data-base64", "AAE="),
            "POST",
            "inputs",
            {"input_id": "i", "data_base64": "AAE="},
            "accepted by att-1",
        ),
        (
            ("input", ID, "--input-id", "i", "--eof"),
            "POST",
            "inputs",
            {"input_id": "i", "eof": True},
            "accepted",
        ),
        (("delete", ID), "DELETE", "", None, f"deleted {ID}"),
    ],
)
def test_controls(
    fake: FakeServer,
    s0d: Run,
    arguments: tuple[str, ...],
    method: str,
    path: str,
    body: Any,
    said: str,
) -> None:
    fake.answer = lambda request: success({"attempt_id": "att-1", "duplicate": True})
    done = s0d("session", *arguments)
    request = fake.requests[0]
    where = f"/api/v1/sessions/{ID}" + (f"/{path}" if path else "")
    assert (request.method, request.path, request.body) == (method, where, body)
    assert (done.code, done.err) == (0, "")
    assert said in done.out


def test_input_without_an_id_gets_a_new_one_each_time(fake: FakeServer, s0d: Run) -> None:
    fake.answer = lambda request: success({"attempt_id": "att-1", "duplicate": False})
    for _ in range(2):
        assert s0d("session", "input", ID, "--eof").code == 0
    first, second = (request.body["input_id"] for request in fake.requests)
    assert first != second


def test_input_from_a_file(fake: FakeServer, s0d: Run, tmp_path: Any) -> None:
    fake.answer = lambda request: success({"attempt_id": "att-1", "duplicate": False})
    (tmp_path / "bytes").write_bytes(b"\x00\xff")
    assert s0d("session", "input", ID, "-f", str(tmp_path / "bytes")).code == 0
    assert fake.requests[0].body["data_base64"] == "AP8="
    missing = s0d("session", "input", ID, "-f", str(tmp_path / "missing"))
    assert missing.code == 1
    assert missing.err == f"s0d: {tmp_path}/missing: No such file or directory\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("input", ID),
        ("input", ID, "--data", "a", "--data-base64", "YQ=="),
        ("create",),
        ("create", "-f", "spec.json", "--", "echo"),
        ("create", "-f", "spec.json", "--pty"),
        ("create", "--rows", "3", "--", "echo"),
        ("create", "--env", "=x", "--", "echo"),
        ("create", "--idle-timeout", "soon", "--", "echo"),
        ("update", ID),
        ("events", ID, "--follow", "--limit", "3"),
        ("events", ID, "--last-event-id", "3"),
        ("resize", ID, "x", "1"),
        ("get",),
        ("nonsense",),
    ],
)
def test_usage_errors_are_one_line_and_exit_2(
    fake: FakeServer, s0d: Run, arguments: tuple[str, ...]
) -> None:
    done = s0d("session", *arguments)
    assert done.code == 2
    assert done.out == ""
    assert done.err.startswith("s0d: ")
    assert done.err.count("\n") == 1
    assert fake.requests == []


@pytest.mark.parametrize(("status", "code"), [(400, 1), (404, 3), (408, 124), (409, 4), (500, 1)])
def test_an_error_of_the_daemon_is_one_line_and_an_exit_code(
    fake: FakeServer, s0d: Run, status: int, code: int
) -> None:
    fake.script(failure(status, "some_code", "not\x1b[31m\nreally"))
    done = s0d("session", "get", ID)
    assert done == Done(code, "", "s0d: not\\x1b[31m\\nreally (some_code)\n")


@pytest.mark.parametrize("called", ["web", "1234", "ses-1234", "1234567"])
def test_sessions_are_found_by_name_and_by_the_beginning_of_an_id(
    fake: FakeServer, s0d: Run, called: str
) -> None:
    session = SESSION | {"id": "ses-12345678-0000-4000-8000-000000000001"}

    def answer(request: Request) -> Answer:
        if request.path == "/api/v1/sessions":
            return success({"sessions": [session]})
        if request.path.startswith(f"/api/v1/sessions/{session['id']}"):
            return success(session)
        return failure(404, "session_not_found")

    fake.answer = answer
    assert json.loads(s0d("-o", "json", "session", "stop", called).out) == session
    assert s0d("session", "stop", "other").code == 3


def test_an_answer_that_is_not_s0ds(fake: FakeServer, s0d: Run) -> None:
    fake.script(Answer(502, b"<html>bad gateway"), Answer(200, b"<html>hello"), Answer(200, b"[]"))
    assert s0d("session", "get", ID).err == "s0d: the answer was HTTP 502, not one of s0d's\n"
    for _ in range(2):
        done = s0d("session", "get", ID)
        assert (done.code, done.err) == (1, f"s0d: {fake.url} did not answer as s0d does\n")


def test_a_missing_token_is_explained(fake: FakeServer, s0d: Run) -> None:
    fake.script(failure(401, "unauthorized", "a valid bearer token is required"))
    assert "S0D_TOKEN" in s0d("session", "list").err


def test_the_sandbox_and_odd_ids_are_quoted(fake: FakeServer, s0d: Run) -> None:
    fake.script(success(SESSION))
    s0d("session", "get", "ses-../x?y", "--sandbox", "a/b")
    assert fake.requests[0].path == "/api/v1/sandboxes/a%2Fb/sessions/ses-..%2Fx%3Fy"


def test_list_as_a_table_and_as_json(fake: FakeServer, s0d: Run) -> None:
    hostile = SESSION | {"id": "ses-2", "spec": SESSION["spec"] | {"name": "\x1b]0;x\x07\n"}}
    fake.answer = lambda request: success({"sessions": [SESSION, hostile]})
    lines = s0d("session", "list").out.splitlines()
    assert lines[0].split() == ["ID", "NAME", "PHASE", "PID", "RESTARTS", "EXIT", "COMMAND"]
    assert lines[1].split(maxsplit=5) == [ID, "web", "running", "42", "2", "sh -c 'echo hi'"]
    assert "\\x1b]0;x\\x07\\n" in lines[2]
    assert json.loads(s0d("session", "list", "-o", "json").out) == [SESSION, hostile]


def test_create_sends_the_idempotency_key_and_the_token(fake: FakeServer, s0d: Run) -> None:
    fake.script(success(SESSION, 201))
    s0d("--token", "secret", "session", "create", "--idempotency-key", "k", "--", "true")
    headers = fake.requests[0].headers
    assert headers["Idempotency-Key"] == "k"
    assert headers["Authorization"] == "Bearer secret"
    assert headers["Content-Type"] == "application/json"


EVENTS = [
    {"seq": 7, "type": "output", "stream": "stdout", "data_base64": "aMOpG/8K", "occurred_at": "T"},
    {"seq": 8, "type": "attempt.exited", "exit_code": 3, "reason": "exited", "occurred_at": "T"},
]


def test_events_as_a_page(fake: FakeServer, s0d: Run) -> None:
    fake.answer = lambda request: success({"events": EVENTS, "cursor": {}})
    done = s0d("session", "events", ID, "--after", "6", "--limit", "2")
    assert fake.requests[0].path == f"/api/v1/sessions/{ID}/events?after=6&limit=2"
    first, second = done.out.splitlines()
    assert first.split() == ["7", "T", "output", "stdout:", "hé\\x1b\\xff\\n"]
    assert second.split() == ["8", "T", "attempt.exited", "reason=exited", "exit_code=3"]
    assert json.loads(s0d("session", "events", ID, "-o", "json").out) == EVENTS


def test_events_followed_until_the_session_is_deleted(fake: FakeServer, s0d: Run) -> None:
    def script() -> None:
        fake.script(
            Answer(chunks=[b": hello\n\n", frame(1, "session.created")]),
            failure(404, "session_not_found"),
        )

    script()
    done = s0d("session", "events", ID, "-f", "--last-event-id", "0")
    assert fake.requests[0].path == f"/api/v1/sessions/{ID}/events/stream"
    assert fake.requests[0].headers["Last-Event-ID"] == "0"
    assert fake.requests[1].path == f"/api/v1/sessions/{ID}/events/stream?after=1"
    assert "Last-Event-ID" not in fake.requests[1].headers
    assert done.out.split() == ["1", "T", "session.created"]
    assert (done.code, done.err) == (0, "s0d: the session was deleted\n")
    script()
    line = s0d("-o", "json", "session", "events", ID, "-f").out
    assert json.loads(line)["seq"] == 1
    assert line.count("\n") == 1
