"""The widths of characters, and the short way to the most usual ones."""

from __future__ import annotations

import sys

import pytest
from wcwidth import wcwidth

from s0d.terminal.width import WIDTHS, are_usual


@pytest.mark.parametrize(
    ("char", "width"),
    [("a", 1), ("é", 1), ("漢", 2), ("🔥", 2), ("\u0301", 0), ("\u200d", 0)],
)
def test_a_character_takes_so_many_columns(char: str, width: int) -> None:
    assert WIDTHS[char] == width


def test_what_is_usual_takes_one_column() -> None:
    usual = [char for char in map(chr, range(sys.maxunicode + 1)) if are_usual(char)]
    assert len(usual) > 1000
    assert {wcwidth(char) for char in usual} == {1}


def test_one_unusual_character_makes_a_text_unusual() -> None:
    assert are_usual("naïve │ Ж ש \ufffd")
    for char in ("漢", "\u0301", "\xad", "\u200d"):
        assert not are_usual(f"usual{char}usual")
