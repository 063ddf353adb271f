"""Real programs' output, against what tmux shows of the same bytes (``record.py`` made both)."""

from __future__ import annotations

from pathlib import Path

import pytest

from s0d.terminal import Screen
from tests.terminal.tmux import pane_of, pane_shown

GOLDEN = Path(__file__).parent.parent / "golden" / "terminal"
RECORDINGS = sorted(GOLDEN.glob("*.bin"))


def size_of(recording: Path) -> tuple[int, int]:
    rows, cols = recording.stem.rpartition("-")[2].split("x")
    return int(rows), int(cols)


@pytest.fixture(params=RECORDINGS, ids=lambda path: path.stem)
def recording(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_are_recordings() -> None:
    assert len(RECORDINGS) >= 20


def test_a_recording_shows_what_tmux_shows(recording: Path) -> None:
    screen = Screen(*size_of(recording))
    screen.feed(recording.read_bytes())
    theirs = pane_of(recording.with_suffix(".tmux").read_bytes(), size_of(recording)[1])
    ours = pane_shown(screen)
    assert ours.text() == theirs.text()
    assert ours == theirs


@pytest.mark.parametrize("size", [1, 7, 64])
def test_a_recording_in_pieces_shows_the_same(recording: Path, size: int) -> None:
    data = recording.read_bytes()
    whole, pieces = Screen(*size_of(recording)), Screen(*size_of(recording))
    whole.feed(data)
    for at in range(0, len(data), size):
        pieces.feed(data[at : at + size])
    assert pieces.snapshot(1000) == whole.snapshot(1000)


def test_a_recording_can_be_repainted_at_any_moment(recording: Path) -> None:
    data = recording.read_bytes()
    for share in range(1, 8):
        original, again = Screen(*size_of(recording)), Screen(*size_of(recording))
        at = len(data) * share // 7
        original.feed(data[:at])
        again.feed(original.repaint(scrollback=1000))
        for screen in (original, again):
            screen.feed(data[at:])
        assert again.snapshot(1000) == original.snapshot(1000)


def test_a_recording_caught_up_with_shows_the_same(recording: Path) -> None:
    whole, skimmed = (Screen(*size_of(recording), scrollback=5) for _ in range(2))
    data = recording.read_bytes()
    whole.feed(data)
    for _ in skimmed.catch_up(data):
        pass
    assert skimmed.snapshot(1000) == whole.snapshot(1000)
