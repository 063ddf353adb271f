"""A program that cannot be started: the session is made, and says what is wrong with which path."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.support.client import Client
from tests.support.crashable import Crashable, crashable

PATIENCE = 60.0


@pytest.fixture(scope="module")
def daemon() -> Iterator[Crashable]:
    with (
        tempfile.TemporaryDirectory(prefix="s0d-") as directory,
        crashable(Path(directory)) as daemon,
    ):
        trio.run(daemon.start)
        yield daemon


# What is asked for and what is wrong with it: command, working directory, path at fault, errno.
Case = tuple[list[str], str, str, int]


def no_such_program(base: Path) -> Case:
    return [f"{base}/none"], str(base), f"{base}/none", errno.ENOENT


def not_in_path(base: Path) -> Case:
    return ["no-such-program-of-s0d"], str(base), "no-such-program-of-s0d", errno.ENOENT


def relative_to_the_working_directory(base: Path) -> Case:
    return ["bin/none"], str(base), "bin/none", errno.ENOENT


def not_executable(base: Path) -> Case:
    (base / "data").write_text("#!/bin/sh\n")
    return [f"{base}/data"], str(base), f"{base}/data", errno.EACCES


def wrong_format(base: Path) -> Case:
    junk = program(base, "junk", "neither script nor binary\n")
    return [junk], str(base), junk, errno.ENOEXEC


def directory_as_program(base: Path) -> Case:
    return [str(base)], str(base), str(base), errno.EISDIR


def script_without_interpreter(base: Path) -> Case:
    script = program(base, "script", f"#!{base}/interpreter\n")
    return [script], str(base), f"{script}: interpreter {base}/interpreter", errno.ENOENT


def missing_directory(base: Path) -> Case:
    return ["true"], f"{base}/gone", f"{base}/gone", errno.ENOENT


def file_as_directory(base: Path) -> Case:
    (base / "file").write_text("")
    return ["true"], f"{base}/file", f"{base}/file", errno.ENOTDIR


def path_through_a_file(base: Path) -> Case:
    (base / "file").write_text("")
    return [f"{base}/file/program"], str(base), f"{base}/file/program", errno.ENOTDIR


def program(base: Path, name: str, content: str) -> str:
    path = base / name
    path.write_text(content)
    path.chmod(0o755)
    return str(path)


CASES = [
    no_such_program,
    not_in_path,
    relative_to_the_working_directory,
    not_executable,
    wrong_format,
    directory_as_program,
    script_without_interpreter,
    missing_directory,
    file_as_directory,
    path_through_a_file,
]


async def end_of(client: Client, session: str, *types: str) -> list[dict[str, Any]]:
    """All events, up to the first of one of `types`."""
    events: list[dict[str, Any]] = []
    with trio.fail_after(PATIENCE):
        async with client.events(session) as stream:
            while not any(event["type"] in types for event in events):
                received = await stream.receive()
                assert received is not None
                events += [event.fields for event in received]
    return events


def told(events: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(e["type"], e.get("reason", "")) for e in events]


async def ids(client: Client) -> list[str]:
    return [session["id"] for session in (await client.ask("GET")).data["sessions"]]


@pytest.mark.parametrize("mode", ["pipes", "pty"])
@pytest.mark.parametrize("prepare", CASES)
async def test_the_path_and_the_systems_error(
    daemon: Crashable, tmp_path: Path, prepare: Callable[[Path], Case], mode: str
) -> None:
    command, cwd, path, number = prepare(tmp_path)
    client = daemon.client
    answer = await client.ask("POST", "", {"command": command, "cwd": cwd, "io": {"mode": mode}})
    assert answer.status == 201, "a command that cannot start still makes a session"
    session = answer.data["id"]
    events = await end_of(client, session, "session.failed")
    assert told(events) == [
        ("session.created", ""),
        ("attempt.starting", "created"),
        ("attempt.exited", "start_failed"),
        ("session.failed", "start_failed"),
    ]
    view = (await client.ask("GET", f"/{session}")).data
    assert view["phase"] == "failed"
    attempt = view["attempt"]
    assert attempt["reason"] == "start_failed"
    assert attempt["message"].endswith(f"{path}: {os.strerror(number)}")
    assert [e["message"] for e in events[2:]] == [attempt["message"]] * 2
    assert not {"pid", "exit_code", "signal"} & attempt.keys(), "no process, no status"
    assert "finished_at" in attempt
    assert (await client.ask("DELETE", f"/{session}")).status == 200


async def test_the_restart_policy_is_applied(daemon: Crashable, tmp_path: Path) -> None:
    restart = {
        "policy": "on_failure",
        "max_restarts": 2,
        "initial_backoff_ms": 20,
        "max_backoff_ms": 100,
    }
    spec = {"command": [f"{tmp_path}/none"], "cwd": "/", "lifecycle": {"restart": restart}}
    session = (await daemon.client.ask("POST", "", spec)).data["id"]
    events = await end_of(daemon.client, session, "session.failed")
    failure = ("attempt.exited", "start_failed")
    assert told(events) == [
        ("session.created", ""),
        ("attempt.starting", "created"),
        failure,
        ("session.backoff", "20ms"),
        ("attempt.starting", "restart_policy"),
        failure,
        ("session.backoff", "40ms"),
        ("attempt.starting", "restart_policy"),
        failure,
        ("session.failed", "restart_limit_exceeded"),
    ]
    view = (await daemon.client.ask("GET", f"/{session}")).data
    assert (view["phase"], view["restart_count"], view["attempt"]["number"]) == ("failed", 2, 3)


async def test_a_program_that_appears_is_started(daemon: Crashable, tmp_path: Path) -> None:
    restart = {"policy": "on_failure", "max_restarts": 1000, "initial_backoff_ms": 20}
    spec = {"command": [f"{tmp_path}/late"], "cwd": "/", "lifecycle": {"restart": restart}}
    session = (await daemon.client.ask("POST", "", spec)).data["id"]
    await end_of(daemon.client, session, "session.backoff")
    program(tmp_path, "new", "#!/bin/sh\nexit 0\n")
    os.rename(tmp_path / "new", tmp_path / "late")
    events = await end_of(daemon.client, session, "session.ready")
    assert "session.failed" not in [type for type, _ in told(events)]


async def test_a_directory_that_is_removed_between_attempts(
    daemon: Crashable, tmp_path: Path
) -> None:
    client, cwd = daemon.client, tmp_path / "work"
    cwd.mkdir()
    session = (await client.ask("POST", "", {"command": ["true"], "cwd": str(cwd)})).data["id"]
    await end_of(client, session, "attempt.exited")
    cwd.rmdir()
    assert (await client.ask("POST", f"/{session}/attempts")).status == 201
    events = await end_of(client, session, "session.failed")
    assert told(events)[-3:] == [
        ("attempt.starting", "attempt_created"),
        ("attempt.exited", "start_failed"),
        ("session.failed", "start_failed"),
    ]
    assert events[-1]["message"] == f"working directory: {cwd}: {os.strerror(errno.ENOENT)}"
    cwd.mkdir()
    answer = await client.ask("POST", f"/{session}/attempts")
    assert (answer.status, answer.data["attempt"]["number"]) == (201, 3)


@pytest.mark.parametrize(
    ("field", "spec"),
    [
        ("command", {"command": ["true", "a\0b"]}),
        ("command", {"command": ["tr\0ue"]}),
        ("cwd", {"command": ["true"], "cwd": "/\0"}),
        ("env", {"command": ["true"], "env": {"A": "\0"}}),
        ("env", {"command": ["true"], "env": {"A\0": "b"}}),
        ("env", {"command": ["true"], "env": {"A=B": "c"}}),
        ("env", {"command": ["true"], "env": {"": "c"}}),
    ],
)
async def test_what_no_exec_can_carry_is_refused_at_the_door(
    daemon: Crashable, field: str, spec: dict[str, Any]
) -> None:
    before = await ids(daemon.client)
    answer = await daemon.client.ask("POST", "", spec)
    assert (answer.status, answer.error["code"]) == (400, "invalid_request")
    assert answer.error["message"].startswith(field)
    assert await ids(daemon.client) == before, "and no session is made"
