"""What the other tools ask of the daemon, what they answer, how they fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from s0d.mcp.calls import Calls
from s0d.mcp.errors import ADVICE
from s0d.mcp.tools import TOOLS, call
from tests.mcp.fake import SES, FakeDaemon, fails, run, success

NAMED = "/v1/sandbox/local"
INFO = {
    "name": "web",
    "command": ["python3"],
    "working_dir": "/",
    "status": "IDLE",
    "attached": False,
    "started_at_unix_nanos": 1,
    "last_activity_unix_nanos": 2,
}


def problem(code: str, detail: str = "no") -> Any:
    return {"type": "urn:x", "title": "x", "status": 409, "code": code, "detail": detail}


def test_the_tools_of_the_contract() -> None:
    assert [tool.name for tool in TOOLS] == [
        "session_create",
        "session_list",
        "session_kill",
        "session_screen",
        "session_output",
        "session_input",
        "session_keys",
        "session_wait",
        "sandbox_exec",
    ]


def test_schemas_stand_by_themselves_and_all_fields_are_described() -> None:
    for tool in TOOLS:
        schema = tool.schema()
        assert schema["type"] == "object"
        assert schema["additionalProperties"] is False
        assert "$ref" not in json.dumps(schema)
        for name, field in schema["properties"].items():
            assert field["description"], (tool.name, name)
            assert {"type", "anyOf"} & set(field), (tool.name, name)
        assert len(tool.description) < 800


def test_all_of_it_is_small() -> None:
    """A model reads it at the start of every conversation."""
    assert sum(len(tool.description) + len(json.dumps(tool.schema())) for tool in TOOLS) < 12_000


# -- the named surface ---------------------------------------------------------------------------


async def test_create_sends_the_fields_of_the_surface() -> None:
    daemon = FakeDaemon(answers={("POST", f"{NAMED}/sessions"): (201, {"session": INFO})})
    sent = {
        "name": "web",
        "cmd": ["python3"],
        "env": {"A": "1"},
        "path": "/srv",
        "cols": 100,
        "rows": 30,
        "replace": True,
    }
    assert await run(daemon, "session_create", **sent) == {"session": INFO}
    assert daemon.asked[-1] == ("POST", f"{NAMED}/sessions", sent)


async def test_the_sandbox_that_is_named() -> None:
    path = "/v1/sandbox/sb-1/sessions"
    answer = {"sessions": [], "sandbox_suspended": True}
    daemon = FakeDaemon(answers={("GET", path): (200, answer)})
    assert await run(daemon, "session_list", sandbox_id="sb-1") == answer
    assert daemon.asked == [("GET", path, None)]
    text, failed = await call(Calls(daemon, sandbox_id="sb-1"), "session_list", {})
    assert (json.loads(text), failed) == (answer, False)


@pytest.mark.parametrize("sandbox", ["../x", "a/b", "A", "x" * 64, "\ud800"])
async def test_an_id_that_is_none_reaches_nothing(sandbox: str) -> None:
    daemon = FakeDaemon()
    for tool, more in (("session_list", {}), ("session_screen", {"name": "a"})):
        error = await fails(daemon, tool, sandbox_id=sandbox, **more)
        assert error["code"] == "sandbox_not_found"
    assert daemon.asked == []


@pytest.mark.parametrize("name", ["", "../x", "a b", "A", "x" * 33, "\ud800"])
async def test_a_name_that_is_none_reaches_nothing(name: str) -> None:
    daemon = FakeDaemon(answers={("GET", f"/api/v1/sessions?name={name}"): (500, {})})
    for tool, more in (
        ("session_screen", {}),
        ("session_keys", {"keys": ["a"]}),
        ("session_kill", {}),
        ("session_wait", {"exit": True}),
    ):
        error = await fails(daemon, tool, name=name, **more)
        assert error["code"] == "session_not_found"
        assert "session_create" in error["what_to_do"]
    assert all(method == "GET" and "sessions" not in path for method, path, _ in daemon.asked)


async def test_a_command_without_a_place_runs_where_the_agent_is() -> None:
    daemon = FakeDaemon(
        answers={
            ("POST", f"{NAMED}/sessions"): (201, {"session": INFO}),
            ("POST", "/v1/sandbox/other/sessions"): (201, {"session": INFO}),
        }
    )
    here = Calls(daemon, path="/home/me/project")
    sent: dict[str, Any] = {"name": "web", "cmd": ["a"]}
    for more, expected in (
        ({}, "/home/me/project"),
        ({"path": "/srv"}, "/srv"),
        ({"sandbox_id": "other"}, None),
    ):
        _, failed = await call(here, "session_create", {**sent, **more})
        assert not failed
        assert daemon.asked[-1][2].get("path") == expected


async def test_a_long_list_is_cut_and_live_sessions_stay() -> None:
    many = [{**INFO, "name": f"s{n}", "status": "EXITED"} for n in range(100)]
    many[3]["status"] = "ATTACHED"
    many[7]["command"] = ["x" * 5000]
    many[99]["command"] = ["sh", "-c", "x" * 5000]
    answer = {"sessions": many, "sandbox_suspended": False}
    daemon = FakeDaemon(answers={("GET", f"{NAMED}/sessions"): (200, answer)})
    listed = await run(daemon, "session_list")
    names = [info["name"] for info in listed["sessions"]]
    assert names == ["s3", *(f"s{n}" for n in range(71, 100))]
    assert listed["left_out"] == 70
    assert len(json.dumps(listed)) < 10_000
    assert listed["sessions"][-1]["command"][2].endswith("...")
    short = await run(daemon, "session_list", limit=2)
    assert [info["name"] for info in short["sessions"]] == ["s3", "s99"]


async def test_kill_sends_the_fields_of_the_surface() -> None:
    path = f"{NAMED}/sessions/web/kill"
    daemon = FakeDaemon(answers={("POST", path): (200, {"session": INFO})})
    assert await run(daemon, "session_kill", name="web") == {"session": INFO}
    assert daemon.asked[-1] == ("POST", path, {})
    await run(daemon, "session_kill", name="web", signal="INT", grace_ms=0)
    assert daemon.asked[-1] == ("POST", path, {"signal": "INT", "grace_ms": 0})
    error = await fails(daemon, "session_kill", name="web", signal="STOP")
    assert error["message"].startswith("signal: ")


# -- which session a name stands for --------------------------------------------------------------


@pytest.mark.parametrize(
    ("phases", "chosen"),
    [
        (["running", "exited"], 0),
        (["exited", "running"], 1),
        (["running", "running"], 1),
        (["exited", "failed", "stopped"], 2),
        (["backoff", "exited", "suspended"], 0),
        (["exited", "paused", "stopped"], 1),
    ],
)
async def test_the_newest_live_bearer_else_the_newest(phases: list[str], chosen: int) -> None:
    daemon = FakeDaemon()
    views = [daemon.session(id=f"ses-{n:012}", phase=phase) for n, phase in enumerate(phases)]
    daemon.answers["GET", "/api/v1/sessions?name=shell"] = 200, success({"sessions": views})
    path = f"/api/v1/sessions/ses-{chosen:012}/wait"
    daemon.answers["POST", path] = 200, success({"matched": "exit", "seq": 9})
    assert (await run(daemon, "session_wait", name="shell", exit=True))["seq"] == 9


async def test_an_id_does_as_well() -> None:
    daemon = FakeDaemon()
    daemon.answers["GET", f"/api/v1/sessions?name={SES}"] = 200, success({"sessions": []})
    daemon.answers["GET", f"/api/v1/sessions/{SES}"] = 200, success(daemon.session())
    daemon.write(b"hi")
    assert (await run(daemon, "session_output", name=SES))["text"] == "hi"


# -- terminals -----------------------------------------------------------------------------------


def screen(*lines: list[str], **more: Any) -> Any:
    return success(
        {
            "rows": 24,
            "cols": 80,
            "lines": [[{"text": text, "width": 1} for text in line] for line in lines],
            "cursor": {"row": 1, "col": 2, "visible": True, "shape": "block", "blink": True},
            "title": "",
            "alternate": False,
            **more,
        }
    )


async def test_a_screen_is_its_text() -> None:
    daemon = FakeDaemon()
    path = f"/api/v1/sessions/{SES}/screen?scrollback=0"
    daemon.answers["GET", path] = 200, screen(["$ ", "ls  "], [], ["┌─", "┐"], [], ["  "])
    text, failed = await call(Calls(daemon), "session_screen", {"name": "shell"})
    assert not failed
    assert "┌─┐" in text, "not escaped: a model pays for each escape"
    assert json.loads(text) == {
        "text": "$ ls\n\n┌─┐",
        "rows": 24,
        "cols": 80,
        "cursor": {"row": 1, "col": 2},
        "status": "IDLE",
    }


async def test_what_else_a_screen_has() -> None:
    daemon = FakeDaemon()
    path = f"/api/v1/sessions/{SES}/screen?scrollback=5"
    above = [[{"text": "above", "width": 5}]]
    daemon.answers["GET", path] = (
        200,
        screen(["x" * 100_000], title="vim", alternate=True, scrollback=above),
    )
    shown = await run(daemon, "session_screen", name="shell", scrollback=5)
    assert shown["scrollback"] == "above"
    assert (shown["title"], shown["full_screen_program"]) == ("vim", True)
    assert len(shown["text"]) + shown["left_out"] == 100_000
    assert len(shown["text"]) == 65536


async def test_input_answers_with_the_cursor_before_it() -> None:
    daemon = FakeDaemon()
    daemon.write(b"$ ")
    path = f"/api/v1/sessions/{SES}/inputs"
    daemon.answers["POST", path] = 202, success({"duplicate": False, "accepted": True})
    answer = await run(daemon, "session_input", name="shell", text="é\n", eof=True)
    assert answer == {"accepted": True, "cursor": "4"}
    body = daemon.asked[-1][2]
    assert (body["data_base64"], body["eof"]) == ("w6kK", True)
    assert body["input_id"].startswith("mcp-")
    await run(daemon, "session_input", name="shell", data_base64="AAE=", input_id="mine")
    assert daemon.asked[-1][2] == {"data_base64": "AAE=", "input_id": "mine"}
    daemon.answers["POST", path] = 202, success({"duplicate": True, "accepted": True})
    assert (await run(daemon, "session_input", name="shell", text="x"))["duplicate"] is True


@pytest.mark.parametrize(
    "sent", [{}, {"text": ""}, {"text": "a", "data_base64": "YQ=="}, {"text": "\ud800"}]
)
async def test_input_that_is_none(sent: Any) -> None:
    error = await fails(FakeDaemon(), "session_input", name="shell", **sent)
    assert error["code"] == "invalid_request"
    assert error["message"].startswith("text: ")


async def test_keys() -> None:
    daemon = FakeDaemon()
    path = f"/api/v1/sessions/{SES}/keys"
    daemon.answers["POST", path] = 202, success({"duplicate": False, "accepted": True})
    keys = ["ls", "Enter", {"text": "Enter"}, {"paste": "a\nb"}]
    answer = await run(daemon, "session_keys", name="shell", keys=keys)
    assert answer == {"accepted": True, "cursor": "3"}
    assert daemon.asked[-1][2] == {"keys": keys}


async def test_wait_sends_what_is_waited_for() -> None:
    daemon = FakeDaemon()
    path = f"/api/v1/sessions/{SES}/wait"
    match = {"matched": "output", "seq": 7, "attempt_id": "att-1", "text": "hi", "elapsed_ms": 3}
    daemon.answers["POST", path] = 200, success(match)
    sent = {"exit": True, "output": "hi", "screen": "$", "port": 80, "after": "5+3"}
    answer = await run(daemon, "session_wait", name="shell", timeout_ms=50, **sent)
    assert answer == {"matched": "output", "seq": 7, "text": "hi", "elapsed_ms": 3}
    wanted = {"exit": True, "output": "hi", "screen": "$", "port": 80, "after": 5}
    assert daemon.asked[-1][2] == {"for": wanted, "timeout_ms": 50}
    await run(daemon, "session_wait", name="shell", output="h.", screen="^x$", regex=True)
    assert daemon.asked[-1][2] == {"for": {"output": {"regex": "h."}, "screen": {"regex": "^x$"}}}


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({}, "exit: "),
        ({"exit": True, "after": "3"}, "after: "),
        ({"exit": True, "timeout_ms": 120_001}, "timeout_ms: "),
        ({"regex": True}, "exit: "),
    ],
)
async def test_waiting_for_what_cannot_come(sent: Any, says: str) -> None:
    error = await fails(FakeDaemon(), "session_wait", name="shell", **sent)
    assert error["message"].startswith(says)


# -- exec ----------------------------------------------------------------------------------------

DONE = {
    "exit_code": 0,
    "signaled": False,
    "timed_out": False,
    "stdout": "hi\n",
    "stderr": "",
    "stdout_truncated": False,
    "stderr_truncated": False,
    "output_encoding": "utf8",
}


async def execute(answer: Any, **sent: Any) -> tuple[Any, Any]:
    daemon = FakeDaemon(answers={("POST", f"{NAMED}/exec"): (200, {**DONE, **answer})})
    shown = await run(daemon, "sandbox_exec", **{"cmd": ["a"], **sent})
    return shown, daemon.asked[-1][2]


async def test_exec_sends_the_fields_of_the_surface() -> None:
    sent = {
        "cmd": ["a", "b"],
        "env": {"A": "1"},
        "path": "/srv",
        "timeout_s": 5,
        "stdin_b64": "aGk=",
        "output_encoding": "utf8",
    }
    shown, asked = await execute({}, **sent)
    assert asked == sent
    assert shown == {"exit_code": 0, "stdout": "hi\n", "stderr": ""}
    _, asked = await execute({}, stdin="hi")
    assert asked == {"cmd": ["a"], "stdin_b64": "aGk="}


async def test_exec_tells_how_it_ended() -> None:
    killed = {"exit_code": 137, "signaled": True, "signal": 9, "timed_out": True}
    shown, _ = await execute({**killed, "stdout": ""})
    assert shown == {**killed, "stdout": "", "stderr": ""}


async def test_long_output_of_exec_is_shortened_in_the_middle() -> None:
    lines = "".join(f"\x1b[1mline {n}\x1b[0m\n" for n in range(10_000))
    shown, _ = await execute({"stdout": lines, "stderr": "x" * 50, "stderr_truncated": True})
    assert shown["stdout"].startswith("line 0\nline 1\n")
    assert shown["stdout"].endswith("line 9998\nline 9999\n")
    assert "characters left out" in shown["stdout"]
    assert len(shown["stdout"]) < 8100
    assert (shown["stdout_truncated"], shown["stderr_truncated"]) == (True, True)
    shown, _ = await execute({"stdout": lines}, max_bytes=100_000, strip_ansi=False)
    assert "\x1b[1mline 5\x1b[0m\n" in shown["stdout"]
    shown, _ = await execute({"stdout": "QUJD" * 5000, "output_encoding": "base64"})
    assert shown["stdout"] == "QUJD" * 2000
    assert (shown["stdout_truncated"], shown["output_encoding"]) == (True, "base64")


# -- failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "mentions"),
    [
        ("session_exists", "replace"),
        ("session_not_found", "session_list"),
        ("sandbox_not_found", "sandbox_id"),
        ("validation_failed", "field"),
        ("forbidden", "token"),
        ("unreachable", "s0d serve"),
    ],
)
async def test_errors_say_what_to_do(code: str, mentions: str) -> None:
    path = "POST", f"{NAMED}/sessions"
    daemon = FakeDaemon(answers={path: (409, problem(code, "why"))})
    error = await fails(daemon, "session_create", name="web", cmd=["a"])
    assert (error["code"], error["message"]) == (code, "why")
    assert mentions in error["what_to_do"]
    envelope = {"success": False, "error": {"code": code, "message": "why", "details": {"a": 1}}}
    daemon.answers[path] = 409, envelope
    error = await fails(daemon, "session_create", name="web", cmd=["a"])
    assert (error["code"], error["message"], error["details"]) == (code, "why", {"a": 1})


def test_every_code_has_its_advice() -> None:
    from s0d.api.errors import STATUS

    over_http = {"not_found", "method_not_allowed", "request_timeout", "unsupported_media_type"}
    assert set(STATUS) - over_http - {"misdirected_request"} <= set(ADVICE)


@pytest.mark.parametrize("answer", [b"<html>", b"", b"[]", b"{}", b'{"error": 5}', b"null"])
async def test_an_answer_that_is_not_s0ds(answer: bytes) -> None:
    daemon = FakeDaemon(answers={("GET", "/api/v1/status"): (502, answer)})
    error = await fails(daemon, "session_list")
    assert (error["code"], "502" in error["message"]) == ("internal_error", True)


async def test_a_fault_of_ours_tells_nothing(caplog: pytest.LogCaptureFixture) -> None:
    daemon = FakeDaemon(answers={("GET", f"{NAMED}/sessions"): (200, {"secret": "x"})})
    error = await fails(daemon, "session_list")
    assert error["code"] == "internal_error"
    assert "secret" not in json.dumps(error)
    assert "KeyError" in caplog.text


async def test_a_tool_that_is_none() -> None:
    error = await fails(FakeDaemon(), "session_\ud800")
    assert error["code"] == "unknown_tool"


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        ({"cmd": ["a"]}, "name"),
        ({"name": "a", "cmd": "ls -l"}, "cmd: Expected `array`"),
        ({"name": "a", "cmd": ["a"], "nmae": 1}, "nmae"),
        ({"name": "a", "cmd": ["a"], "\ud800": 1}, "valid Unicode"),
        ({"name": 5, "cmd": ["a"]}, "name: "),
    ],
)
async def test_arguments_that_are_wrong(sent: Any, says: str) -> None:
    error = await fails(FakeDaemon(), "session_create", **sent)
    assert error["code"] == "invalid_request"
    assert says in error["message"]


async def test_what_a_model_means_is_taken() -> None:
    daemon = FakeDaemon(answers={("POST", f"{NAMED}/sessions"): (201, {"session": INFO})})
    await run(daemon, "session_create", name="a", cmd=["a"], rows="30", replace="true", env=None)
    assert daemon.asked[-1][2] == {"name": "a", "cmd": ["a"], "rows": 30, "replace": True}


async def test_text_that_is_not_unicode() -> None:
    error = await fails(FakeDaemon(), "session_create", name="a", cmd=["\ud800"])
    assert error["code"] == "invalid_request"
