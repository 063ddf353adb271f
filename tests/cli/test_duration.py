"""Durations as flags take them."""

from __future__ import annotations

import click
import pytest

from s0d.cli.duration import SECONDS


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("30", 30), ("30s", 30), ("5m", 300), ("2h", 7200), ("7d", 604_800), (" 1m ", 60)],
)
def test_good_ones(text: str, seconds: int) -> None:
    assert SECONDS.convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "s", "-1", "1.5", "1w", "1m30s", "٣", "1" * 11])
def test_bad_ones(text: str) -> None:
    with pytest.raises(click.BadParameter):
        SECONDS.convert(text, None, None)
