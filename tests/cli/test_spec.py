"""Specifications from flags and files, down to what the daemon makes of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from s0d.model.parse import parse_spec
from tests.cli.conftest import Done
from tests.cli.fake import FakeServer, failure

Run = Callable[..., Done]


def sent(fake: FakeServer, s0d: Run, *arguments: str) -> Any:
    fake.script(failure(503, "unavailable"))
    assert s0d("session", "create", *arguments).code == 1
    return fake.requests[-1].body


def test_every_flag(fake: FakeServer, s0d: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INHERITED", "from us")
    monkeypatch.delenv("ABSENT", raising=False)
    body = sent(
        fake,
        s0d,
        *("--name", "n", "--cwd", "/w", "-e", "A=b=c", "--env", "INHERITED", "-e", "ABSENT"),
        *("--pty", "--rows", "5", "--cols", "6", "--term", "dumb"),
        *("--restart", "on_failure", "--runtime-recovery", "stop"),
        *("--idle-timeout", "2m", "--max-lifetime", "1h", "--stop-grace", "3"),
        *("--readiness", "output", "--ready-output", "R", "--ready-timeout-ms", "7"),
        *("--", "cmd", "--name", "x"),
    )
    assert body == {
        "command": ["cmd", "--name", "x"],
        "name": "n",
        "cwd": "/w",
        "env": {"A": "b=c", "INHERITED": "from us"},
        "io": {"mode": "pty", "terminal": {"rows": 5, "cols": 6, "term": "dumb"}},
        "lifecycle": {
            "restart": {"policy": "on_failure"},
            "runtime_recovery": "stop",
            "idle_timeout_seconds": 120,
            "max_lifetime_seconds": 3600,
            "stop_grace_period_seconds": 3,
        },
        "readiness": {"type": "output", "output": "R", "timeout_ms": 7},
    }
    parse_spec(body)


def test_what_was_not_given_is_left_to_the_daemon(fake: FakeServer, s0d: Run) -> None:
    assert sent(fake, s0d, "--", "true") == {"command": ["true"]}


def test_readiness_is_implied_by_its_parts(fake: FakeServer, s0d: Run) -> None:
    assert sent(fake, s0d, "--ready-output", "R", "--", "x")["readiness"]["type"] == "output"
    assert sent(fake, s0d, "--ready-delay-ms", "5", "--", "x")["readiness"] == {
        "type": "delay",
        "delay_ms": 5,
    }


YAML = """
name: web
command: [sh, -c, "echo hi"]
env:
  PORT: "8080"
lifecycle:
  restart: {policy: always}
"""
SPEC = {
    "name": "web",
    "command": ["sh", "-c", "echo hi"],
    "env": {"PORT": "8080"},
    "lifecycle": {"restart": {"policy": "always"}},
}


@pytest.mark.parametrize("text", [YAML, json.dumps(SPEC)])
def test_a_file_in_yaml_or_json(fake: FakeServer, s0d: Run, tmp_path: Path, text: str) -> None:
    path = tmp_path / "session"
    path.write_text(text)
    assert sent(fake, s0d, "-f", str(path)) == SPEC
    assert sent(fake, s0d, "--spec-file", str(path)) == SPEC


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a: [", "neither JSON nor YAML"),
        (b"\xff\xfe\x00", "neither JSON nor YAML"),
        (b"[1]", "a specification is a mapping"),
        (b"", "a specification is a mapping"),
    ],
)
def test_a_file_that_is_no_specification(
    fake: FakeServer, s0d: Run, tmp_path: Path, content: bytes, message: str
) -> None:
    path = tmp_path / "session"
    path.write_bytes(content)
    done = s0d("session", "create", "-f", str(path))
    assert done.code == 1
    assert done.err.startswith(f"s0d: {path}: {message}")
    assert done.err.count("\n") == 1
    assert fake.requests == []


def test_a_file_that_is_missing(fake: FakeServer, s0d: Run) -> None:
    done = s0d("session", "create", "-f", "/nowhere")
    assert done == Done(1, "", "s0d: /nowhere: No such file or directory\n")


def test_a_yaml_file_cannot_run_python(fake: FakeServer, s0d: Run, tmp_path: Path) -> None:
    path = tmp_path / "session"
    path.write_text("command: !!python/object/apply:os.system ['touch /tmp/owned']")
    assert s0d("session", "create", "-f", str(path)).code == 1
    assert fake.requests == []
