"""The page's Python snippets, with the SDK from PyPI, against a real daemon.

Each test is one section of the page; what a snippet prints is asserted instead.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sandbox0 import (
    APIError,
    Client,
    SessionCreateOptions,
    SessionEventOptions,
    SessionEventStreamOptions,
    SessionWebSocketMessage,
    SessionWebSocketOptions,
)
from sandbox0.apispec.models.execution_session import ExecutionSession
from sandbox0.apispec.models.execution_session_desired_state import ExecutionSessionDesiredState
from sandbox0.apispec.models.execution_session_input_request import ExecutionSessionInputRequest
from sandbox0.apispec.models.execution_session_spec import ExecutionSessionSpec
from sandbox0.apispec.models.execution_session_web_socket_input import (
    ExecutionSessionWebSocketInput,
)
from sandbox0.apispec.models.execution_session_web_socket_input_type import (
    ExecutionSessionWebSocketInputType,
)
from sandbox0.apispec.models.execution_session_web_socket_resize import (
    ExecutionSessionWebSocketResize,
)
from sandbox0.apispec.models.execution_session_web_socket_resize_type import (
    ExecutionSessionWebSocketResizeType,
)
from sandbox0.apispec.models.execution_session_web_socket_signal import (
    ExecutionSessionWebSocketSignal,
)
from sandbox0.apispec.models.execution_session_web_socket_signal_type import (
    ExecutionSessionWebSocketSignalType,
)
from sandbox0.sandbox import Sandbox

from tests.support.daemon import Daemon

WORKER = {
    "name": "docs-worker",
    "command": [
        "/bin/sh",
        "-lc",
        "echo READY; i=0; while true; do i=$((i+1)); echo tick-$i; sleep 0.05; done",
    ],
    "lifecycle": {"restart": {"policy": "on_failure"}, "runtime_recovery": "restart"},
    "readiness": {"type": "output", "output": "READY", "timeout_ms": 30000},
}


@pytest.fixture
def sandbox(shared_daemon: Daemon) -> Iterator[Sandbox]:
    """The default sandbox of a daemon; what a test made there is deleted after it."""
    with sandbox_of(shared_daemon) as sandbox:
        yield sandbox
        for session in sandbox.list_sessions():
            sandbox.delete_session(session.id)


@contextmanager
def sandbox_of(daemon: Daemon) -> Iterator[Sandbox]:
    client = Client(token=daemon.token, base_url=daemon.url, timeout=20)
    try:
        yield client.sandbox("local")
    finally:
        client.api.get_httpx_client().close()


def create(sandbox: Sandbox, spec: dict[str, Any], key: str | None = None) -> ExecutionSession:
    options = SessionCreateOptions(idempotency_key=key) if key else None
    return sandbox.create_session(ExecutionSessionSpec.from_dict(spec), options)


def attempt_of(session: ExecutionSession) -> str:
    return str(session.to_dict()["attempt"]["id"])


def code(error: APIError) -> str:
    """The code of the envelope: the SDK reads it for a few statuses only."""
    return str(json.loads(error.body or b"")["error"]["code"])


def until(sandbox: Sandbox, session_id: str, type: str, after: int = 0) -> list[dict[str, Any]]:
    """The events after `after` up to the first of `type`."""
    seen = []
    options = SessionEventStreamOptions(after=after)
    with sandbox.watch_session_events(session_id, options) as stream:
        for event in stream.iter_events():
            seen.append(event.to_dict())
            if seen[-1]["type"] == type:
                return seen
    raise AssertionError(f"the stream ended without {type}: {seen}")


def output(events: list[dict[str, Any]]) -> bytes:
    return b"".join(base64.b64decode(e["data_base64"]) for e in events if e["type"] == "output")


def test_create_with_an_idempotency_key(sandbox: Sandbox) -> None:
    first = create(sandbox, WORKER, "docs-worker-v1")
    again = create(sandbox, WORKER, "docs-worker-v1")
    assert again.id == first.id
    with pytest.raises(APIError) as caught:
        create(sandbox, {"command": ["/bin/true"]}, "docs-worker-v1")
    assert (caught.value.status_code, code(caught.value)) == (409, "session_conflict")
    assert [session.id for session in sandbox.list_sessions()] == [first.id]


def test_follow_output_and_reconnect(sandbox: Sandbox) -> None:
    session = create(sandbox, WORKER)
    last_seq, chunks = 0, []
    with sandbox.watch_session_events(session.id) as stream:
        for event in stream.iter_events():
            value = event.to_dict()
            assert value["seq"] == last_seq + 1
            last_seq = value["seq"]
            if "data_base64" in value:
                chunks.append(base64.b64decode(value["data_base64"]).decode())
            if len(chunks) == 2:
                break
    assert "".join(chunks).startswith("READY\ntick-1\n")
    # Closing the stream did not stop the session.
    options = SessionEventStreamOptions(after=last_seq)
    with sandbox.watch_session_events(session.id, options) as resumed:
        assert next(resumed.iter_events()).seq == last_seq + 1
    by_id = SessionEventStreamOptions(last_event_id=str(last_seq + 1))
    with sandbox.watch_session_events(session.id, by_id) as resumed:
        assert next(resumed.iter_events()).seq == last_seq + 2
    assert attempt_of(sandbox.get_session(session.id)) == attempt_of(session)


def test_a_cursor_of_the_future_is_refused(sandbox: Sandbox) -> None:
    session = create(sandbox, {"command": ["/bin/true"]})
    with pytest.raises(APIError) as caught:
        sandbox.watch_session_events(session.id, SessionEventStreamOptions(after=10_000))
    assert (caught.value.status_code, caught.value.code) == (400, "invalid_request")


def test_pages(sandbox: Sandbox) -> None:
    session = create(sandbox, {"command": ["/bin/sh", "-c", "echo one; echo two >&2"]})
    watched = until(sandbox, session.id, "attempt.exited")
    paged: list[dict[str, Any]] = []
    while True:
        after = paged[-1]["seq"] if paged else 0
        page = sandbox.list_session_events(session.id, SessionEventOptions(after=after, limit=2))
        if not page.events:
            break
        assert len(page.events) <= 2
        paged += [event.to_dict() for event in page.events]
    assert paged == watched
    streams = {e["stream"]: base64.b64decode(e["data_base64"]) for e in paged if "stream" in e}
    assert streams == {"stdout": b"one\n", "stderr": b"two\n"}


def test_send_input_and_eof(sandbox: Sandbox) -> None:
    session = create(sandbox, {"command": ["/bin/cat"]})

    def write(data: bytes, expected: str) -> Any:
        return sandbox.write_session_input(
            session.id,
            ExecutionSessionInputRequest(
                input_id="input-1",
                expected_attempt_id=expected,
                data_base64=base64.b64encode(data).decode(),
                eof=True,
            ),
        )

    accepted = write(b"hello\n", attempt_of(session)).to_dict()
    assert accepted["attempt_id"] == attempt_of(session)
    assert accepted["duplicate"] is False
    events = until(sandbox, session.id, "attempt.exited")
    assert output(events) == b"hello\n"
    assert events[-1]["exit_code"] == 0
    assert write(b"hello\n", attempt_of(session)).to_dict()["duplicate"] is True
    with pytest.raises(APIError) as caught:
        write(b"other\n", attempt_of(session))
    assert code(caught.value) == "session_conflict"


@pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager")  # by the SDK
def test_web_socket(sandbox: Sandbox) -> None:
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGWINCH, lambda *a: print(os.get_terminal_size(0), flush=True))\n"
        "signal.signal(signal.SIGUSR1, lambda *a: print('USR1', flush=True))\n"
        "print('up', flush=True)\n"
        "for line in sys.stdin: print('got', line, end='', flush=True)\n"
    )
    spec = {"command": ["python3", "-c", program], "io": {"mode": "pty"}}
    session = create(sandbox, spec)
    attempt = attempt_of(session)
    with sandbox.connect_session(session.id, SessionWebSocketOptions(after=0)) as connection:
        messages = connection.iter_messages()
        wait_for(messages, b"up\r\n")
        connection.send(
            ExecutionSessionWebSocketResize(
                type_=ExecutionSessionWebSocketResizeType.RESIZE,
                request_id="r",
                rows=50,
                cols=132,
                expected_attempt_id=attempt,
            )
        )
        acked = wait_for(messages, b"columns=132, lines=50")
        connection.send(
            ExecutionSessionWebSocketSignal(
                type_=ExecutionSessionWebSocketSignalType.SIGNAL, request_id="s", signal="USR1"
            )
        )
        acked |= wait_for(messages, b"USR1")
        connection.send(
            ExecutionSessionWebSocketInput(
                type_=ExecutionSessionWebSocketInputType.INPUT,
                request_id="i",
                input_id="input-1",
                data_base64=base64.b64encode(b"hi\n").decode(),
            )
        )
        acked |= wait_for(messages, b"got hi")
        connection.send(
            ExecutionSessionWebSocketInput(
                type_=ExecutionSessionWebSocketInputType.INPUT,
                request_id="e",
                input_id="input-2",
                eof=True,
            )
        )
        acked |= wait_for(messages, None)
    assert acked == {"r", "s", "i", "e"}


def wait_for(messages: Iterator[SessionWebSocketMessage], text: bytes | None) -> set[str]:
    """Read until the output has `text` (None: until the attempt has exited); who was acked."""
    acked, seen = set(), b""
    for message in messages:
        assert message.type != "error", message.error
        if message.type == "ack":
            acked.add(str(message.request_id))
            continue
        assert message.event is not None
        event = message.event.to_dict()
        seen += base64.b64decode(event.get("data_base64", ""))
        if (event["type"] == "attempt.exited") if text is None else (text in seen):
            return acked
    raise AssertionError(f"the connection ended before {text!r}; seen: {seen!r}")


def test_stop_start_replace_update_delete(sandbox: Sandbox) -> None:
    session = create(sandbox, WORKER)
    stopped = sandbox.set_session_desired_state(session.id, ExecutionSessionDesiredState.STOPPED)
    assert stopped.phase.value == "stopped"
    assert stopped.to_dict()["attempt"]["reason"] == "desired_state_stopped"
    started = sandbox.set_session_desired_state(session.id, ExecutionSessionDesiredState.RUNNING)
    assert attempt_of(started) != attempt_of(session)
    with pytest.raises(APIError) as caught:
        sandbox.create_session_attempt(session.id)
    assert code(caught.value) == "session_conflict"
    replaced = sandbox.create_session_attempt(session.id, replace_current=True)
    assert attempt_of(replaced) != attempt_of(started)
    spec = ExecutionSessionSpec.from_dict({**WORKER, "name": "renamed"})
    updated = sandbox.update_session(session.id, spec)
    assert updated.spec.name == "renamed"
    assert updated.spec_version > replaced.spec_version
    assert attempt_of(updated) == attempt_of(replaced)

    last: list[dict[str, Any]] = []
    watching = threading.Event()

    def watch() -> None:
        with sandbox.watch_session_events(session.id) as stream:
            for event in stream.iter_events():
                last[:] = [event.to_dict()]
                watching.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    assert watching.wait(10)
    assert sandbox.delete_session(session.id).to_dict()["data"]["deleted"] is True
    watcher.join(10)
    assert not watcher.is_alive()
    assert (last[0]["type"], last[0]["reason"]) == ("attempt.exited", "session_deleted")
    with pytest.raises(APIError) as caught:
        sandbox.get_session(session.id)
    assert (caught.value.status_code, code(caught.value)) == (404, "session_not_found")


def test_without_a_token(shared_daemon: Daemon) -> None:
    client = Client(token="wrong", base_url=shared_daemon.url)
    with pytest.raises(APIError) as caught:
        client.sandbox("local").list_sessions()
    assert (caught.value.status_code, code(caught.value)) == (401, "unauthorized")
    client.api.get_httpx_client().close()


def test_everything_survives_a_restart(daemon: Daemon) -> None:
    with sandbox_of(daemon) as sandbox:
        survive_a_restart(sandbox, daemon)


def survive_a_restart(sandbox: Sandbox, daemon: Daemon) -> None:
    session = create(sandbox, WORKER, "key")
    attempt = attempt_of(session)
    before = until(sandbox, session.id, "session.ready")
    daemon.restart()
    assert create(sandbox, WORKER, "key").id == session.id
    after = until(sandbox, session.id, "session.ready", after=before[-1]["seq"])
    ended = next(event for event in after if event["type"] == "attempt.exited")
    assert (ended["attempt_id"], ended["reason"]) == (attempt, "runtime_replaced")
    assert [e["seq"] for e in after] == list(range(after[0]["seq"], after[-1]["seq"] + 1))
    now = sandbox.get_session(session.id)
    assert now.runtime_generation == session.runtime_generation + 1
    assert attempt_of(now) != attempt
