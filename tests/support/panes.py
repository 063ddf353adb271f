"""Terminals that a test drives as a person would: panes of a private tmux."""

from __future__ import annotations

import itertools
import os
import re
import select
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

TMUX: Final = shutil.which("tmux")
PROMPT: Final = "outer$"
PATIENCE: Final = 20.0


class Panes:
    """A tmux server in `directory`; `close` ends it with all its panes."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.directory = directory
        self._socket = directory / "tmux"
        self._environment = {**environment, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        self._environment.pop("TMUX", None)
        self._names = itertools.count()
        self.tmux("new-session", "-d", "-s", "keep", "cat", ";", "set", "-g", "status", "off")

    def close(self) -> None:
        self.tmux("kill-server")

    def open(self, rows: int = 24, cols: int = 80) -> Pane:
        """A pane with a shell that shows `PROMPT`."""
        name = f"p{next(self._names)}"
        fifo = self.directory / f"{name}.fifo"
        os.mkfifo(fifo)
        pane = Pane(self, name, os.open(fifo, os.O_RDONLY | os.O_NONBLOCK))
        size = ("-x", str(cols), "-y", str(rows))
        shell = f"PS1='{PROMPT} ' exec bash --norc --noprofile -i"
        self.tmux("new-session", "-d", "-s", name, *size, shell)
        self.tmux("set", "-t", name, "window-size", "manual")
        self.tmux("pipe-pane", "-t", name, "-O", f"exec cat >{shlex.quote(str(fifo))}")
        pane.sees(rf"{re.escape(PROMPT)} $")
        return pane

    def tmux(self, *arguments: str) -> str:
        assert TMUX is not None
        command = [TMUX, "-S", str(self._socket), "-f", "/dev/null", "-u", *arguments]
        done = subprocess.run(
            command, env=self._environment, capture_output=True, timeout=30, text=True
        )
        assert done.returncode == 0, (arguments, done.stderr)
        return done.stdout


class Pane:
    """One terminal; `name` is tmux's."""

    def __init__(self, panes: Panes, name: str, output: int) -> None:
        self.name = name
        self._panes = panes
        self._output = output

    def press(self, *keys: str) -> None:
        """Keys by their names in tmux, and texts."""
        self._panes.tmux("send-keys", "-t", self.name, *keys)

    def type(self, text: str) -> None:
        self._panes.tmux("send-keys", "-t", self.name, "-l", text)

    def run(self, command: str) -> None:
        """Type a command line."""
        self.type(command)
        self.press("Enter")

    def text(self) -> str:
        return self._panes.tmux("capture-pane", "-t", self.name, "-p", "-N").rstrip("\n")

    def history(self) -> str:
        """With what has scrolled off."""
        return self._panes.tmux("capture-pane", "-t", self.name, "-p", "-S", "-")

    def resize(self, rows: int, cols: int) -> None:
        self._panes.tmux("resize-window", "-t", self.name, "-x", str(cols), "-y", str(rows))

    def state(self) -> dict[str, str]:
        """What a program may leave behind: the alternate screen, mouse, keys, a hidden cursor."""
        names = ("alternate_on", "mouse_any_flag", "keypad_cursor_flag", "cursor_flag")
        got = self._panes.tmux(
            "display-message", "-t", self.name, "-p", " ".join(f"#{{{name}}}" for name in names)
        )
        return dict(zip(names, got.split(), strict=True))

    def pid_of(self, program: str) -> int:
        """The newest process below the pane's shell whose command line holds `program`."""
        shell = self._panes.tmux("display-message", "-t", self.name, "-p", "#{pane_pid}").strip()
        children = Path(f"/proc/{shell}/task/{shell}/children").read_text().split()
        for pid in reversed(children):
            if program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        raise AssertionError(f"no {program} in {self.name}")

    def sees(self, regex: str) -> str:
        """Wait until the screen's text matches; each output of the pane is a reason to look."""
        deadline = time.monotonic() + PATIENCE
        while True:
            text = "\n".join(line.rstrip() + " " for line in self.text().split("\n")).rstrip("\n")
            if re.search(regex, text, re.MULTILINE):
                return text
            left = deadline - time.monotonic()
            assert left > 0, f"{regex!r} is not on the screen:\n{text}"
            readable, _, _ = select.select([self._output], [], [], min(left, 0.5))
            if readable:
                os.read(self._output, 1 << 20)
