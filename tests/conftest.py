"""What every test may use: `--long`, and a real daemon."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.daemon import Daemon

_MEMORY: Final = "/dev/shm"
_ROOM: Final = 4 << 30  # bytes: floods of 256 MiB, several at once


def _use_memory() -> None:
    """Put temporary files into memory where there is room for them.

    The tests are about what is done, not about how long this machine's disk takes for it: most of
    their time would be spent in fsync.  What a disk may lose has its own (tests/journal/disks.py).
    """
    if "TMPDIR" in os.environ or not os.access(_MEMORY, os.W_OK | os.X_OK):
        return
    found = os.statvfs(_MEMORY)
    if found.f_bavail * found.f_frsize >= _ROOM and not found.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = _MEMORY
        tempfile.tempdir = None


_use_memory()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run soaks and long fuzzers too")
    parser.addoption("--crash-seed", metavar="SEED", help="repeat a crash test's decisions")
    parser.addoption("--crash-rounds", type=int, metavar="N", help="how often to kill the daemon")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="a long one: run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name (107 bytes, unix(7))."""
    with tempfile.TemporaryDirectory(prefix="s0d-") as directory:
        yield Path(directory)


Made = list[tuple[Daemon, tempfile.TemporaryDirectory[str]]]


@contextmanager
def daemons() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons (not started yet); at the end each must stop in order and leave nothing."""
    made: Made = []

    def make(*arguments: str, env: Mapping[str, str] | None = None) -> Daemon:
        directory = tempfile.TemporaryDirectory(prefix="s0d-")
        daemon = Daemon(Path(directory.name), *arguments, env=env)
        made.append((daemon, directory))
        return daemon

    try:
        yield make
    finally:
        _end(made)


def _end(made: Made) -> None:
    for daemon, directory in made:
        try:
            assert daemon.stop() == 0, daemon.log_file.read_text()[-4000:]
            daemon.assert_nothing_left()
        finally:
            daemon.kill()
            daemon.end_leftovers()
            directory.cleanup()


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons for one test."""
    with daemons() as make:
        yield make


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon that serves, for one test that may do anything to it."""
    daemon = make_daemon()
    daemon.start()
    return daemon


@pytest.fixture(scope="module")
def shared_daemon() -> Iterator[Daemon]:
    """A daemon that serves, for all tests of a module: they leave it running."""
    with daemons() as make:
        daemon = make()
        daemon.start()
        yield daemon
