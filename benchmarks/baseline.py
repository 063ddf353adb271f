"""The same work without a daemon, as near to the machine as it gets."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import islice
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
    return list(islice(_round_trips(), count))


def socket_echo_beside(command: Sequence[str], directory: Path) -> list[float]:
    """The same for as long as `cat` needs to put a command's output into a file."""
    over = threading.Event()

    def drain() -> None:
        pipe_to_file(command, directory)
        over.set()

    thread = threading.Thread(target=drain)
    thread.start()
    times = []
    for taken in _round_trips():
        times.append(taken)
        if over.wait(0.001):  # as seldom as a daemon answers
            break
    thread.join()
    return times


def _round_trips() -> Iterator[float]:
    near, far = socket.socketpair()

    def echo() -> None:
        while data := far.recv(4096):
            far.sendall(data)

    thread = threading.Thread(target=echo)
    thread.start()
    try:
        while True:
            began = time.perf_counter()
            near.sendall(b"0000000\n")
            near.recv(4096)
            yield time.perf_counter() - began
    finally:
        near.close()
        thread.join()
        far.close()


def synced_appends(count: int, directory: Path, name: str = "appended") -> float:
    """Seconds for so many appends of 100 bytes, each made durable."""
    with (directory / name).open("wb", buffering=0) as file:
        began = time.perf_counter()
        for _ in range(count):
            file.write(bytes(100))
            os.fdatasync(file.fileno())
        return time.perf_counter() - began


def synced_side_by_side(count: int, files: int, directory: Path) -> float:
    """The same to each of so many files, in as many threads."""
    threads = [
        threading.Thread(target=synced_appends, args=(count, directory, f"appended-{number}"))
        for number in range(files)
    ]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
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


def interpreter(*arguments: str) -> float:
    """Seconds that a Python takes from its start to its end."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True)
    return time.perf_counter() - began


def resident(program: str) -> float:
    """MB of a Python that has run a program."""
    look = "print(open('/proc/self/statm').read().split()[1])"
    command = [sys.executable, "-c", f"{program}\n{look}"]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return int(done.stdout) * os.sysconf("SC_PAGE_SIZE") / 1e6
