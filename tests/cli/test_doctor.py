"""`s0d doctor`: exit code, table, JSON, and what it says of the daemon."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from s0d import __version__
from tests.cli.conftest import Done
from tests.cli.fake import FakeServer, failure, success

Run = Callable[..., Done]

STATUS: dict[str, Any] = {
    "version": __version__,
    "pid": 4711,
    "uid": 0,
    "sandbox_id": "local",
    "sessions": 0,
    "ownership": {
        "mode": "cgroup",
        "base": "/sys/fs/cgroup/s0d",
        "controllers": ["cpu", "memory", "pids"],
        "missing": [],
    },
}


@pytest.fixture(autouse=True)
def places(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("S0D_STATE_DIR", f"{tmp_path}/state")
    monkeypatch.setenv("S0D_RUNTIME_DIR", f"{tmp_path}/run")


def test_all_is_well(s0d: Run, fake: FakeServer) -> None:
    fake.script(success(STATUS))
    done = s0d("doctor")
    assert (done.code, done.err) == (0, "")
    lines = [line.split(maxsplit=2) for line in done.out.splitlines()]
    assert [line[:2] for line in lines] == [
        ["ok", name] for name in ("trees", "limits", "descriptors", "state", "runtime", "daemon")
    ]
    assert f"s0d {__version__}, process 4711, answers on unix:" in done.out
    assert [r.path for r in fake.requests] == ["/api/v1/status"]


def test_json(s0d: Run, fake: FakeServer) -> None:
    fake.script(success({**STATUS, "run_as": "worker"}))
    done = s0d("doctor", "-o", "json")
    report = json.loads(done.out)
    assert (done.code, report["ok"]) == (0, True)
    assert report["daemon"] == {**STATUS, "run_as": "worker"}
    daemon = report["findings"][-1]
    assert daemon["name"] == "daemon"
    assert daemon["text"].endswith("; sessions run as worker")
    assert "mend" not in daemon


def test_something_to_mend(s0d: Run, fake: FakeServer) -> None:
    proc = {"mode": "proc", "controllers": [], "missing": ["no cgroup v2 is mounted"]}
    fake.script(success({**STATUS, "ownership": proc}))
    done = s0d("doctor")
    assert done.code == 1
    assert done.out.startswith("mend  trees")
    assert "→ boot Linux 5.14 or newer" in done.out


def test_another_version_answers(s0d: Run, fake: FakeServer) -> None:
    fake.script(success({**STATUS, "version": "0.0.1"}))
    done = s0d("doctor")
    assert done.code == 1
    assert f"→ restart it: {__version__} is installed" in done.out


def test_it_does_not_let_us_in(s0d: Run, fake: FakeServer) -> None:
    fake.script(failure(401, "unauthorized"))
    done = s0d("doctor")
    assert done.code == 1
    assert "S0D_TOKEN" in done.out


def test_an_address_that_was_asked_for_does_not_answer(s0d: Run) -> None:
    done = s0d("doctor", "--url", "unix:/nowhere/s0d.sock")
    assert done.code == 1
    assert "no daemon answers on unix:/nowhere/s0d.sock" in done.out


def test_no_daemon_is_no_fault(s0d: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("S0D_URL")
    report = json.loads(s0d("doctor", "-o", "json").out)
    assert report["findings"][-1] == {
        "name": "daemon",
        "ok": True,
        "text": "none answers; `s0d run` starts one",
    }
    assert "daemon" not in report
