"""`s0d session screen, wait, keys, export`: what they send, and what they print."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from s0d.cli.picture import ENTER, LEAVE, draw, parse_frames
from s0d.terminal import Screen
from tests.cli.conftest import Done
from tests.cli.fake import Answer, FakeServer, failure, success

ID = "ses-000000000001"
BASE = f"/api/v1/sessions/{ID}"
Run = Callable[..., Done]
CURSOR = {"row": 1, "col": 3, "visible": True, "shape": "block", "blink": False}


def test_the_screen_as_text(fake: FakeServer, s0d: Run) -> None:
    fake.script(Answer(200, "é one\n\n".encode()))
    done = s0d("session", "screen", ID)
    assert fake.requests[0].path == f"{BASE}/screen?format=text"
    assert done == Done(0, "é one\n\n", "")


@pytest.mark.parametrize("arguments", [("-o", "json"), ("--format", "json")])
def test_the_screen_as_json(fake: FakeServer, s0d: Run, arguments: tuple[str, ...]) -> None:
    fake.script(success({"seq": 3}))
    done = s0d("session", "screen", ID, "--scrollback", "7", *arguments)
    assert fake.requests[0].path == f"{BASE}/screen?scrollback=7"
    assert json.loads(done.out) == {"seq": 3}


def test_the_screen_in_another_form(fake: FakeServer, s0d: Run) -> None:
    fake.script(Answer(200, b"<pre></pre>"))
    assert s0d("session", "screen", ID, "--format", "html").out == "<pre></pre>"
    assert fake.requests[0].path == f"{BASE}/screen?format=html"


def frames(*shown: tuple[str, Any]) -> list[bytes]:
    parts = [f"id: 1\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode() for kind, data in shown]
    return [b": connected\n\n", *parts]


WHOLE = {
    "lines": [
        [{"text": "one ", "width": 4}, {"text": "red", "width": 3, "fg": 1, "bold": True}],
        [],
    ],
    "cursor": {**CURSOR, "visible": False},
}
CHANGED = {
    "changed": {"1": [{"text": "漢", "width": 2, "bg": "#ff8000"}]},
    "cursor": CURSOR,
}


GONE = failure(404, "session_not_found")


def test_a_screen_that_is_followed_is_drawn(fake: FakeServer, s0d: Run) -> None:
    fake.script(Answer(chunks=frames(("screen", WHOLE), ("changes", CHANGED))), GONE)
    done = s0d("session", "screen", ID, "--follow")
    assert fake.requests[0].path == f"{BASE}/screen/stream"
    assert done.code == 0
    assert done.out.startswith(ENTER)
    assert done.out.endswith(LEAVE)
    terminal = Screen(2, 20)
    terminal.feed(done.out.removesuffix(LEAVE).encode())
    shown = terminal.snapshot()
    assert shown.text() == "one red\n漢\n"
    assert (shown.lines[0][1].fg, shown.lines[0][1].bold) == (1, True)
    assert shown.lines[1][0].bg == "#ff8000"
    assert (shown.cursor.row, shown.cursor.col, shown.cursor.visible) == (1, 3, True)


def test_frames_as_json_lines(fake: FakeServer, s0d: Run) -> None:
    fake.script(Answer(chunks=frames(("screen", WHOLE), ("changes", CHANGED))), GONE)
    done = s0d("-o", "json", "session", "screen", ID, "-f")
    assert [json.loads(line) for line in done.out.splitlines()] == [WHOLE, CHANGED]


def test_following_goes_on_over_a_new_connection_and_misses_nothing(
    fake: FakeServer, s0d: Run
) -> None:
    old, new = {"lines": [[], []], "cursor": CURSOR}, WHOLE
    fake.script(
        Answer(chunks=[*frames(("screen", old)), b"id: 2\nevent: changes\nda"], breaks=True),
        failure(503, "unavailable"),
        Answer(chunks=[], breaks=True),
        Answer(chunks=frames(("screen", new), ("changes", CHANGED))),
        GONE,
    )
    done = s0d("session", "screen", ID, "--follow")
    assert len(fake.requests) == 5
    assert (done.code, done.err) == (0, "s0d: the session was deleted\n")
    assert (done.out.count(ENTER), done.out.count(LEAVE)) == (1, 1)
    terminal = Screen(2, 20)
    terminal.feed(done.out.removesuffix(LEAVE).encode())
    assert terminal.text() == "one red\n漢\n"


@pytest.mark.parametrize(
    ("answer", "code"),
    [(failure(404, "sandbox_not_found"), 3), (failure(409, "session_conflict"), 4)],
)
def test_a_screen_that_cannot_be_followed_is_an_error_at_once(
    fake: FakeServer, s0d: Run, answer: Answer, code: int
) -> None:
    fake.script(answer)
    done = s0d("session", "screen", ID, "--follow")
    assert (done.code, done.out) == (code, "")
    assert len(fake.requests) == 1


def test_frames_split_anywhere() -> None:
    data = b"".join(frames(("screen", {"a": 1}), ("changes", {"b": 2})))
    for size in (1, 7, len(data)):
        chunks = [data[n : n + size] for n in range(0, len(data), size)]
        assert list(parse_frames(chunks)) == [("screen", b'{"a": 1}'), ("changes", b'{"b": 2}')]


def test_a_hostile_daemon_cannot_drive_the_terminal() -> None:
    line = [{"text": "a\x1b]0;x\x07\x9b31m\nb", "width": 1}]
    drawn = draw("screen", json.dumps({"lines": [line], "cursor": CURSOR}).encode())
    assert "a]0;x31mb" in drawn


WAITS: list[tuple[tuple[str, ...], Any]] = [
    (("--exit",), {"exit": True}),
    (("--phase", "exited", "--phase", "failed"), {"phase": ["exited", "failed"]}),
    (("--output", "x"), {"output": "x"}),
    (("--output", "x", "--regex", "--stream", "pty", "--after", "3"),
     {"output": {"regex": "x"}, "stream": "pty", "after": 3}),
    (("--screen", "$ "), {"screen": "$ "}),
    (("--port", "80", "--exit"), {"exit": True, "port": 80}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "wanted"), WAITS)
def test_a_wait_sends_its_conditions(
    fake: FakeServer, s0d: Run, arguments: tuple[str, ...], wanted: Any
) -> None:
    fake.script(success({"matched": "exit", "seq": 9, "exit_code": 3, "elapsed_ms": 1240}))
    done = s0d("session", "wait", ID, *arguments, "--timeout", "2m")
    request = fake.requests[0]
    assert (request.method, request.path) == ("POST", f"{BASE}/wait")
    assert request.body == {"for": wanted, "timeout_ms": 120_000}
    assert done == Done(0, "exit: 3 (event 9, 1.2 s)\n", "")


def test_what_a_wait_prints(fake: FakeServer, s0d: Run) -> None:
    match = {"matched": "output", "seq": 9, "text": "a\x1b[31m", "elapsed_ms": 0}
    fake.script(success(match), success(match), failure(408, "wait_timeout", "nothing"))
    arguments = ("session", "wait", ID, "--output", "a")
    assert s0d(*arguments).out == "output: a\\x1b[31m (event 9, 0.0 s)\n"
    assert fake.requests[0].body["timeout_ms"] == 30_000
    assert json.loads(s0d(*arguments, "-o", "json").out) == match
    assert s0d(*arguments) == Done(124, "", "s0d: nothing (wait_timeout)\n")


KEYS: list[tuple[tuple[str, ...], Any]] = [
    (("ls", "Enter"), {"keys": ["ls", "Enter"]}),
    (("--literal", "Enter"), {"keys": [{"text": "Enter"}]}),
    (("--paste", "a\nb"), {"keys": [{"paste": "a\nb"}]}),
    (("--input-id", "i", "--attempt-id", "a", "C-c"),
     {"keys": ["C-c"], "input_id": "i", "expected_attempt_id": "a"}),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "body"), KEYS)
def test_keys(fake: FakeServer, s0d: Run, arguments: tuple[str, ...], body: Any) -> None:
    answer = {"input_id": "i", "attempt_id": "att-1", "accepted": True, "duplicate": True}
    fake.script(success(answer, 202))
    done = s0d("session", "keys", ID, *arguments)
    assert (fake.requests[0].path, fake.requests[0].body) == (f"{BASE}/keys", body)
    assert done.out == "accepted by att-1 (already accepted before)\n"


def test_an_export_to_a_file_and_to_stdout(fake: FakeServer, s0d: Run, tmp_path: Path) -> None:
    chunks = [b'{"version":2}\n', b'[0,"o","\\u00e9"]\n']
    fake.script(Answer(chunks=chunks), Answer(chunks=chunks))
    file = tmp_path / "x.cast"
    assert s0d("session", "export", ID, "--format", "asciicast", str(file)) == Done(0, "", "")
    assert file.read_bytes() == b"".join(chunks)
    done = s0d(
        "session", "export", ID, "--format", "asciicast-v3", "--input", "--attempt-id", "a", "-"
    )
    assert done.out.encode() == b"".join(chunks)
    assert [request.path for request in fake.requests] == [
        f"{BASE}/recording?format=asciicast-v2",
        f"{BASE}/recording?format=asciicast-v3&input=true&attempt_id=a",
    ]


def test_an_export_that_breaks_off_says_so(fake: FakeServer, s0d: Run, tmp_path: Path) -> None:
    fake.script(Answer(chunks=[b"{}\n"], breaks=True))
    done = s0d("session", "export", ID, str(tmp_path / "x.cast"))
    assert done.code == 5
    assert "broke" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("wait", ID),
        ("wait", ID, "--exit", "--stream", "pty"),
        ("wait", ID, "--port", "0"),
        ("wait", ID, "--exit", "--timeout", "soon"),
        ("keys", ID),
        ("screen", ID, "--follow", "--format", "html"),
        ("screen", ID, "--scrollback", "-1"),
        ("export", ID),
        ("export", ID, "--format", "gif", "x"),
    ],
)
def test_usage_errors(fake: FakeServer, s0d: Run, arguments: tuple[str, ...]) -> None:
    done = s0d("session", *arguments)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert fake.requests == []
