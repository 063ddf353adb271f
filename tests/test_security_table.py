"""docs/security.md: every row names tests, and each of them is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
THREATS = (
    "DNS rebinding", "cross-site", "token guessing", "escape from a scope", "state directory",
    "escape sequences", "storm of forks", "descriptors used up", "slow-loris", "oversized",
    "header injection", "log injection",
)  # fmt: skip


def rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "security.md").read_text().splitlines()
    cells = [[c.strip() for c in line.strip("|").split("|")] for line in lines if line[:1] == "|"]
    return cells[2:]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:40])
def test_the_tests_of_a_row_are_there(row: list[str]) -> None:
    threat, defence, shown = row
    assert threat
    assert defence
    named = re.findall(r"`(tests/[^:`]+)::(\w+)`", shown)
    assert named
    for path, name in named:
        tree = ast.parse((ROOT / path).read_text())
        functions = {
            node.name
            for node in tree.body
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in functions, f"{path}::{name}"


def test_every_threat_that_must_have_a_row_has_one() -> None:
    text = " ".join(row[0] for row in rows())
    assert [threat for threat in THREATS if threat not in text] == []
