"""What every test may use: `--long`, and a real daemon."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.support.daemon import Daemon
from tests.support.zygote import borrowed

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


# They take minutes, each in one file: begun last, one process would have nothing beside them.
_LONGEST: Final = ("test_schemathesis.py", "test_crash.py", "test_model.py")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: item.path.name not in _LONGEST)
    if config.getoption("--long"):
        return
    skip = pytest.mark.skip(reason="a long one: run with --long")
    for item in items:
        if "long" in item.keywords:
            item.add_marker(skip)


def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Two where everything is to be run; what is named runs in this process, one after the other.

    Half of the time is waiting: for grace periods, silence, ticks.
    """
    return 2 if config.args_source is pytest.Config.ArgsSource.TESTPATHS else 0


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name (107 bytes, unix(7))."""
    with tempfile.TemporaryDirectory(prefix="s0d-") as directory:
        yield Path(directory)


@contextmanager
def daemons(*, forked: bool = True) -> Iterator[Callable[..., Daemon]]:
    """Makes daemons (not started yet); at the end each must stop in order and leave nothing.

    Unless `forked`, each runs the program from its command line on, which takes half a second.
    """
    with ExitStack() as stack:

        def make(*arguments: str, env: Mapping[str, str] | None = None) -> Daemon:
            zygote = stack.enter_context(borrowed()) if forked else None
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="s0d-")))
            daemon = Daemon(directory, *arguments, env=env, zygote=zygote)
            stack.callback(_end, daemon)
            return daemon

        yield make


def _end(daemon: Daemon) -> None:
    try:
        assert daemon.stop() == 0, daemon.log_file.read_text()[-4000:]
        daemon.assert_nothing_left()
    finally:
        daemon.kill()
        daemon.end_leftovers()


@pytest.fixture
def make_daemon() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons for one test."""
    with daemons() as make:
        yield make


@pytest.fixture
def make_program() -> Iterator[Callable[..., Daemon]]:
    """Makes daemons for one test that is about the start of the program, too."""
    with daemons(forked=False) as make:
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
