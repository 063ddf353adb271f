"""Clients of a module's daemon; an environment of one's own, in which a command starts one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.client import Client
from tests.support.daemon import Daemon
from tests.support.leftovers import daemons_in, processes_with, wait_gone
from tests.support.named import Named


@pytest.fixture
def named(shared_daemon: Daemon) -> Named:
    return Named(shared_daemon.socket)


@pytest.fixture
def supervised(shared_daemon: Daemon) -> Client:
    return Client(shared_daemon.socket)


@pytest.fixture
def on_demand(short_dir: Path) -> Iterator[dict[str, str]]:
    """An environment in which no daemon is found; one it started is ended afterwards."""
    (short_dir / "tmp").mkdir()
    ours = {k: v for k, v in os.environ.items() if not k.startswith("S0D_")}
    yield ours | {
        "S0D_STATE_DIR": str(short_dir / "state"),
        "S0D_RUNTIME_DIR": str(short_dir / "run"),
        "TMPDIR": str(short_dir / "tmp"),
    }
    for pid in daemons_in(short_dir):
        os.kill(pid, signal.SIGTERM)
        wait_gone(pid)
    assert processes_with(f"TMPDIR={short_dir / 'tmp'}") == []
