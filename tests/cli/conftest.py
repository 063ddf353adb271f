"""A fake daemon, and the command line run in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from s0d.cli.main import main
from tests.cli.fake import FakeServer


class Done(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def fake(short_dir: Path) -> Iterator[FakeServer]:
    server = FakeServer(short_dir / "fake.sock")
    yield server
    server.close()


@pytest.fixture
def s0d(
    fake: FakeServer, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Done]:
    """Runs `s0d ARGUMENTS` against the fake daemon."""
    monkeypatch.setenv("S0D_URL", fake.url)
    monkeypatch.delenv("S0D_TOKEN", raising=False)

    def run(*arguments: str) -> Done:
        code = main(list(arguments))
        return Done(code, *capfd.readouterr())

    return run
