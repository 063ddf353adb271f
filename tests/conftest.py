"""What every test may use: `--long`, and a real daemon."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="run soaks and long fuzzers too")


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


@pytest.fixture
def make_daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Daemon]]:
    """Makes daemons (not started yet); at the end each must stop in order and leave nothing."""
    made: list[tuple[Daemon, tempfile.TemporaryDirectory[str]]] = []

    def make(*arguments: str, **options: object) -> Daemon:
        directory = tempfile.TemporaryDirectory(prefix="s0d-")
        daemon = Daemon(Path(directory.name), *arguments, **options)  # type: ignore[arg-type]
        made.append((daemon, directory))
        return daemon

    yield make
    for daemon, directory in made:
        try:
            assert daemon.stop() == 0, daemon.log_file.read_text()[-4000:]
            daemon.assert_nothing_left()
        finally:
            daemon.kill()
            directory.cleanup()


@pytest.fixture
def daemon(make_daemon: Callable[..., Daemon]) -> Daemon:
    """A daemon that serves."""
    daemon = make_daemon()
    daemon.start()
    return daemon
