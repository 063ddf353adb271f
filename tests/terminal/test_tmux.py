"""The cases of ``test_screen`` and generated streams, against a tmux that runs here and now."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings

from s0d.terminal import Screen
from tests.terminal.streams import common
from tests.terminal.test_golden import RECORDINGS, size_of
from tests.terminal.test_screen import CASES, COLS, ROWS, shown
from tests.terminal.tmux import PATH, Server, pane_of, pane_shown

pytestmark = pytest.mark.skipif(PATH is None, reason="tmux is not installed")

OTHERWISE = {
    "CHA, HPA, HPR, VPA, VPR": "it has no HPR",
    "CHT and CBT": "it has no CHT",
    "DECST8C (DEC STD 070)": "it has none",
    "CUB after the last column counts from it": "it counts from beyond the last column",
    "reverse wraparound (ctlseqs, mode 45)": "it has none",
    "DECSED and DECSEL without protection": "it has none",
    "IL": "the cursor keeps its column",
    "DL": "the cursor keeps its column",
    "REP wraps": "REP stays in the line",
    "LNM": "it has none",
    "SD with five parameters is mouse tracking": "it takes the first for SD",
    "mode 1048": "it has none",
    "DECRC restores the pending wrap": "the cursor is in the last column",
    "47 keeps what was there": "it clears on entering",
    "each screen has its own saved cursor": "there is one for both",
    "DECSTR keeps text and cursor": "the character set stays",
    "SS2 is for one character": "it has none",
    "LS2 and LS3": "it has none",
    "a designation that is unknown is ASCII": "the set before stays",
    "writing on the right half blanks the left": "the left half stays whole",
    "erasing half of it blanks the other": "the left half stays whole",
    "deleting half of it": "the left half stays whole",
    "inserting in the middle of it": "the left half stays whole",
    "a mark on the last column": "it joins the character before that",
    "a joiner after ASCII joins nothing": "it drops the joiner",
    "nor does it join what is not ASCII": "it drops the joiner",
    "a wide one over two halves": "the left half stays whole",
    "OSC ended by C1 ST": "it has no C1 controls",
    "C1 controls in UTF-8 (ctlseqs)": "it has no C1 controls",
    "huge parameters": "they make the sequence void",
}
"""Where tmux (3.3a) does something else than the source named in the case, and what."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with tempfile.TemporaryDirectory(prefix="s0d-") as directory:
        server = Server(Path(directory))
        yield server
        server.close()


@pytest.mark.parametrize("name", CASES)
def test_tmux_agrees(server: Server, name: str) -> None:
    if name in OTHERWISE:
        pytest.skip(f"tmux: {OTHERWISE[name]}")
    data = CASES[name][0]
    theirs = pane_of(server.capture(data.encode(), ROWS, COLS), COLS)
    ours = pane_shown(shown(data))
    assert (ours.text(), ours.cursor) == (theirs.text(), theirs.cursor)


@given(common)
@settings(max_examples=15, deadline=None, derandomize=True)
def test_tmux_agrees_on_what_is_common(server: Server, data: str) -> None:
    """The same streams each time: in others tmux now and then does what `OTHERWISE` says."""
    # Text and cursor: about the background of what is blank terminals differ.
    theirs = pane_of(server.capture(data.encode(), 8, 22), 22)
    ours = pane_shown(shown(data, 8, 22))
    assert (ours.text(), ours.cursor) == (theirs.text(), theirs.cursor)


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
def test_tmux_shows_the_same_after_a_repaint(server: Server, recording: Path) -> None:
    """A repaint must bring any terminal to the same state, not only one of ours."""
    rows, cols = size_of(recording)
    screen = Screen(rows, cols)
    screen.feed(recording.read_bytes())
    theirs = pane_of(server.capture(screen.repaint(scrollback=100), rows, cols), cols)
    assert pane_shown(screen) == theirs
