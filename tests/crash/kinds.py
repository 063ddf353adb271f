"""The children that run while the daemon is killed, and what they must have written."""

from __future__ import annotations

import random
from typing import Any, Final

_TICK: Final = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.0%d; done"

# Each counts from 0, a number a line, so that any byte lost, doubled or moved shows.
_SCRIPTS: Final = {
    "tick": _TICK % 2,
    "terminal": "stty raw -echo; " + _TICK % 2,
    "flood": "exec seq 0 1000000000",
    "burst": "seq 0 3000; exec sleep 1000",
    "echo": "exec cat",
    "mortal": "echo 0; echo 1; exit 3",
    # Children that left the session, ignore SIGTERM, and go on making others.
    "brood": "setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 0.01; done' & "
    "(trap '' TERM; setsid sleep 1000) & " + _TICK % 3,
}

WEIGHTS: Final = {
    "tick": 3,
    "terminal": 3,
    "echo": 6,
    "mortal": 1,
    "brood": 2,
    "burst": 1,
    "flood": 1,
}
ONCE: Final = frozenset({"flood", "brood"})  # one at a time: they cost a processor


def make_spec(rng: random.Random, kind: str, name: str) -> dict[str, Any]:
    recovery = "stop" if rng.random() < 0.2 else "restart"
    lifecycle: dict[str, Any] = {"runtime_recovery": recovery, "stop_grace_period_seconds": 1}
    if kind == "mortal":
        lifecycle["restart"] = {
            "policy": "always",
            "initial_backoff_ms": 20,
            "max_backoff_ms": 40,
            "max_restarts": 1000,
        }
    spec: dict[str, Any] = {
        "name": name,
        "command": ["sh", "-c", _SCRIPTS[kind]],
        "cwd": "/",
        "lifecycle": lifecycle,
    }
    if kind == "terminal":
        spec["io"] = {"mode": "pty"}
    if kind == "flood":
        spec["event_retention"] = {"max_bytes": 262_144}
    return spec


def assert_counts(data: bytes, *, from_start: bool) -> None:
    """`data` counts up without a gap; its last line may be cut, its first too where the oldest
    output is not retained any more."""
    # A shell says so when the `sleep` it waits for is ended by a stop; it counts on.
    lines = data.replace(b"\r", b"").replace(b"Terminated\n", b"").split(b"\n")
    last, lines = lines[-1], lines[:-1]
    if from_start:
        assert lines[:1] in ([], [b"0"]), data[:200]
    else:
        lines = lines[1:]
    if not lines:
        return
    first = int(lines[0])
    assert lines == [b"%d" % n for n in range(first, first + len(lines))], data[:2000]
    assert (b"%d" % (first + len(lines))).startswith(last), data[-200:]


COUNTERS: Final = frozenset({"tick", "terminal", "flood", "burst", "mortal", "brood"})
