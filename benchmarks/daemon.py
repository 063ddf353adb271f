"""The daemon under test: a process of its own on a state directory of its own."""

from __future__ import annotations

import array
import fcntl
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

from .client import TOKEN, Client

_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")
_PATIENCE = 60.0
_LOOKS = 0.002
_GET_FLAGS, _SET_FLAGS, _TOP_OF_HIERARCHY = 0x80086601, 0x40086602, 0x20000  # linux/fs.h


def _spread(directory: str) -> None:
    """Have ext4 put what is made in a directory elsewhere on the disk (chattr(1), T).

    Where it has no journal it looks in a directory's own part for an inode that was not freed in
    the last minutes, one after the other: after a run that left thousands, creations took twice
    as long.  Other file systems refuse, and need nothing of the kind.
    """
    fd = os.open(directory, os.O_RDONLY)
    try:
        flags = array.array("l", [0])
        fcntl.ioctl(fd, _GET_FLAGS, flags)
        flags[0] |= _TOP_OF_HIERARCHY
        fcntl.ioctl(fd, _SET_FLAGS, flags)
    except OSError:
        pass
    finally:
        os.close(fd)


class Daemon:
    """`s0d serve` on a Unix socket; a context manager.

    Raises `RuntimeError` where it cannot serve.
    """

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="s0d-bench-")
        directory = Path(self._directory.name)
        self.path = directory / directory.name  # its hash says where: each time another one
        _spread(self._directory.name)
        self.path.mkdir()
        self.address = self.path / "api.sock"
        self.turns = self.path / "turns"
        """What a daemon that is watched tells its `Watchdog`."""
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
        self._directory.cleanup()

    def start(self, *, watched: bool = False) -> float:
        """Start it; seconds until the first answer, which is the list of all sessions."""
        reading, writing = os.pipe()
        program = ["benchmarks.watchdog", str(self.turns)] if watched else ["s0d"]
        command = [sys.executable, "-m", *program]
        command += ["serve", "--state-dir", str(self.path / "state")]
        command += ["--listen", f"unix:{self.address}", "--ready-fd", str(writing)]
        began = time.perf_counter()
        with (self.path / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, stderr=log, pass_fds=[writing], env={**os.environ, "S0D_TOKEN": TOKEN}
            )
        os.close(writing)
        try:
            if os.read(reading, 1) != b"\n":
                raise RuntimeError((self.path / "log").read_text())
        finally:
            os.close(reading)
        with self.client() as client:
            client.call("GET")
        return time.perf_counter() - began

    def stop(self, by: signal.Signals = signal.SIGTERM) -> float:
        """The orderly end, or by another signal; seconds."""
        assert self._process is not None
        began = time.perf_counter()
        if self._process.poll() is None:
            self._process.send_signal(by)
        self._process.wait(_PATIENCE)
        return time.perf_counter() - began

    def client(self) -> Client:
        """A new connection."""
        return Client(str(self.address))

    @property
    def cpu(self) -> float:
        """Seconds of CPU time so far (proc(5), utime and stime)."""
        text = (self._proc / "stat").read_text()
        fields = text.rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    @property
    def resident(self) -> float:
        """Resident memory in MB."""
        return int((self._proc / "statm").read_text().split()[1]) * _PAGE / 1e6

    @contextmanager
    def peak(self) -> Iterator[list[float]]:
        """A list whose one item is, in the end, the most memory that was resident inside (MB)."""
        most = [self.resident]
        over = threading.Event()

        def look() -> None:
            while not over.wait(_LOOKS):
                most[0] = max(most[0], self.resident)

        looker = threading.Thread(target=look)
        looker.start()
        try:
            yield most
        finally:
            over.set()
            looker.join()

    @property
    def _proc(self) -> Path:
        assert self._process is not None
        return Path(f"/proc/{self._process.pid}")
