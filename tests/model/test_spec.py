"""The specification: defaults, bounds, and errors that name the field."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from s0d.model.errors import InvalidRequest
from s0d.model.parse import parse_spec
from s0d.model.spec import DesiredState, IOMode


def spec(**fields: Any) -> Any:
    return parse_spec(json.dumps({"command": ["true"], **fields}).encode())


def test_every_default_is_filled_in() -> None:
    assert msgspec.to_builtins(spec()) == {
        "command": ("true",),
        "env": {},
        "io": {"mode": "pipes"},
        "lifecycle": {
            "desired_state": "running",
            "restart": {
                "policy": "never",
                "max_restarts": 5,
                "window_seconds": 60,
                "initial_backoff_ms": 250,
                "max_backoff_ms": 5000,
            },
            "runtime_recovery": "restart",
            "idle_timeout_seconds": 0,
            "max_lifetime_seconds": 0,
            "stop_grace_period_seconds": 10,
        },
        "readiness": {"type": "process", "timeout_ms": 30000},
        "event_retention": {"max_bytes": 67108864, "max_age_seconds": 86400},
    }


def test_zeros_nulls_and_empty_words_mean_the_default() -> None:
    zeros = spec(
        name=None,
        cwd="",
        env=None,
        io={"mode": "", "terminal": None},
        lifecycle={
            "desired_state": "",
            "restart": {
                "policy": "",
                "max_restarts": 0,
                "window_seconds": 0,
                "initial_backoff_ms": 0,
                "max_backoff_ms": 0,
            },
            "runtime_recovery": None,
            "stop_grace_period_seconds": 0,
        },
        readiness={"type": "", "timeout_ms": 0},
        event_retention={"max_bytes": 0, "max_age_seconds": 0},
    )
    assert zeros == spec()


def test_a_pty_has_a_terminal_and_pipes_drop_it() -> None:
    pty = spec(io={"mode": "pty", "terminal": {"rows": 0, "cols": 100}})
    assert (pty.io.mode, pty.io.terminal.rows, pty.io.terminal.cols) == (IOMode.PTY, 24, 100)
    assert pty.io.terminal.term == "xterm-256color"
    assert spec(io={"mode": "pipes", "terminal": {"rows": 5}}) == spec()


def test_a_defaulted_backoff_gives_way_to_the_one_that_was_meant() -> None:
    short = spec(lifecycle={"restart": {"max_backoff_ms": 100}}).lifecycle.restart
    assert (short.initial_backoff_ms, short.max_backoff_ms) == (100, 100)
    long = spec(lifecycle={"restart": {"initial_backoff_ms": 9000}}).lifecycle.restart
    assert (long.initial_backoff_ms, long.max_backoff_ms) == (9000, 9000)


def test_retention_is_raised_to_its_least() -> None:
    assert spec(event_retention={"max_bytes": 1}).event_retention.max_bytes == 262144


def test_the_name_is_trimmed() -> None:
    assert spec(name="  web ").name == "web"
    assert spec(name="   ").name is msgspec.UNSET


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"command": []}, "command"),
        ({"command": None}, "command"),
        ({"command": "true"}, "command"),
        ({"command": [" "]}, "command[0]"),
        ({"command": ["a", "b\0"]}, "command[1]"),
        ({"command": ["a"] * 4097}, "command"),
        ({"command": ["a" * (1 << 20)]}, "command"),
        ({"name": "x" * 256}, "name"),
        ({"name": "é" * 128}, "name"),
        ({"cwd": "/tmp\0"}, "cwd"),
        ({"env": {"": "x"}}, "env"),
        ({"env": {"A=B": "x"}}, "env"),
        ({"env": {"A\0": "x"}}, "env"),
        ({"env": {"A": "x\0"}}, "env.A"),
        ({"env": {"A": None}}, "env"),
        ({"io": {"mode": "tty"}}, "io.mode"),
        ({"io": {"mode": "pty", "terminal": {"rows": 65536}}}, "io.terminal.rows"),
        ({"io": {"mode": "pty", "terminal": {"cols": -1}}}, "io.terminal.cols"),
        ({"lifecycle": {"desired_state": "paused"}}, "lifecycle.desired_state"),
        ({"lifecycle": {"restart": {"policy": "sometimes"}}}, "lifecycle.restart.policy"),
        ({"lifecycle": {"restart": {"max_restarts": -1}}}, "lifecycle.restart.max_restarts"),
        ({"lifecycle": {"restart": {"window_seconds": 2**31}}}, "lifecycle.restart.window_seconds"),
        (
            {"lifecycle": {"restart": {"initial_backoff_ms": 500, "max_backoff_ms": 100}}},
            "lifecycle.restart.max_backoff_ms",
        ),
        ({"lifecycle": {"runtime_recovery": "retry"}}, "lifecycle.runtime_recovery"),
        ({"lifecycle": {"idle_timeout_seconds": -1}}, "lifecycle.idle_timeout_seconds"),
        ({"lifecycle": {"max_lifetime_seconds": 1.5}}, "lifecycle.max_lifetime_seconds"),
        ({"readiness": {"type": "http"}}, "readiness.type"),
        ({"readiness": {"type": "output"}}, "readiness.output"),
        ({"readiness": {"type": "output", "output": "x" * 65537}}, "readiness.output"),
        ({"readiness": {"type": "delay", "delay_ms": 30000}}, "readiness.delay_ms"),
        ({"event_retention": {"max_bytes": 2**53}}, "event_retention.max_bytes"),
        ({"event_retention": {"max_age_seconds": "day"}}, "event_retention.max_age_seconds"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        spec(**fields)
    assert caught.value.message.startswith(path)


@pytest.mark.parametrize(
    "fields",
    [
        {"comand": ["x"]},
        {"io": {"tty": True}},
        {"lifecycle": {"restarts": {}}},
        {"lifecycle": {"restart": {"max": 1}}},
        {"readiness": {"delay": 1}},
        {"event_retention": {"days": 1}},
    ],
)
def test_a_misspelt_field_is_never_ignored(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="unknown field"):
        spec(**fields)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'{"command":["a"]} x', b"\xff", b'{"command":["\\ud800"]}'],
)
def test_what_is_no_specification_is_refused(body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        parse_spec(body)


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=5))
def test_nothing_but_a_documented_error_comes_of_any_value(value: Any) -> None:
    for field in ("command", "name", "env", "io", "lifecycle", "readiness", "event_retention"):
        try:
            parse_spec(json.dumps({"command": ["a"], field: value}).encode())
        except InvalidRequest:
            continue


def test_a_normal_form_is_its_own_normal_form() -> None:
    full = spec(
        name="n",
        cwd="/tmp",
        env={"A": "1"},
        io={"mode": "pty", "terminal": {"rows": 3}},
        lifecycle={"restart": {"policy": "always"}, "idle_timeout_seconds": 5},
        readiness={"type": "output", "output": "READY"},
    )
    assert parse_spec(msgspec.json.encode(full)) == full


def test_what_runs_is_told_from_how_it_is_kept() -> None:
    base = spec(cwd="/root")
    assert base.runs_the_same(spec(), "/root")
    assert not base.runs_the_same(spec(), "/tmp")
    assert base.runs_the_same(base.with_desired_state(DesiredState.STOPPED), "/")
    assert not base.runs_the_same(spec(cwd="/root", env={"A": "1"}), "/")
    assert not base.runs_the_same(spec(cwd="/root", readiness={"timeout_ms": 5}), "/")


def test_limits_and_the_stop_signal_are_extensions_that_are_left_out_when_unset() -> None:
    assert "limits" not in json.loads(msgspec.json.encode(spec(limits={}, stop_signal="")))
    full = spec(
        stop_signal="int", limits={"memory_max_bytes": 1, "cpu_max": 0.5, "core": 0, "nofile": 0}
    )
    assert json.loads(msgspec.json.encode(full))["stop_signal"] == "SIGINT"
    assert json.loads(msgspec.json.encode(full))["limits"] == {
        "memory_max_bytes": 1,
        "cpu_max": 0.5,
        "core": 0,
    }
    assert not full.runs_the_same(spec(), "/"), "other limits are another process"
    assert spec(stop_signal="INT").runs_the_same(spec(), "/")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"stop_signal": "NOPE"}, "stop_signal"),
        ({"limits": {"cpu_max": 0.001}}, "limits.cpu_max"),
        ({"limits": {"cpu_max": -1}}, "limits.cpu_max"),
        ({"limits": {"pids_max": -1}}, "limits.pids_max"),
        ({"limits": {"memory": 1}}, "limits"),
    ],
)
def test_bad_limits_are_refused_by_their_path(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        spec(**fields)
    assert caught.value.message.startswith(path)
