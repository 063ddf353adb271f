"""How long a daemon's event loop goes without a turn: `python -m benchmarks.watchdog FILE serve …`.

The daemon runs with an instrument that times each turn, from the end of one wait for events to the
beginning of the next: as long as a turn takes, nobody else gets one.  The longest lies in a file
that is mapped into memory here and there, so that looking at it costs the daemon nothing.
"""

from __future__ import annotations

import functools
import mmap
import struct
import sys
import time
from pathlib import Path

import trio

_LONGEST = struct.Struct("=dd")


class Watchdog:
    """The mapped file: the longest turn (seconds), and the most CPU time of a turn."""

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(_LONGEST.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), _LONGEST.size)

    @property
    def longest(self) -> tuple[float, float]:
        wall, cpu = _LONGEST.unpack(self._map[:])
        return wall, cpu

    @longest.setter
    def longest(self, both: tuple[float, float]) -> None:
        self._map[:] = _LONGEST.pack(*both)


class _Turns(trio.abc.Instrument):
    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._began = time.perf_counter()
        self._cpu = time.thread_time()

    def after_io_wait(self, timeout: float) -> None:
        self._began = time.perf_counter()
        self._cpu = time.thread_time()

    def before_io_wait(self, timeout: float) -> None:
        wall, cpu = time.perf_counter() - self._began, time.thread_time() - self._cpu
        longest = self._watchdog.longest
        if wall > longest[0] or cpu > longest[1]:
            self._watchdog.longest = max(wall, longest[0]), max(cpu, longest[1])


def main() -> int:
    """`s0d` with the arguments after the file's name, watched."""
    from s0d.cli.main import main as command_line

    turns = _Turns(Watchdog(Path(sys.argv.pop(1))))
    trio.run = functools.partial(trio.run, instruments=[turns])  # type: ignore[assignment]
    return command_line()


if __name__ == "__main__":
    sys.exit(main())
