"""`s0d run` against a scripted daemon: when it ends, with what code, and what it says."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import pytest

from tests.cli.conftest import Done
from tests.cli.fake import Answer, FakeServer, Request, failure, frame, success

Run = Callable[..., Done]


class Script:
    """Answers by path; streams and sessions are taken in order."""

    def __init__(self, *streams: Answer, sessions: list[Any] | None = None) -> None:
        self.streams = list(streams)
        self.sessions = list(sessions or [])
        self.seen: list[str] = []

    def __call__(self, request: Request) -> Answer:
        path = request.path.partition("?")[0].removeprefix("/api/v1/sessions")
        self.seen.append(f"{request.method} {path}")
        if path.endswith("/stream"):
            return self.streams.pop(0)
        if path.endswith("/inputs"):
            return success({"attempt_id": "att-1", "duplicate": False}, 202)
        if request.method == "POST":
            return success({"id": "ses-1"}, 201)
        if request.method == "DELETE":
            return success({"deleted": True})
        session = self.sessions.pop(0)
        return session if isinstance(session, Answer) else success(session)


def at_rest(seq: int, phase: str = "exited", **attempt: Any) -> dict[str, Any]:
    return {"phase": phase, "cursor": {"earliest": 1, "latest": seq}, "attempt": attempt}


def output(seq: int, data: bytes, stream: str = "stdout") -> bytes:
    return frame(seq, stream=stream, data_base64=base64.b64encode(data).decode())


STARTED = frame(1, "attempt.started", attempt_id="att-1", pid=1)


def exited(seq: int, code: int | None = 0, **fields: Any) -> bytes:
    known = {} if code is None else {"exit_code": code}
    return frame(seq, "attempt.exited", attempt_id="att-1", **known, **fields)


@pytest.fixture(autouse=True)
def no_stdin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("s0d.cli.run.worth_forwarding", lambda fd: False)


def test_output_goes_where_it_came_from_and_the_code_is_the_commands(
    fake: FakeServer, s0d: Run
) -> None:
    chunks = [STARTED, output(2, b"out\n"), output(3, b"err\n", "stderr"), exited(4, 7)]
    fake.answer = script = Script(Answer(chunks=chunks), sessions=[at_rest(4)])
    assert s0d("run", "--name", "n", "--", "cmd", "--rm") == Done(7, "out\n", "err\n")
    created = fake.requests[0]
    assert created.body["command"] == ["cmd", "--rm"]
    assert created.body["name"] == "n"
    assert created.headers["Idempotency-Key"].startswith("run-")
    assert script.seen[-1] == "GET /ses-1"


@pytest.mark.parametrize(
    ("fields", "attempt", "code", "said"),
    [
        ({"code": 143, "reason": "signaled"}, {"reason": "signaled"}, 143, ""),
        (
            {"code": None, "reason": "start_failed"},
            {"reason": "start_failed", "message": "/x: No such file"},
            127,
            "s0d: start_failed: /x: No such file\n",
        ),
        (
            {"code": 137, "reason": "session_expired"},
            {"reason": "session_expired"},
            137,
            "s0d: session_expired\n",
        ),
    ],
)
def test_other_ends(
    fake: FakeServer, s0d: Run, fields: dict[str, Any], attempt: Any, code: int, said: str
) -> None:
    fake.answer = Script(Answer(chunks=[exited(2, **fields)]), sessions=[at_rest(2, **attempt)])
    assert s0d("run", "cmd") == Done(code, "", said)


def test_an_exit_that_is_followed_by_a_restart_is_not_the_end(fake: FakeServer, s0d: Run) -> None:
    again = [exited(2, 1), frame(3, "session.backoff"), output(4, b"2\n"), exited(5, 3)]
    failed = frame(6, "session.failed", reason="restart_limit_exceeded")
    fake.answer = Script(
        Answer(chunks=[*again, failed]),
        sessions=[at_rest(3, "backoff"), at_rest(6, "failed"), at_rest(6, "failed")],
    )
    assert s0d("run", "--restart", "always", "cmd") == Done(3, "2\n", "")


def test_a_broken_stream_goes_on_where_it_was(fake: FakeServer, s0d: Run) -> None:
    fake.answer = Script(
        Answer(chunks=[STARTED, output(2, b"a")], breaks=True),
        Answer(chunks=[output(3, b"b"), exited(4)]),
        sessions=[at_rest(4)],
    )
    assert s0d("run", "cmd") == Done(0, "ab", "")
    assert fake.requests[2].path.endswith("/stream?after=2")


def test_rm_deletes_when_it_has_ended(fake: FakeServer, s0d: Run) -> None:
    fake.answer = script = Script(Answer(chunks=[exited(1, 5)]), sessions=[at_rest(1)])
    assert s0d("run", "--rm", "cmd").code == 5
    assert script.seen[-1] == "DELETE /ses-1"


def test_a_session_deleted_meanwhile(fake: FakeServer, s0d: Run) -> None:
    gone = failure(404, "session_not_found")
    fake.answer = Script(
        Answer(chunks=[output(1, b"a"), exited(2, 143)]), gone, sessions=[at_rest(2, "stopping")]
    )
    assert s0d("run", "cmd") == Done(143, "a", "s0d: the session was deleted\n")


def test_deleted_between_the_exit_and_a_look_at_it(fake: FakeServer, s0d: Run) -> None:
    gone = failure(404, "session_not_found")
    fake.answer = Script(Answer(chunks=[exited(2, 9)]), sessions=[gone])
    assert s0d("run", "cmd") == Done(9, "", "s0d: the session was deleted\n")


def test_a_daemon_that_restarts_between_the_exit_and_a_look_at_it(
    fake: FakeServer, s0d: Run
) -> None:
    stopping = failure(503, "unavailable")
    broken = Answer(chunks=[], breaks=True)
    fake.answer = Script(Answer(chunks=[exited(2, 9)]), sessions=[stopping, broken, at_rest(2)])
    assert s0d("run", "cmd") == Done(9, "", "")


def test_a_terminal_gets_our_size_only_when_there_is_one(fake: FakeServer, s0d: Run) -> None:
    fake.answer = Script(Answer(chunks=[exited(1)]), sessions=[at_rest(1)])
    s0d("run", "--pty", "--rows", "9", "cmd")
    assert fake.requests[0].body["io"] == {"mode": "pty", "terminal": {"rows": 9}}


def test_the_command_runs_where_we_are(
    fake: FakeServer, s0d: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    fake.answer = Script(
        Answer(chunks=[exited(1)]),
        Answer(chunks=[exited(1)]),
        sessions=[at_rest(1), at_rest(1)],
    )
    s0d("run", "cmd")
    s0d("run", "--cwd", "/else", "cmd")
    bodies = [request.body for request in fake.requests if request.body]
    assert [body["cwd"] for body in bodies] == [str(tmp_path), "/else"]


def test_a_refused_specification(fake: FakeServer, s0d: Run) -> None:
    fake.answer = lambda request: failure(400, "invalid_request", "cwd: no")
    assert s0d("run", "cmd") == Done(1, "", "s0d: cwd: no (invalid_request)\n")
