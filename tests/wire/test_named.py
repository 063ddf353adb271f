"""What named sessions, their commands and their errors are as JSON."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from s0d.model.errors import EventCursorExpired, InvalidRequest, SessionExists
from s0d.model.parse import parse_spec
from s0d.model.session import AttemptRecord, Phase, SessionRecord
from s0d.wire.attach import AttachStart, Control, ended_by_itself, refused
from s0d.wire.exec import ExecBody, TTYStart, encode_output
from s0d.wire.named import (
    CreateBody,
    KillBody,
    Status,
    exit_info,
    exit_of,
    is_name,
    status_of,
    view_named,
)
from s0d.wire.problem import expects_problem, problem_of

SPEC = parse_spec({"command": ["a", "b"], "name": "x", "io": {"mode": "pty"}})


def record(phase: Phase, **attempt: Any) -> SessionRecord:
    made = SessionRecord("ses-0", SPEC, phase=phase, created_at_ns=5, updated_at_ns=9)
    if attempt:
        made.attempt = AttemptRecord("att-0", 1, 1, **attempt)
    return made


@pytest.mark.parametrize(
    ("phase", "detached", "attached"),
    [
        (Phase.PENDING, "STARTING", "STARTING"),
        (Phase.STARTING, "STARTING", "STARTING"),
        (Phase.RUNNING, "IDLE", "ATTACHED"),
        (Phase.STOPPING, "IDLE", "ATTACHED"),
        (Phase.BACKOFF, "IDLE", "ATTACHED"),
        (Phase.PAUSED, "IDLE", "ATTACHED"),
        (Phase.EXITED, "EXITED", "EXITED"),
        (Phase.STOPPED, "KILLED", "KILLED"),
        (Phase.SUSPENDED, "KILLED", "KILLED"),
        (Phase.FAILED, "FAILED", "FAILED"),
    ],
)
def test_every_phase_has_a_status(phase: Phase, detached: str, attached: str) -> None:
    assert status_of(record(phase), attached=False) == detached
    assert status_of(record(phase), attached=True) == attached
    ended = detached in ("EXITED", "KILLED", "FAILED")
    assert Status(detached).terminal is ended


def test_there_is_a_status_for_every_phase() -> None:
    for phase in Phase:
        status_of(record(phase), attached=False)


def test_what_a_kill_has_ended_is_killed() -> None:
    assert status_of(record(Phase.EXITED, reason="killed"), attached=False) == "KILLED"
    assert status_of(record(Phase.EXITED, reason="exited"), attached=False) == "EXITED"


def test_a_live_session_has_no_end() -> None:
    info = view_named(record(Phase.RUNNING, started_at_ns=7), root="/root", attached=True)
    assert json.loads(msgspec.json.encode(info)) == {
        "name": "x",
        "command": ["a", "b"],
        "working_dir": "/root",
        "status": "ATTACHED",
        "attached": True,
        "started_at_unix_nanos": 7,
        "last_activity_unix_nanos": 0,
    }


def test_an_ended_session_has_its_end_and_its_exit() -> None:
    ended = record(Phase.EXITED, finished_at_ns=8, exit_code=137, signal="SIGKILL")
    info = view_named(ended, root="/", attached=False)
    assert info.ended_at_unix_nanos == 8
    assert info.started_at_unix_nanos == 5  # never started: when it was made
    assert msgspec.to_builtins(info.exit) == {"exit_code": 137, "signaled": True, "signal": 9}


def test_an_end_that_nobody_saw_has_no_exit() -> None:
    assert exit_of(record(Phase.SUSPENDED, finished_at_ns=8).attempt) is msgspec.UNSET
    assert exit_of(None) is msgspec.UNSET


def test_a_signal_without_a_name_is_a_number_too() -> None:
    assert exit_info(128 + 40, "SIGRTMIN+6").signal == 40
    assert exit_info(143, None).signal == 0  # it exited with that code by itself


@pytest.mark.parametrize(
    ("name", "valid"),
    [("a", True), ("a-1", True), ("a" * 32, True), ("a" * 33, False), ("", False)]
    + [(wrong, False) for wrong in ("A", "1a", "-a", "a_b", "a\n", "ä", "a b")],
)
def test_names(name: str, valid: bool) -> None:
    assert is_name(name) is valid


def test_a_created_session_is_what_the_contract_says() -> None:
    spec = CreateBody("x", ["a"], cols=0, rows=50).spec()
    assert spec.io.terminal
    assert (spec.io.terminal.cols, spec.io.terminal.rows) == (80, 50)
    assert (spec.lifecycle.restart.policy, spec.lifecycle.runtime_recovery) == ("never", "stop")


def test_errors_name_the_fields_of_this_surface() -> None:
    with pytest.raises(InvalidRequest, match=r"^cmd\[1\]: "):
        CreateBody("x", ["a", "\0"]).spec()
    with pytest.raises(InvalidRequest, match=r"^path: "):
        ExecBody(["a"], path="\0").spec()
    with pytest.raises(InvalidRequest, match=r"^env\.A: "):
        TTYStart("START", ["a"], env={"A": "\0"}).spec()


@pytest.mark.parametrize(
    "body",
    [
        CreateBody("X", ["a"]),
        CreateBody("x", ["a"], cols=513),
        KillBody("QUIT"),
        KillBody(grace_ms=-1),
        ExecBody(["a"], timeout_s=0),
        ExecBody(["a"], output_encoding="ascii"),
        TTYStart("START", ["a"], rows=-1),
        AttachStart("START", after=-1),
        AttachStart("START", max_replay_bytes=2**53),
        AttachStart("START", cols=65536),
    ],
)
def test_what_is_out_of_bounds_is_refused(body: Any) -> None:
    with pytest.raises(InvalidRequest):
        body.check()


def test_defaults() -> None:
    assert (KillBody().signum, KillBody().grace) == (15, 5.0)
    assert KillBody("KILL", 0).grace == 0
    assert (ExecBody(["a"]).timeout, ExecBody(["a"]).encoding) == (60.0, "utf8")
    assert AttachStart("START").most == 1 << 20
    assert AttachStart("START", max_replay_bytes=0).most == 0


@pytest.mark.parametrize(("cols", "rows"), [(0, 1), (1, 0), (-1, 1), (65536, 1)])
def test_a_resize_needs_both_sizes(cols: int, rows: int) -> None:
    with pytest.raises(InvalidRequest):
        Control("RESIZE", cols, rows).check_resize()


def test_output_as_text_and_as_base64() -> None:
    assert encode_output("é".encode(), "utf8", truncated=False) == "é"
    assert encode_output("xé".encode()[:-1], "utf8", truncated=True) == "x"
    assert encode_output("xé".encode()[:-1], "utf8", truncated=False) == "x\ufffd"
    assert encode_output(b"\xff\xfe", "base64", truncated=True) == "//4="


# -- errors ------------------------------------------------------------------------------------


def test_a_problem_has_the_members_of_the_rfc() -> None:
    assert json.loads(problem_of(SessionExists("it is there"), 409)) == {
        "type": "urn:s0d:problem:session-exists",
        "title": "Session exists",
        "status": 409,
        "code": "session_exists",
        "detail": "it is there",
    }
    problem = json.loads(problem_of(EventCursorExpired(5, 9), 410))
    assert problem["details"] == {"earliest": 5, "latest": 9}


def test_what_is_not_valid_has_its_own_code_here() -> None:
    assert json.loads(problem_of(InvalidRequest("x"), 400))["code"] == "validation_failed"
    assert json.loads(refused(InvalidRequest("x"))) == {
        "type": "ERROR",
        "code": "validation_failed",
        "message": "x",
    }


@pytest.mark.parametrize(
    ("target", "root_path", "expected"),
    [
        ("/v1/sandbox/local/sessions", "", True),
        ("/v1/", "", True),
        ("/v1", "", False),
        ("/api/v1/sessions", "", False),
        ("/v1/%00", "", True),
        ("http://localhost/v1/x?y", "", True),
        ("http://localhost", "", False),
        ("/mounted/v1/x", "/mounted", True),
        ("/mounted/api/v1/x", "/mounted", False),
    ],
)
def test_who_expects_problem_details(target: str, root_path: str, expected: bool) -> None:
    assert expects_problem(target, root_path) is expected


def test_an_unknown_exit_code_is_left_out() -> None:
    exit = json.loads(ended_by_itself(msgspec.UNSET, Status.FAILED))
    assert exit == {"type": "EXIT", "signaled": False, "signal": 0, "status": "FAILED"}
