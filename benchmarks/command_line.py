"""The section about the command line: how long a command takes that asks one thing."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from . import baseline
from .client import TOKEN
from .daemon import Daemon
from .figure import Figure

_TIMES = 9


def command_line(daemon: Daemon, scale: float) -> list[Figure]:
    """`s0d --version`, and `s0d session list` of ten sessions."""
    with daemon.client() as client:
        made = [client.create(["sleep", "1000"]) for _ in range(10)]
    raw = statistics.median([baseline.interpreter("-c", "pass") for _ in range(_TIMES)]) * 1e3
    return [
        Figure("s0d --version", _median_ms(daemon, ["--version"], ["s0d "]), "ms", raw),
        Figure("s0d session list", _median_ms(daemon, ["session", "list"], made), "ms", raw),
    ]


def _median_ms(daemon: Daemon, arguments: list[str], expected: list[str]) -> float:
    script = Path(sys.executable).with_name("s0d")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "s0d"]
    environment = {**os.environ, "S0D_URL": f"unix:{daemon.address}", "S0D_TOKEN": TOKEN}
    times = []
    for _ in range(_TIMES):
        began = time.perf_counter()
        done = subprocess.run(
            [*command, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=False
        )
        times.append(time.perf_counter() - began)
        if done.returncode or not all(word in done.stdout for word in expected):
            raise RuntimeError(f"s0d {' '.join(arguments)}: {done.returncode} {done.stdout!r}")
    return statistics.median(times) * 1e3
