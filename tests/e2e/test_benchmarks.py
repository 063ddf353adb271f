"""The benchmarks still run, on amounts too small to say anything."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    not (ROOT / "benchmarks").exists(), reason="only the repository has benchmarks"
)


def test_every_section_gives_figures_and_finds_every_byte(tmp_path: Path) -> None:
    written = tmp_path / "figures.json"
    command = [sys.executable, "-m", "benchmarks", "--runs", "1", "--scale", "0.05"]

    done = subprocess.run(
        [*command, "--json", written],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    figures = {one["name"]: one for one in json.loads(written.read_text())["figures"]}
    assert all(one["value"] >= 0 for one in figures.values())
    assert figures["pipe, 10 SSE readers, sum"]["ratio"] > 0
    assert figures["longest turn of the loop under a flood"]["value"] > 0
    assert set(figures) == {line.split("  ")[0] for line in done.stdout.splitlines()[1:-1]}
