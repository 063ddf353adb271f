"""Fixtures of the API's tests."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.api.fake import FakeSupervisor, fake_supervisor
from tests.api.harness import Served, serving


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[FakeSupervisor]:
    with fake_supervisor(tmp_path) as made:
        yield made


@pytest.fixture
async def served(supervisor: FakeSupervisor, short_dir: Path) -> AsyncIterator[Served]:
    """The API on the fake supervisor, with the defaults."""
    async with serving(supervisor, short_dir) as running:
        yield running
