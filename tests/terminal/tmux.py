"""tmux as a second opinion: what its pane shows after the same bytes."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

from s0d.terminal import Screen
from s0d.terminal.snapshot import Runs

PATH = shutil.which("tmux")


class Pane(NamedTuple):
    """A pane's rows, as runs, and its cursor (row, column, alternate screen or not)."""

    lines: tuple[Runs, ...]
    cursor: tuple[int, int, bool]

    def text(self) -> list[str]:
        """The rows as text, without the blanks at the end."""
        return ["".join(run.text for run in line).rstrip() for line in self.lines]


class Server:
    """A private tmux server in ``directory``, with nobody attached."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._socket = directory / "tmux"
        self._names = itertools.count()
        self._tmux("new-session", "-d", "-s", "keep", "cat", ";", "set", "-g", "status", "off")

    def close(self) -> None:
        """End the server and all its panes."""
        self._tmux("kill-server")

    def capture(self, data: bytes, rows: int, cols: int) -> bytes:
        """Cursor and contents of a pane of that size after ``data``, in tmux's own words."""
        name = f"p{next(self._names)}"
        source = self._directory / name
        source.write_bytes(data)
        done = f"{PATH} -S {self._socket} wait-for -S {name}"
        script = f"stty raw -echo; cat {source}; {done}; exec cat >/dev/null"
        size = ("-x", str(cols), "-y", str(rows))
        self._tmux("new-session", "-d", "-s", name, *size, script)
        # The pane's output and the signal come by two ways: the cursor is asked for until the
        # pane has nothing more to say, which is when two answers agree.
        self._tmux("wait-for", name)
        seen = self._look(name)
        while (again := self._look(name)) != seen:
            seen = again
        self._tmux("kill-session", "-t", name)
        source.unlink()
        return seen

    def _look(self, name: str) -> bytes:
        place = "#{cursor_y} #{cursor_x} #{alternate_on}"
        cursor = self._tmux("display-message", "-t", name, "-p", place)
        return cursor + self._tmux("capture-pane", "-t", name, "-e", "-p", "-N")

    def _tmux(self, *arguments: str) -> bytes:
        assert PATH is not None
        command = [PATH, "-S", str(self._socket), "-f", "/dev/null", "-u", *arguments]
        environment = os.environ | {"LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        environment.pop("TMUX", None)
        done = subprocess.run(command, env=environment, capture_output=True, timeout=30, check=True)
        return done.stdout


def pane_of(captured: bytes, cols: int) -> Pane:
    """What ``Server.capture`` returned, read."""
    head, _, body = captured.partition(b"\n")
    row, column, alternate = (int(word) for word in head.split())
    lines = body.split(b"\n")[:-1]
    screen = Screen(len(lines), cols)
    # tmux writes line drawing as SO and SI, attributes go on across lines; and a line that ends in
    # the last column is followed by a wrap that must not count.
    screen.feed(b"\x1b)0\x1b[?7l" + b"\r\n".join(lines))
    # With the wrap pending tmux has the cursor beyond the last column.
    return Pane(screen.snapshot().lines, (row, min(column, cols - 1), bool(alternate)))


def pane_shown(screen: Screen) -> Pane:
    """The same of a screen of ours."""
    snapshot = screen.snapshot()
    return Pane(snapshot.lines, (snapshot.cursor.row, snapshot.cursor.col, snapshot.alternate))
