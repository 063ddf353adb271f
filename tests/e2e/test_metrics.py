"""What `/metrics` says of a real daemon, and what its logs say of requests."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.e2e.test_authorization import as_, make_token, unix
from tests.support.daemon import Daemon
from tests.support.leftovers import wait_for_text

DASHBOARD = Path(__file__).parents[2] / "contrib" / "grafana" / "s0d.json"


def scrape(daemon: Daemon) -> dict[str, dict[Any, float]]:
    with unix(daemon) as client:
        answer = client.get("http://localhost/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    found: dict[str, dict[Any, float]] = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(v for k, v in sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def settled(daemon: Daemon) -> None:
    """Until every connection but the one that asks has been closed."""
    deadline = time.monotonic() + 90
    while scrape(daemon)["s0d_connections"][()] > 1:
        assert time.monotonic() < deadline
        time.sleep(0.1)


def run(daemon: Daemon, *command: str, **spec: Any) -> str:
    with unix(daemon) as client:
        made = client.post("/sessions", json={"command": command, **spec})
        assert made.status_code == 201, made.text
        return str(made.json()["data"]["id"])


def until(daemon: Daemon, session: str, wanted: dict[str, Any]) -> None:
    with unix(daemon) as client:
        body = {"for": wanted, "timeout_ms": 10_000}
        assert client.post(f"/sessions/{session}/wait", json=body).status_code == 200


def test_what_is_counted(daemon: Daemon) -> None:
    before = scrape(daemon)
    assert before["s0d_sessions"][("running",)] == 0
    run(daemon, "sleep", "1000")
    failed = run(daemon, "sh", "-c", "printf 0123456789; exit 3")
    until(daemon, failed, {"exit": True})
    again = {"restart": {"policy": "always", "max_restarts": 1, "initial_backoff_ms": 1}}
    restarted = run(daemon, "false", lifecycle=again)
    until(daemon, restarted, {"phase": ["failed"]})
    missing = run(daemon, "/no/such/program")
    until(daemon, missing, {"phase": ["failed", "exited"]})
    with (
        unix(daemon) as client,
        client.stream("GET", f"/sessions/{failed}/events/stream") as stream,
    ):
        lines = stream.iter_lines()
        assert next(lines).startswith(":")
        now = scrape(daemon)
    assert now["s0d_sessions"][("running",)] == 1
    assert sum(now["s0d_sessions"].values()) == 4
    assert now["s0d_sandboxes"] == {("running",): 1}
    assert now["s0d_attempts_total"][()] == 4
    assert now["s0d_restarts_total"][()] == 1
    assert now["s0d_exits_total"][("exited",)] == 3
    assert now["s0d_exits_total"][("start_failed",)] == 1
    assert now["s0d_spawn_errors_total"][()] == 1
    assert now["s0d_output_bytes_total"][()] == 10
    assert now["s0d_events_total"][("session.created",)] == 4
    assert now["s0d_spawn_seconds_count"][()] == 4
    assert now["s0d_journal_sync_seconds_count"][()] > 0
    assert now["s0d_journal_bytes"][()] > 0
    assert now["s0d_subscribers"][()] == 1
    assert now["s0d_subscriber_lag_events"][()] >= 0
    assert now["s0d_input_queue_bytes"][()] == 0
    assert now["s0d_loop_lag_seconds_count"][()] > before["s0d_loop_lag_seconds_count"][()]
    assert now["s0d_http_requests_in_flight"][()] == 2
    assert now["s0d_connections"][()] == 2
    assert now["s0d_http_requests_total"][("POST", "/api/v1/sessions", "201")] == 4


def test_input_that_waits_is_seen(daemon: Daemon) -> None:
    session = run(daemon, "sleep", "1000")
    with unix(daemon) as client:
        import base64

        data = base64.b64encode(bytes(500_000)).decode()
        sent = client.post(
            f"/sessions/{session}/inputs", json={"input_id": "i", "data_base64": data}
        )
        assert sent.status_code == 202
    assert 0 < scrape(daemon)["s0d_input_queue_bytes"][()] <= 500_000


def test_refusals_and_who_may_look(daemon: Daemon) -> None:
    viewer = make_token(daemon, "prometheus", "viewer")
    scoped = make_token(daemon, "scoped", "admin", "--sandbox", "local")
    with as_(daemon, viewer) as client:
        assert client.get(f"{daemon.url}/metrics").status_code == 200
    with as_(daemon, scoped) as client:
        assert client.get(f"{daemon.url}/metrics").status_code == 403
    assert httpx.get(f"{daemon.url}/metrics").status_code == 401
    assert httpx.get(f"{daemon.url}/healthz", headers={"Host": "evil"}).status_code == 421
    now = scrape(daemon)["s0d_http_refusals_total"]
    assert (now[("unauthorized",)], now[("misdirected_request",)]) == (1, 1)


def test_the_logs_of_requests(daemon: Daemon) -> None:
    token = make_token(daemon, "ci", "operator")
    with as_(daemon, token) as client:
        made = client.post("/sessions", json={"command": ["true"]}, headers={"X-Request-Id": "abc"})
        session = made.json()["data"]["id"]
        client.delete(f"/sessions/{session}", headers={"X-Request-Id": "def"})
    wait_for_text(daemon.log_file, "def")
    assert daemon.stop() == 0
    said = [line for line in daemon.log() if line.get("request_id") in ("abc", "def")]
    assert [(s["logger"], s["method"], s["status"]) for s in said] == [
        ("s0d.audit", "POST", 201),
        ("s0d.access", "POST", 201),
        ("s0d.audit", "DELETE", 200),
        ("s0d.access", "DELETE", 200),
    ]
    assert {line["principal"] for line in said} == {"token:ci"}
    assert said[2]["session_id"] == session
    assert token not in daemon.log_file.read_text()


def test_the_access_log_can_be_turned_off(make_daemon: Any) -> None:
    daemon = make_daemon("--no-access-log")
    daemon.start()
    run(daemon, "true")
    assert daemon.stop() == 0
    loggers = {line["logger"] for line in daemon.log()}
    assert "s0d.audit" in loggers
    assert "s0d.access" not in loggers


def test_every_query_of_the_dashboard_names_a_metric_that_is_there(daemon: Daemon) -> None:
    import re

    run(daemon, "true")
    with unix(daemon) as client:
        client.get("/sessions")
    known = set(scrape(daemon))
    asked = set()
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel.get("targets", []):
            asked |= set(re.findall(r"s0d_\w+", target["expr"]))
    assert asked >= {"s0d_sessions", "s0d_loop_lag_seconds_bucket"}
    assert asked - known <= {"s0d_http_refusals_total", "s0d_exits_total"}


@pytest.mark.parametrize("path", ["/metrics?x=1", "/metrics"])
def test_it_changes_nothing(daemon: Daemon, path: str) -> None:
    with unix(daemon) as client:
        for _ in range(3):
            assert client.get(f"http://localhost{path}").status_code == 200
