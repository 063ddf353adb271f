"""The same work without a daemon, as near to the machine as it gets."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path


def pipe_to_file(command: Sequence[str], directory: Path) -> float:
    """Seconds until `cat` has put a command's output into a file."""
    began = time.perf_counter()
    with (directory / "raw").open("wb") as file:
        source = subprocess.Popen(command, stdout=subprocess.PIPE)
        subprocess.run(["cat"], stdin=source.stdout, stdout=file, check=True)
        source.wait()
    return time.perf_counter() - began


def terminal_to_file(command: Sequence[str], directory: Path) -> float:
    """The same through a terminal."""
    master, slave = os.openpty()
    began = time.perf_counter()
    with (directory / "raw").open("wb") as file:
        source = subprocess.Popen(command, stdin=slave, stdout=slave)
        os.close(slave)
        # EIO at the end of a terminal makes `cat` fail, after everything was read.
        subprocess.run(["cat"], stdin=master, stdout=file, stderr=subprocess.DEVNULL, check=False)
        source.wait()
    os.close(master)
    return time.perf_counter() - began


def socket_echo(count: int) -> list[float]:
    """Seconds of each of so many round trips on a Unix socket, with a thread at the other end."""
    near, far = socket.socketpair()

    def echo() -> None:
        while data := far.recv(4096):
            far.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    times = []
    for _ in range(count):
        began = time.perf_counter()
        near.sendall(b"0000000\n")
        near.recv(4096)
        times.append(time.perf_counter() - began)
    near.close()
    thread.join()
    far.close()
    return times


def synced_appends(count: int, directory: Path) -> float:
    """Seconds for so many appends of 100 bytes, each made durable."""
    with (directory / "appended").open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(count):
            file.write(bytes(100))
            os.fdatasync(file.fileno())
        return time.perf_counter() - began


def synced_renames(count: int, directory: Path) -> float:
    """Seconds for so many small files: written, synced, renamed, the directory synced."""
    with tempfile.TemporaryDirectory(dir=directory) as made:
        names = os.open(made, os.O_RDONLY)
        began = time.perf_counter()
        for number in range(count):
            temporary = Path(made, "new")
            with temporary.open("wb", buffering=0) as file:
                file.write(bytes(100))
                os.fsync(file.fileno())
            temporary.rename(Path(made, str(number)))
            os.fsync(names)
        taken = time.perf_counter() - began
        os.close(names)
    return taken
