"""Screens, keys, waits and recordings over HTTP, with real children behind them."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import trio

from s0d.api.routes import routes
from s0d.supervisor import Session, Supervisor, open_supervisor
from tests.api.harness import AUTH, Answer, Served, Wire, request, serving
from tests.support.sessions import PATIENCE, create, shell, spec_of
from tests.support.terminals import screen_of

HEARTBEAT = 0.2


@pytest.fixture
async def supervisor(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with open_supervisor(tmp_path / "state") as opened:
        yield opened


@pytest.fixture
async def served(supervisor: Supervisor, short_dir: Path) -> AsyncIterator[Served]:
    async with serving(supervisor, short_dir, heartbeat=HEARTBEAT) as running:
        yield running


async def terminal(supervisor: Supervisor, script: str, **fields: Any) -> Session:
    return await create(supervisor, shell(script, io={"mode": "pty"}, **fields))


def target(session: Session, rest: str) -> str:
    return f"/api/v1/sessions/{session.id}/{rest}"


async def get(served: Served, session: Session, rest: str, **headers: str) -> Answer:
    return await served.ask("GET", target(session, rest), {**AUTH, **headers})


async def post(served: Served, session: Session, rest: str, body: Any) -> Answer:
    return await served.ask("POST", target(session, rest), body=body)


async def wait(served: Served, session: Session, timeout_ms: int = 9000, **wanted: Any) -> Any:
    answer = await post(served, session, "wait", {"for": wanted, "timeout_ms": timeout_ms})
    return answer.data


PICTURE = r"printf '\033]2;title\007one\r\n\033[1;31mred \303\251<\033[0m\033[?2004h'; exec cat"


async def test_the_screen_as_json(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, PICTURE)
    await wait(served, session, screen="red")
    data = (await get(served, session, "screen")).data
    assert session.record.attempt is not None
    expected = screen_of(b"\x1b]2;title\x07one\r\n\x1b[1;31mred \xc3\xa9<\x1b[0m\x1b[?2004h")
    snapshot = expected.snapshot()
    assert data["session_id"] == session.id
    assert data["attempt_id"] == session.record.attempt.id
    assert data["seq"] == session.journal.latest
    assert (data["rows"], data["cols"], data["title"]) == (24, 80, "title")
    assert data["lines"][0] == [{"text": "one", "width": 3}]
    assert data["lines"][1] == [{"text": "red é<", "width": 6, "fg": 1, "bold": True}]
    assert len(data["lines"]) == 24
    assert data["cursor"] == {
        "row": 1, "col": 6, "visible": True, "shape": "block", "blink": snapshot.cursor.blink,
    }  # fmt: skip
    assert data["modes"]["bracketed_paste"] is True
    assert (data["alternate"], data["history_cut"], data["scrollback_lines"]) == (False, False, 0)
    assert "scrollback" not in data
    assert "changed" not in data


@pytest.mark.parametrize("form", ["text", "ansi", "html"])
async def test_the_screen_in_other_forms(served: Served, supervisor: Supervisor, form: str) -> None:
    session = await terminal(supervisor, PICTURE)
    await wait(served, session, screen="red")
    expected = screen_of(b"one\r\n\x1b[1;31mred \xc3\xa9<\x1b[0m")
    answer = await get(served, session, f"screen?format={form}")
    assert answer.body.decode() == getattr(expected, form)()
    kind = "text/html" if form == "html" else "text/plain"
    assert answer.headers["content-type"] == f"{kind}; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert ("sandbox" in answer.headers.get("content-security-policy", "")) is (form == "html")


async def test_scrollback(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "seq 2000; exec cat")
    await wait(served, session, screen={"regex": "^2000$"})
    data = (await get(served, session, "screen?scrollback=10")).data
    assert [line[0]["text"] for line in data["scrollback"]] == [str(n) for n in range(1968, 1978)]
    assert data["scrollback_lines"] == 1000
    text = (await get(served, session, "screen?scrollback=1000&format=text")).body.split()
    assert text == [b"%d" % n for n in range(978, 2001)]


async def test_an_etag_saves_what_did_not_change(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "echo one; read x; echo two; exec cat")
    await wait(served, session, screen="one")
    first = await get(served, session, "screen")
    tag = first.headers["etag"]
    assert tag == f'"{first.data["attempt_id"]}.{first.data["seq"]}"'
    for given in (tag, f'W/{tag}, "x"', "*"):
        again = await get(served, session, "screen", **{"If-None-Match": given})
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert (await get(served, session, "screen", **{"If-None-Match": '"x"'})).status == 200
    await session.input("i", b"\n")
    await wait(served, session, screen="two")
    assert (await get(served, session, "screen", **{"If-None-Match": tag})).status == 200


async def test_a_finished_attempt_keeps_its_last_screen_over_a_restart(
    tmp_path: Path, short_dir: Path
) -> None:
    async with open_supervisor(tmp_path / "state") as supervisor:
        session = await terminal(supervisor, "stty size; sleep 0.01; stty size; echo bye")
        with trio.fail_after(PATIENCE):
            await session.wait_for(lambda s: s.record.attempt.finished)
        async with serving(supervisor, short_dir) as served:
            before = await get(served, session, "screen")
    async with open_supervisor(tmp_path / "state") as supervisor:
        session = supervisor.default.session(session.id)
        (short_dir / "again").mkdir()
        async with serving(supervisor, short_dir / "again") as served:
            after = await get(served, session, "screen")
    assert after.data == before.data
    assert after.data["lines"][2] == [{"text": "bye", "width": 3}]


async def test_keys_and_pastes_follow_the_modes(served: Served, supervisor: Supervisor) -> None:
    script = r"stty raw -echo; printf '%s'; exec cat -v"
    for modes, up, paste in (
        ("", "^[[A", "a"),
        (r"\033[?1h\033[?2004h", "^[OA", "^[[200~a^[[201~"),
    ):
        session = await terminal(supervisor, script % f"{modes}ready")
        await wait(served, session, screen="ready")
        answer = await post(served, session, "keys", ["Up", "C-c", {"text": "Up"}, {"paste": "a"}])
        assert answer.status == 202
        assert session.record.attempt is not None
        assert answer.data["attempt_id"] == session.record.attempt.id
        await wait(served, session, screen=f"ready{up}^CUp{paste}")


async def test_keys_are_an_input_like_any_other(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "stty -echo; echo up; read x; echo got $x; exec cat")
    await wait(served, session, screen="up")
    body = {"keys": ["a b", "Enter"], "input_id": "mine"}
    assert (await post(served, session, "keys", body)).data["duplicate"] is False
    assert (await post(served, session, "keys", body)).data["duplicate"] is True
    await wait(served, session, screen={"regex": "^got a b$"})
    page = (await get(served, session, "events?type=input.accepted")).data["events"]
    assert [(e["input_id"], e["bytes"]) for e in page] == [("mine", 4)]
    refused = await post(served, session, "keys", {**body, "keys": ["b"]})
    assert (refused.status, refused.code) == (409, "session_conflict")
    wrong = {"keys": ["x"], "expected_attempt_id": "att-0"}
    assert (await post(served, session, "keys", wrong)).code == "session_conflict"
    assert (await post(served, session, "keys", ["C-é"])).code == "invalid_request"


async def test_what_has_no_terminal(served: Served, supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    for rest in ("screen", "screen/stream", "recording"):
        answer = await get(served, session, rest)
        assert (answer.status, answer.code) == (409, "session_conflict")
    assert (await post(served, session, "keys", ["a"])).code == "session_conflict"
    assert (await post(served, session, "wait", {"for": {"screen": "x"}})).status == 409
    idle = await terminal(supervisor, "cat", lifecycle={"desired_state": "stopped"})
    for rest in ("screen", "screen/stream", "recording"):
        assert (await get(served, idle, rest)).code == "session_conflict"


@pytest.mark.parametrize(
    "rest",
    ["screen?format=png", "screen?scrollback=1001", "screen?scrollback=x", "recording?format=gif",
     "recording?input=perhaps"],
)  # fmt: skip
async def test_queries_that_are_refused(served: Served, supervisor: Supervisor, rest: str) -> None:
    session = await terminal(supervisor, "exec cat")
    answer = await get(served, session, rest)
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert answer.json["error"]["message"].startswith(rest.partition("?")[2].partition("=")[0])


async def test_every_route_answers_404_for_an_unknown_session(served: Served) -> None:
    for route in routes():
        if "<session_id>" in route.path and route.path.endswith(
            ("/screen", "/stream", "/keys", "/wait", "/recording")
        ):
            path = route.path.replace("<sandbox_id>", "local").replace(
                "<session_id>", "ses-00000000-0000"
            )
            body: Any = {"keys": ["a"], "for": {"exit": True}} if route.method == "POST" else b""
            answer = await served.ask(route.method, path, body=body)
            assert (answer.status, answer.code) == (404, "session_not_found")


# -- waiting ---------------------------------------------------------------------------------


async def test_a_wait_says_what_matched_where_and_how_long_it_took(
    served: Served, supervisor: Supervisor
) -> None:
    session = await create(supervisor, shell("echo READY 80 >&2; exec cat"))
    data = await wait(served, session, output={"regex": r"READY \d+"}, exit=True)
    assert 0 <= data.pop("elapsed_ms") < 9000
    assert session.record.attempt is not None
    [event] = (await get(served, session, "events?type=output")).data["events"]
    assert data == {
        "matched": "output",
        "seq": event["seq"],
        "attempt_id": session.record.attempt.id,
        "text": "READY 80",
        "stream": "stderr",
    }


async def test_a_wait_that_times_out(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "exec cat")

    async def check(wanted: dict[str, Any], timeout: int) -> None:
        body = {"for": wanted, "timeout_ms": timeout}
        answer = await post(served, session, "wait", body)
        assert (answer.status, answer.code) == (408, "wait_timeout")

    async with trio.open_nursery() as nursery:
        for wanted in ({"output": "x"}, {"screen": "x"}, {"exit": True}, {"port": 1}):
            for timeout in (0, 50):
                nursery.start_soon(check, wanted, timeout)
    assert session.journal.tail.readers == 0


async def test_a_wait_of_no_time_looks(served: Served, supervisor: Supervisor) -> None:
    session = await create(supervisor, shell("exit 4"))
    assert (await wait(served, session, exit=True))["exit_code"] == 4
    assert (await wait(served, session, 0, phase="exited"))["phase"] == "exited"
    assert (await wait(served, session, 0, exit=True))["reason"] == "exited"


async def test_a_client_that_leaves_ends_its_wait(served: Served, supervisor: Supervisor) -> None:
    session = await create(supervisor, spec_of("cat"))
    wire = await served.connect()
    body = json.dumps({"for": {"output": "never"}, "timeout_ms": 60_000}).encode()
    head = {**AUTH, "Content-Type": "application/json"}
    await wire.send(request("POST", target(session, "wait"), head, body))
    tail = session.journal.tail
    with trio.fail_after(PATIENCE):
        while not tail.readers:
            await trio.lowlevel.checkpoint()
        await wire.stream.aclose()
        while tail.readers:
            await trio.lowlevel.checkpoint()


async def test_a_shutdown_ends_a_wait(supervisor: Supervisor, short_dir: Path) -> None:
    session = await create(supervisor, spec_of("cat"))
    async with serving(supervisor, short_dir) as served, trio.open_nursery() as nursery:
        answers: list[Answer] = []

        async def ask() -> None:
            answers.append(await post(served, session, "wait", {"for": {"exit": True}}))

        nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked(0.1)
        served.shutdown.set()
    assert (answers[0].status, answers[0].code) == (503, "unavailable")


async def test_expressions_that_would_never_end_cost_a_timeout(
    served: Served, supervisor: Supervisor
) -> None:
    session = await create(supervisor, shell("head -c 300000 /dev/zero | tr '\\0' a; exec cat"))
    body = {"for": {"output": {"regex": "(a*)*(a|aa)+(.*)(.*)b"}}, "timeout_ms": 300}
    with trio.fail_after(PATIENCE):
        answer = await post(served, session, "wait", body)
    assert answer.code == "wait_timeout"


# -- the stream ------------------------------------------------------------------------------


class ScreenClient:
    """Builds the screen from the frames, as any client would."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.kinds: list[str] = []
        self.rows: list[str] = []
        self.last: dict[str, Any] = {}

    async def next(self) -> dict[str, Any]:
        while True:
            frame = await self.wire.until(b"\n\n")
            assert frame.isascii()
            fields = dict(line.split(": ", 1) for line in frame.decode().splitlines() if line)
            if "data" in fields:
                break
        shown = self.last = json.loads(fields["data"])
        assert fields["id"] == str(shown["seq"])
        self.kinds.append(fields["event"])
        if fields["event"] == "screen":
            self.rows = [_text(line) for line in shown["lines"]]
        for row, line in shown.get("changed", {}).items():
            self.rows[int(row)] = _text(line)
        return dict(shown)

    async def until(self, text: str) -> None:
        with trio.fail_after(PATIENCE):
            while text not in "\n".join(self.rows):
                await self.next()


def _text(line: list[dict[str, Any]]) -> str:
    return "".join(run["text"] for run in line)


async def opened(served: Served, session: Session) -> ScreenClient:
    wire = await served.connect()
    await wire.send(request("GET", target(session, "screen/stream"), AUTH))
    head = await wire.head()
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")
    return ScreenClient(wire)


async def test_a_whole_screen_and_then_what_changes(served: Served, supervisor: Supervisor) -> None:
    script = r"stty -echo; echo one; read x; printf '\033[3;1Htwo'; exec cat"
    session = await terminal(supervisor, script)
    await wait(served, session, screen="one")
    client = await opened(served, session)
    await client.until("one")
    assert client.kinds == ["screen"]
    assert session.attachments == 1
    await session.input("i", b"\n")
    await client.until("two")
    assert client.kinds[1:] == ["changes"] * len(client.kinds[1:])
    assert client.last["changed"].keys() <= {"1", "2"}
    assert "lines" not in client.last
    await session.resize(10, 40)
    while client.last["rows"] != 10:
        await client.next()
    assert client.kinds[-1] == "screen"
    assert client.rows[2] == "two"
    await client.wire.stream.aclose()
    with trio.fail_after(PATIENCE):
        await session.wait_for(lambda s: s.attachments == 0)
    assert session.journal.tail.readers == 0


LINE_BY_LINE = """
read x; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); echo $i; done; echo DONE; exec cat
"""


async def test_a_flood_is_coalesced_and_ends_right(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, LINE_BY_LINE)
    client = await opened(served, session)
    await client.next()
    began = trio.current_time()
    await session.input("i", b"\n")
    await client.until("DONE")
    assert len(client.kinds) <= 2 + (trio.current_time() - began) * 31
    assert client.rows[-3:] == ["20000", "DONE", ""]


async def test_a_new_attempt_begins_anew(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "echo $S0D_ATTEMPT_ID; exec cat")
    assert session.record.attempt is not None
    client = await opened(served, session)
    await client.until(session.record.attempt.id)
    await session.create_attempt(replace_current=True)
    await client.until(session.record.attempt.id)
    assert client.last["attempt_id"] == session.record.attempt.id
    assert client.kinds.count("screen") >= 2


async def test_a_silent_screen_sends_comments(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "exec cat")
    client = await opened(served, session)
    await client.wire.until(b": keep-alive\n\n")
    await client.wire.until(b": keep-alive\n\n")


async def test_deleting_and_stopping_end_the_stream(served: Served, supervisor: Supervisor) -> None:
    sessions = [await terminal(supervisor, "exec cat") for _ in range(2)]
    clients = [await opened(served, session) for session in sessions]
    for client in clients:
        await client.next()
    await sessions[0].delete()
    await clients[0].wire.rest()
    served.shutdown.set()
    await clients[1].wire.rest()
    assert sessions[1].attachments == 0


# -- recordings ------------------------------------------------------------------------------


async def test_a_recording_has_everything(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(
        supervisor, "stty -echo; echo one; read x; echo two; exit 3", name="demo"
    )
    await wait(served, session, screen="one")
    await session.resize(30, 100)
    await session.input("i", b"\n")
    await wait(served, session, exit=True)
    answer = await get(served, session, "recording?format=asciicast-v3&input=true")
    assert answer.headers["content-type"] == "application/x-asciicast"
    head, *lines = map(json.loads, answer.body.splitlines())
    assert head["term"] == {"cols": 80, "rows": 24, "type": "xterm-256color"}
    assert (head["version"], head["title"]) == (3, "demo")
    assert head["command"].startswith("sh -c ")
    written = "".join(data for _, code, data in lines if code == "o")
    assert written == "one\r\ntwo\r\n"
    others = [(code, data) for _, code, data in lines if code != "o"]
    assert others == [("r", "100x30"), ("m", "input: 1 bytes"), ("x", "3")]
    default = await get(served, session, "recording")
    assert json.loads(default.body.splitlines()[0])["version"] == 2


async def test_what_is_typed_is_in_a_recording_and_nowhere_else_where_it_is_retained(
    served: Served, supervisor: Supervisor
) -> None:
    retain = {"input": True}
    session = await terminal(supervisor, "read x; echo got", event_retention=retain)
    await session.input("i", "gehéim\n".encode())
    await wait(served, session, exit=True)
    recording = (await get(served, session, "recording?input=true")).body
    assert [1, "i", "gehéim\n"] in [[1, *json.loads(x)[1:]] for x in recording.splitlines()[1:]]
    assert b'"i"' not in (await get(served, session, "recording")).body
    events = json.loads((await get(served, session, "events?limit=100")).body)["data"]["events"]
    (accepted,) = (event for event in events if event["type"] == "input.accepted")
    assert accepted.keys().isdisjoint({"typed", "data", "data_base64"})


async def test_a_large_input_is_a_marker_in_a_recording(
    served: Served, supervisor: Supervisor
) -> None:
    retain = {"input": True, "max_bytes": 262_144}
    session = await terminal(
        supervisor, "stty raw -echo; echo go; head -c 200000 | wc -c", event_retention=retain
    )
    await wait(served, session, screen="go")
    await session.input("i", bytes(200_000))
    await wait(served, session, exit=True)
    recording = (await get(served, session, "recording?input=true")).body
    lines = [json.loads(line)[1:] for line in recording.splitlines()[1:]]
    assert ["m", "input: 200000 bytes"] in lines


async def test_a_recording_of_an_earlier_attempt(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "echo $S0D_ATTEMPT_ID; exec cat")
    assert session.record.attempt is not None
    first = session.record.attempt.id
    await wait(served, session, screen="att-")
    await session.create_attempt(replace_current=True)
    body = (await get(served, session, f"recording?attempt_id={first}")).body
    assert f"{first}\\r\\n".encode() in body
    assert session.record.attempt.id.encode() not in body
    unknown = (await get(served, session, "recording?attempt_id=att-0")).body
    assert unknown.count(b"\n") == 1


async def test_a_long_recording_is_streamed(served: Served, supervisor: Supervisor) -> None:
    session = await terminal(supervisor, "seq 200000; echo DONE; exec cat")
    await wait(served, session, output="DONE")
    wire = await served.connect(window=4096)
    await wire.send(request("GET", target(session, "recording"), AUTH))
    assert (await wire.head()).status == 200
    assert session.attachments == 1
    text = await wire.rest()
    data = "".join(json.loads(line)[2] for line in text.splitlines()[1:])
    assert data == "".join(f"{n}\r\n" for n in range(1, 200_001)) + "DONE\r\n"
    with trio.fail_after(PATIENCE):
        await session.wait_for(lambda s: s.attachments == 0)
