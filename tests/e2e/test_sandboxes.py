"""Sandboxes: many in one daemon, paused, frozen, forked, deleted; with the SDK and by hand."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from sandbox0 import Client
from sandbox0.apispec.models.fork_sandbox_request import ForkSandboxRequest
from sandbox0.apispec.models.sandbox_config import SandboxConfig
from sandbox0.apispec.models.sandbox_refresh_request import SandboxRefreshRequest
from sandbox0.apispec.models.sandbox_update_request import SandboxUpdateRequest

from s0d.api.routes import routes
from tests.conftest import daemons
from tests.support.daemon import Daemon
from tests.support.sessions import lives

COUNTER = "i=0; while :; do i=$((i+1)); echo $i; sleep 0.02; done"
PATIENCE = 30.0


class Api:
    """Plain requests, with the envelope taken off."""

    def __init__(self, daemon: Daemon) -> None:
        self._client = httpx.Client(
            base_url=daemon.url,
            headers={"Authorization": f"Bearer {daemon.token}"},
            timeout=PATIENCE,
        )

    def close(self) -> None:
        self._client.close()

    def stream(self, path: str) -> Any:
        return self._client.stream("GET", path)

    def ask(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        return self._client.request(method, f"/api/v1{path}", json=body, headers=headers)

    def send(self, method: str, path: str, body: Iterator[bytes], size: int) -> httpx.Response:
        headers = {"Content-Type": "application/json", "Content-Length": str(size)}
        return self._client.request(method, path, content=body, headers=headers)

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Any:
        answer = self.ask(method, path, body, **headers)
        assert answer.is_success, answer.text
        return answer.json()["data"]

    def claim(self, **config: Any) -> str:
        return str(self("POST", "/sandboxes", {"config": config})["sandbox_id"])

    def run(self, sandbox: str, script: str, **spec: Any) -> str:
        body = {"command": ["sh", "-c", script], **spec}
        return str(self("POST", f"/sandboxes/{sandbox}/sessions", body)["id"])

    def session(self, sandbox: str, session: str) -> Any:
        return self("GET", f"/sandboxes/{sandbox}/sessions/{session}")

    def events(self, sandbox: str, session: str, after: int | None = None) -> list[Any]:
        query = "" if after is None else f"?after={after}"
        page = self("GET", f"/sandboxes/{sandbox}/sessions/{session}/events{query}")
        return list(page["events"])

    def output(self, sandbox: str, session: str) -> str:
        events = self.events(sandbox, session)
        parts = [base64.b64decode(e["data_base64"]) for e in events if e["type"] == "output"]
        return b"".join(parts).decode()

    def wait(self, sandbox: str, session: str, **condition: Any) -> None:
        path = f"/sandboxes/{sandbox}/sessions/{session}/wait"
        self("POST", path, {"for": condition, "timeout_ms": int(PATIENCE * 1000)})

    def phase(self, sandbox: str, session: str) -> str:
        return str(self.session(sandbox, session)["phase"])


@pytest.fixture
def api(shared_daemon: Daemon) -> Iterator[Api]:
    with api_of(shared_daemon) as api:
        yield api
        for sandbox in api("GET", "/sandboxes?limit=1000")["sandboxes"]:
            if sandbox["id"] != "local":
                api("DELETE", f"/sandboxes/{sandbox['id']}")


@contextmanager
def api_of(daemon: Daemon) -> Iterator[Api]:
    api = Api(daemon)
    try:
        yield api
    finally:
        api.close()


def until(condition: Any) -> None:
    """Over HTTP nothing tells when a time is up."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


# -- the SDK -----------------------------------------------------------------------------------


def test_every_method_of_the_sdk(shared_daemon: Daemon, api: Api) -> None:
    with Client(token=shared_daemon.token, base_url=shared_daemon.url) as client:
        sandbox = client.claim_sandbox("default", config=SandboxConfig(ttl=600, hard_ttl=6000))
        assert sandbox.template == "default"
        found = client.get_sandbox(sandbox.id)
        assert (found.status, found.paused, found.runtime_generation) == ("running", False, 1)
        assert found.expires_at < found.hard_expires_at
        assert client.status_sandbox(sandbox.id).status == "running"
        assert sandbox.id in [one.id for one in client.list_sandboxes(template_id="default")]
        assert sandbox.id not in [one.id for one in client.list_sandboxes(paused=True)]
        request = SandboxUpdateRequest(config=SandboxConfig(auto_resume=False))
        assert client.update_sandbox(sandbox.id, request).auto_resume is False
        assert client.pause_sandbox(sandbox.id).paused is True
        resumed = client.sandboxes.resume_and_wait(sandbox.id, poll_interval_sec=0.01)
        assert resumed.runtime_generation == 2
        paused = client.sandboxes.pause_and_wait(sandbox.id, memory=True, poll_interval_sec=0.01)
        assert (paused.runtime_id, paused["pod_name"]) == ("", "")
        assert client.resume_sandbox(sandbox.id, memory=True).resumed
        before = client.get_sandbox(sandbox.id).expires_at
        after = client.refresh_sandbox(sandbox.id, SandboxRefreshRequest(duration=1200))
        assert after.expires_at > before
        forked = client.sandboxes.fork(sandbox.id, ForkSandboxRequest())
        assert forked.source_sandbox_id == sandbox.id
        assert client.delete_sandbox(sandbox.id).success
        with client.sandboxes.open("other") as session:
            assert client.get_sandbox(session.id).template_id == "other"
        assert session.id not in [one.id for one in client.list_sandboxes()]


# -- many in one -------------------------------------------------------------------------------


def test_sandboxes_have_nothing_of_each_other(api: Api) -> None:
    one, two = api.claim(env_vars={"WHO": "one"}), api.claim(env_vars={"WHO": "two"})
    sessions = {sandbox: api.run(sandbox, "echo $WHO; pwd; touch mine") for sandbox in (one, two)}
    for sandbox, name in ((one, "one"), (two, "two")):
        api.wait(sandbox, sessions[sandbox], exit=True)
        said, where = api.output(sandbox, sessions[sandbox]).split()
        assert said == name
        assert os.listdir(where) == ["mine"]
    assert api.ask("GET", f"/sandboxes/{one}/sessions/{sessions[two]}").status_code == 404


def test_a_root_of_ones_own_stays(api: Api, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    (tmp_path / "kept").write_text("kept")
    sandbox = api.claim(root=str(tmp_path))
    session = api.run(sandbox, "cat kept")
    api.wait(sandbox, session, exit=True)
    assert api.output(sandbox, session) == "kept"
    api("DELETE", f"/sandboxes/{sandbox}")
    assert (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"id": "../x"}, "id"),
        ({"id": "local"}, "already"),
        ({"config": {"ttl": -1}}, "config.ttl"),
        ({"config": {"root": "relative"}}, "config.root"),
        ({"config": {"root": "/proc/none"}}, "config.root"),
        ({"config": {"network": {"allow": ["*"]}}}, "config.network"),
        ({"config": {"env_vars": {"A=B": "x"}}}, "config.env_vars"),
        ({"snapshot_id": "snap-1"}, "snapshot_id"),
    ],
)
def test_what_cannot_be_claimed(api: Api, body: Any, says: str) -> None:
    before = api("GET", "/sandboxes")["count"]
    answer = api.ask("POST", "/sandboxes", body)
    assert answer.status_code in (400, 409)
    assert says in answer.json()["error"]["message"]
    assert api("GET", "/sandboxes")["count"] == before


def test_the_default_one_cannot_be_deleted(api: Api) -> None:
    answer = api.ask("DELETE", "/sandboxes/local")
    assert (answer.status_code, answer.json()["error"]["code"]) == (409, "sandbox_conflict")
    assert api.ask("DELETE", "/sandboxes/nowhere").status_code == 404


def test_pages_of_the_list(api: Api) -> None:
    made = [api.claim() for _ in range(3)]
    pages = [api("GET", f"/sandboxes?limit=2&offset={n}") for n in (0, 2)]
    assert api("GET", f"/sandboxes?offset={2**31 - 1}")["sandboxes"] == []
    assert api.ask("GET", f"/sandboxes?offset={2**31}").status_code == 400
    assert [one["id"] for page in pages for one in page["sandboxes"]] == ["local", *made]
    assert [(page["count"], page["has_more"]) for page in pages] == [(4, True), (4, False)]
    assert api.ask("GET", "/sandboxes?status=asleep").status_code == 400


# -- pause and resume --------------------------------------------------------------------------


def test_a_pause_replaces_the_runtime(api: Api) -> None:
    sandbox = api.claim()
    keeps = api.run(sandbox, COUNTER)
    ends = api.run(sandbox, COUNTER, lifecycle={"runtime_recovery": "stop"})
    api.wait(sandbox, keeps, output="3")
    old = api.session(sandbox, keeps)["attempt"]
    paused = api("POST", f"/sandboxes/{sandbox}/pause")
    assert paused == {"sandbox_id": sandbox, "paused": True, "status": "paused"}
    assert (api.phase(sandbox, keeps), api.phase(sandbox, ends)) == ("suspended", "suspended")
    assert api.session(sandbox, keeps)["attempt"]["reason"] == "runtime_replaced"
    assert not lives(old["pid"])
    assert api("POST", f"/sandboxes/{sandbox}/resume") == {"sandbox_id": sandbox, "resumed": True}
    api.wait(sandbox, keeps, phase="running")
    new = api.session(sandbox, keeps)
    assert new["attempt"]["number"] == 2
    assert new["runtime_generation"] == new["attempt"]["runtime_generation"] == 2
    assert api.phase(sandbox, ends) == "stopped"
    assert api.events(sandbox, ends)[-1]["reason"] == "runtime_recovery_policy"


def test_a_frozen_sandbox_goes_on_where_it_was(api: Api) -> None:
    sandbox = api.claim()
    session = api.run(sandbox, COUNTER)
    api.wait(sandbox, session, output="3")
    before = api.session(sandbox, session)["attempt"]
    api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
    assert api.phase(sandbox, session) == "paused"
    said = api.output(sandbox, session)
    time.sleep(0.2)  # silence has to last a while to be one
    assert api.output(sandbox, session) == said
    api("POST", f"/sandboxes/{sandbox}/resume")
    assert api.phase(sandbox, session) == "running"
    count = int(said.split()[-1])
    api.wait(sandbox, session, output=f"{count + 3}\n")
    lines = api.output(sandbox, session).split()
    assert lines == [str(n + 1) for n in range(len(lines))]
    after = api.session(sandbox, session)
    assert after["attempt"] == before, "the same process, with its own generation"
    assert after["runtime_generation"] == 2
    assert api.events(sandbox, session)[-1]["runtime_generation"] == 2


def test_what_wakes_a_paused_sandbox_and_what_does_not(api: Api) -> None:
    sandbox = api.claim()
    session = api.run(sandbox, "cat")
    one = f"/sandboxes/{sandbox}/sessions/{session}"
    for path in ("", "/sessions", f"/sessions/{session}", f"/sessions/{session}/events"):
        api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
        api("GET", f"/sandboxes/{sandbox}{path}")
        assert api("GET", f"/sandboxes/{sandbox}")["paused"]
    wakers: list[tuple[str, str, Any]] = [
        ("POST", f"{one}/inputs", {"input_id": "a", "data_base64": "YQ=="}),
        ("POST", f"{one}/signals", {"signal": "CONT"}),
        ("POST", f"{one}/attempts", {"replace_current": True}),
        ("PUT", f"{one}/desired-state", {"state": "running"}),
        ("POST", f"/sandboxes/{sandbox}/sessions", {"command": ["true"]}),
    ]
    for method, path, body in wakers:
        api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
        api(method, path, body)
        assert not api("GET", f"/sandboxes/{sandbox}")["paused"], path
    api("PUT", f"/sandboxes/{sandbox}", {"config": {"auto_resume": False}})
    api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
    wakers[0][2]["input_id"] = "b"  # the first one again would be a retry, which wakes nothing
    for method, path, body in wakers:
        answer = api.ask(method, path, body)
        assert answer.json()["error"]["code"] == "sandbox_conflict", path
    api("PUT", f"{one}/desired-state", {"state": "stopped"})
    assert api.phase(sandbox, session) == "stopped", "a stop needs no runtime"
    assert api("GET", f"/sandboxes/{sandbox}")["paused"]


def test_backoff_stands_still_in_a_frozen_sandbox(api: Api) -> None:
    sandbox = api.claim()
    restart = {"policy": "always", "initial_backoff_ms": 300, "max_backoff_ms": 300}
    session = api.run(sandbox, "exit 1", lifecycle={"restart": restart})
    api.wait(sandbox, session, phase="backoff")
    api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
    attempts = api.session(sandbox, session)["attempt"]["number"]
    assert api.phase(sandbox, session) == "paused"
    time.sleep(0.5)
    assert api.session(sandbox, session)["attempt"]["number"] == attempts
    api("POST", f"/sandboxes/{sandbox}/resume")
    until(lambda: api.session(sandbox, session)["attempt"]["number"] > attempts)


# -- times -------------------------------------------------------------------------------------


def test_the_lease_runs_out_and_pauses(api: Api) -> None:
    sandbox = api.claim()
    session = api.run(sandbox, "sleep 1000")
    api("POST", f"/sandboxes/{sandbox}/refresh", {"duration": 1})
    until(lambda: api("GET", f"/sandboxes/{sandbox}")["paused"])
    assert api.phase(sandbox, session) == "suspended"


def test_the_hard_limit_removes_everything(api: Api, shared_daemon: Daemon) -> None:
    sandbox = api.claim(hard_ttl=1)
    session = api.run(sandbox, "touch here; sleep 1000")
    pid = api.session(sandbox, session)["attempt"]["pid"]
    until(lambda: api.ask("GET", f"/sandboxes/{sandbox}").status_code == 404)
    assert not lives(pid)
    names = [path for path in Path(shared_daemon.state_dir).rglob("*") if sandbox in path.name]
    assert names == []


def test_quiet_freezes_and_use_wakes(api: Api) -> None:
    sandbox = api.claim(idle_suspend_seconds=1, auto_resume=False)
    session = api.run(sandbox, "cat")
    until(lambda: api("GET", f"/sandboxes/{sandbox}")["paused"])
    assert api.phase(sandbox, session) == "paused"
    path = f"/sandboxes/{sandbox}/sessions/{session}/inputs"
    api("POST", path, {"input_id": "a", "data_base64": "YQo="})
    api.wait(sandbox, session, output="a")
    assert api.phase(sandbox, session) == "running"


# -- fork and the daemon's end -----------------------------------------------------------------


def test_a_fork_has_the_files_and_runs_nothing(api: Api) -> None:
    source = api.claim(env_vars={"WHO": "source"})
    session = api.run(source, "mkdir -p a/b; echo $WHO > a/b/c; ln -s c a/b/d; echo done; sleep 99")
    api.wait(source, session, output="done")
    made = api("POST", f"/sandboxes/{source}/fork", None, **{"Idempotency-Key": "once"})
    copy = made["sandbox"]["id"]
    assert made["sandbox"]["status"] == "paused"
    again = api("POST", f"/sandboxes/{source}/fork", None, **{"Idempotency-Key": "once"})
    assert again["sandbox"]["id"] == copy
    assert api("GET", f"/sandboxes/{copy}/sessions")["sessions"] == []
    reads = api.run(copy, "cat a/b/d; echo $WHO")
    api.wait(copy, reads, exit=True)
    assert api.output(copy, reads) == "source\nsource\n"
    assert api("GET", f"/sandboxes/{copy}")["runtime_generation"] == 2
    assert api.ask("POST", "/sandboxes/local/fork").status_code == 409


def test_sandboxes_survive_the_daemon(daemon: Daemon) -> None:
    with api_of(daemon) as api:
        runs, rests = api.claim(ttl=1000), api.claim(env_vars={"A": "1"})
        session, other = api.run(runs, COUNTER), api.run(rests, COUNTER)
        api("POST", f"/sandboxes/{rests}/pause", {"memory": True})
        frozen = api.session(rests, other)["attempt"]["pid"]
    daemon.kill()
    daemon.start()
    with api_of(daemon) as api:
        assert not lives(frozen)
        api.wait(runs, session, phase="running")
        assert api("GET", f"/sandboxes/{runs}")["runtime_generation"] == 2
        assert api("GET", f"/sandboxes/{rests}")["paused"]
        assert api.phase(rests, other) == "suspended"
        api("POST", f"/sandboxes/{rests}/resume")
        api.wait(rests, other, phase="running")


# -- freezing under load -----------------------------------------------------------------------

WRITERS = {
    "pipes": "i=0; while :; do i=$((i+1)); echo $i; done",
    "pty": "i=0; while :; do i=$((i+1)); echo $i; done",
    "tree": "(i=0; while :; do i=$((i+1)); echo $i; done) & wait",
}


@pytest.mark.parametrize("cgroups", [True, False])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_hundred_rounds_lose_no_byte(
    shared_daemon: Daemon, plain_daemon: Daemon, kind: str, cgroups: bool
) -> None:
    with api_of(shared_daemon if cgroups else plain_daemon) as api:
        sandbox = api.claim()
        spec = {"io": {"mode": "pty"}} if kind == "pty" else {}
        session = api.run(sandbox, WRITERS[kind], **spec)
        echo = api.run(sandbox, "cat")
        for number in range(100 if kind == "pipes" else 20):
            api("POST", f"/sandboxes/{sandbox}/pause", {"memory": True})
            path = f"/sandboxes/{sandbox}/sessions/{echo}/inputs"
            data = base64.b64encode(f"{number}\n".encode()).decode()
            api("POST", path, {"input_id": str(number), "data_base64": data})  # wakes it
        last = api.session(sandbox, session)["attempt"]
        assert (last["number"], "exit_code" in last) == (1, False)
        api.wait(sandbox, echo, output=f"{number}\n")
        assert api.output(sandbox, echo).split() == [str(n) for n in range(number + 1)]
        api("PUT", f"/sandboxes/{sandbox}/sessions/{session}/desired-state", {"state": "stopped"})
        lines = whole_output(api, sandbox, session).split()
        assert len(lines) > 100
        assert lines[:-1] == [str(n + 1) for n in range(len(lines) - 1)]
        assert api("GET", f"/sandboxes/{sandbox}")["runtime_generation"] == number + 2
        api("DELETE", f"/sandboxes/{sandbox}")


@pytest.fixture(scope="module")
def plain_daemon() -> Iterator[Daemon]:
    """One that owns trees without cgroups."""
    with daemons() as make:
        daemon = make("--no-cgroups")
        daemon.start()
        yield daemon


def whole_output(api: Api, sandbox: str, session: str) -> str:
    parts, after = [], 0
    latest = api.session(sandbox, session)["cursor"]["latest"]
    while after < latest:
        events = api.events(sandbox, session, after)
        parts += [base64.b64decode(e["data_base64"]) for e in events if e["type"] == "output"]
        after = events[-1]["seq"]
    return b"".join(parts).decode()


def test_attached_clients_keep_it_awake(api: Api) -> None:
    sandbox = api.claim(idle_suspend_seconds=1)
    session = api.run(sandbox, "cat")
    path = f"/api/v1/sandboxes/{sandbox}/sessions/{session}/events/stream"
    quiet_since = 0.0
    with api.stream(path), api.stream(path):
        with api.stream(path):
            until(lambda: api.session(sandbox, session)["attachments"] == 3)
        time.sleep(1.3)  # longer than it may be quiet: nothing must happen
        assert not api("GET", f"/sandboxes/{sandbox}")["paused"]
        quiet_since = time.monotonic()
    until(lambda: api("GET", f"/sandboxes/{sandbox}")["paused"])
    assert time.monotonic() - quiet_since > 1
    with api.stream(path):  # looking on does not wake it
        until(lambda: api.session(sandbox, session)["attachments"] == 1)
        assert api("GET", f"/sandboxes/{sandbox}")["paused"]


def test_output_keeps_it_awake(api: Api) -> None:
    sandbox = api.claim(idle_suspend_seconds=1)
    session = api.run(sandbox, "for i in 1 2 3 4 5 6 7; do echo $i; sleep 0.3; done; exec sleep 99")
    until(lambda: api("GET", f"/sandboxes/{sandbox}")["paused"])
    assert api.output(sandbox, session).split()[-1] == "7"


def test_deleting_a_sandbox_ends_its_streams(api: Api) -> None:
    sandbox = api.claim()
    session = api.run(sandbox, "echo here; sleep 99")
    path = f"/api/v1/sandboxes/{sandbox}/sessions/{session}/events/stream"
    with api.stream(path) as stream, ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(api, "DELETE", f"/sandboxes/{sandbox}")
        text = "".join(stream.iter_text())
        deleted.result()
    assert '"reason":"session_deleted"' in text
    assert api.ask("GET", f"/sandboxes/{sandbox}").status_code == 404


def test_one_deletion_for_all_who_ask(api: Api) -> None:
    sandbox = api.claim()
    api.run(sandbox, "sleep 99")
    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(lambda _: api.ask("DELETE", f"/sandboxes/{sandbox}"), range(3)))
    assert {answer.status_code for answer in answers} <= {202, 404}
    with ThreadPoolExecutor(3) as pool:
        made = [pool.submit(api.ask, "POST", "/sandboxes", {"id": "same"}) for _ in range(3)]
    assert sorted(one.result().status_code for one in made) == [201, 409, 409]


BODIES = {
    "POST /api/v1/sandboxes/ID/sessions": {"command": ["true"]},
    "PUT /api/v1/sandboxes/ID/sessions/SES": {"command": ["true"]},
    "PUT /api/v1/sandboxes/ID/sessions/SES/desired-state": {"state": "running"},
    "POST /api/v1/sandboxes/ID/sessions/SES/attempts": {"replace_current": True},
    "POST /api/v1/sandboxes/ID/sessions/SES/inputs": {"input_id": "1", "eof": True},
    "POST /api/v1/sandboxes/ID/sessions/SES/signals": {"signal": "USR1"},
    "PUT /api/v1/sandboxes/ID/sessions/SES/terminal": {"rows": 1, "cols": 1},
    "POST /api/v1/sandboxes/ID/sessions/SES/keys": {"keys": ["Enter"]},
    "POST /api/v1/sandboxes/ID/sessions/SES/wait": {"for": {"exit": True}},
    "POST /api/v1/sandboxes/ID/sessions/SES/kill": {"signal": "KILL"},
    "PUT /api/v1/sandboxes/ID": {"config": {"ttl": 100}},
    "POST /api/v1/sandboxes/ID/pause": {"memory": True},
    "POST /api/v1/sandboxes/ID/resume": {"memory": True},
    "POST /api/v1/sandboxes/ID/refresh": {"duration": 5},
    "POST /api/v1/sandboxes/ID/fork": {"memory": False},
    "POST /v1/sandbox/ID/sessions": {"name": "a", "cmd": ["true"], "replace": True},
    "POST /v1/sandbox/ID/sessions/NAME/kill": {"signal": "KILL"},
    "POST /v1/sandbox/ID/exec": {"cmd": ["true"]},
    "POST /v1/sandbox/ID/resume": {},
}


def test_every_request_with_a_body_is_tried_below() -> None:
    names = {"<sandbox_id>": "ID", "<session_id>": "SES", "<session_name>": "NAME"}
    found = set()
    for route in routes():
        path = route.path
        for parameter, name in names.items():
            path = path.replace(parameter, name)
        if route.body is not None and "/ID" in path:
            found.add(f"{route.method} {path}")
    assert found == set(BODIES)


@pytest.mark.parametrize("request_line", BODIES)
def test_a_sandbox_that_goes_while_the_request_arrives(api: Api, request_line: str) -> None:
    sandbox = api.claim()
    session = api.run(sandbox, "exec sleep 1000", name="a", io={"mode": "pty"})
    method, path = request_line.split()
    path = path.replace("ID", sandbox).replace("SES", session).replace("NAME", "a")
    data = json.dumps(BODIES[request_line]).encode()

    def slowly() -> Iterator[bytes]:
        yield data[:1]
        api("DELETE", f"/sandboxes/{sandbox}")
        yield data[1:]

    answer = api.send(method, path, slowly(), len(data))
    problem = answer.json()
    code = problem["code"] if path.startswith("/v1") else problem["error"]["code"]
    gone = {"sandbox_not_found": 404, "session_not_found": 404, "sandbox_conflict": 409}
    assert gone.get(code) == answer.status_code, problem


def test_a_sandbox_that_is_being_deleted_takes_no_command(api: Api, tmp_path: Path) -> None:
    sandbox = api.claim(root=str(tmp_path))
    script = "trap '' TERM; echo ready; while [ ! -e go ]; do sleep 0.05; done"
    session = api.run(sandbox, script, lifecycle={"stop_grace_period_seconds": 3600})
    api.wait(sandbox, session, output="ready")
    with ThreadPoolExecutor(1) as pool:
        deleted = pool.submit(api, "DELETE", f"/sandboxes/{sandbox}")
        until(lambda: api("GET", f"/sandboxes/{sandbox}")["status"] == "terminating")
        for request_line, body in BODIES.items():
            method, path = request_line.split()
            path = path.replace("ID", sandbox).replace("SES", session).replace("NAME", "a")
            if path.endswith("/wait"):
                continue
            data = json.dumps(body).encode()
            answer = api.send(method, path, iter([data]), len(data))
            assert answer.status_code in (404, 409), (request_line, answer.text)
        (tmp_path / "go").touch()
        deleted.result(PATIENCE)


def test_done_is_200_for_one_client_and_202_for_others(api: Api) -> None:
    for agent, status in (("s0/1.0", 200), ("other", 202)):
        answer = api.ask("DELETE", f"/sandboxes/{api.claim()}", **{"User-Agent": agent})
        assert answer.status_code == status
