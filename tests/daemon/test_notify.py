"""What systemd and clients are told, on real sockets and pipes."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from s0d.daemon.notify import Notifier
from tests.support.daemon import Daemon

PATIENCE = 20.0


@contextmanager
def listening(name: str) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if name.startswith("@") else name)
        listener.settimeout(PATIENCE)
        yield listener


def said(listener: socket.socket) -> dict[str, str]:
    lines = listener.recv(4096).decode().splitlines()
    return {name: value for name, _, value in (line.partition("=") for line in lines)}


def until(listener: socket.socket, name: str) -> dict[str, str]:
    deadline = time.monotonic() + PATIENCE
    while name not in (found := said(listener)):
        assert time.monotonic() < deadline
    return found


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd(short_dir: Path, abstract: bool) -> None:
    name = f"@s0d-test-{os.getpid()}" if abstract else str(short_dir / "notify")
    with listening(name) as listener:
        environ = {"NOTIFY_SOCKET": name, "OTHER": "x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "1"}
        notifier = Notifier(environ)
        assert environ == {"OTHER": "x"}
        assert notifier.asked
        notifier.ready("2 sessions")
        assert said(listener) == {"READY": "1", "STATUS": "2 sessions"}
        notifier.reloading()
        reloading = said(listener)
        assert reloading["RELOADING"] == "1"
        assert abs(int(reloading["MONOTONIC_USEC"]) / 1e6 - time.monotonic()) < 5
        notifier.stopping()
        assert said(listener)["STOPPING"] == "1"


async def test_the_watchdog_and_the_status(
    short_dir: Path, autojump_clock: trio.testing.MockClock
) -> None:
    with listening(str(short_dir / "notify")) as listener:
        listener.setblocking(False)
        environ = {"NOTIFY_SOCKET": str(short_dir / "notify"), "WATCHDOG_USEC": "4000000"}
        notifier = Notifier(environ)
        words = iter(["a", "a", "b", "b", "b"])
        with trio.move_on_after(7):  # every 2 s, at once first
            await notifier.keep(lambda: next(words))
        told = []
        while True:
            try:
                told.append(said(listener))
            except BlockingIOError:
                break
    alive = {"WATCHDOG": "1"}
    assert told == [{**alive, "STATUS": "a"}, alive, {**alive, "STATUS": "b"}, alive]


async def test_more_time(short_dir: Path, autojump_clock: trio.testing.MockClock) -> None:
    with listening(str(short_dir / "notify")) as listener:
        notifier = Notifier({"NOTIFY_SOCKET": str(short_dir / "notify")})
        with trio.move_on_after(12):
            await notifier.extend()
        for _ in range(3):
            assert int(said(listener)["EXTEND_TIMEOUT_USEC"]) >= 10_000_000


async def test_nobody_who_listens_holds_nothing_up(
    short_dir: Path, autojump_clock: trio.testing.MockClock
) -> None:
    notifier = Notifier({"NOTIFY_SOCKET": str(short_dir / "gone"), "WATCHDOG_USEC": "1000000"})
    notifier.ready()
    with trio.move_on_after(5):
        await notifier.keep(lambda: "x")


def test_a_descriptor_gets_a_newline_and_its_end() -> None:
    ours, theirs = os.pipe()
    os.set_inheritable(theirs, True)
    notifier = Notifier({}, theirs)
    assert not os.get_inheritable(theirs)
    notifier.ready()
    notifier.ready()
    with open(ours, "rb") as pipe:
        assert pipe.read() == b"\n"


def test_a_client_that_left_does_not_matter() -> None:
    ours, theirs = os.pipe()
    os.close(ours)
    Notifier({}, theirs).ready()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(theirs)


async def test_nobody_asked() -> None:
    notifier = Notifier({})
    notifier.ready()
    notifier.stopping()
    await notifier.keep(lambda: "x")  # returns at once
    await notifier.extend()


def test_the_story_of_a_service(make_daemon: Callable[..., Daemon], short_dir: Path) -> None:
    with listening(str(short_dir / "notify")) as listener:
        environ = {"NOTIFY_SOCKET": str(short_dir / "notify"), "WATCHDOG_USEC": "400000"}
        daemon = make_daemon(env=environ)
        daemon.start()
        ready = until(listener, "READY")
        assert ready["STATUS"] == "1 sandboxes, 0 sessions, 0 running, 0 attached"
        stubborn = "trap '' TERM; while :; do sleep 0.05; done"
        daemon.json("session", "create", "--stop-grace", "1s", "--", "sh", "-c", stubborn)
        assert until(listener, "STATUS")["STATUS"].startswith("1 sandboxes, 1 sessions, 1 running")
        began = time.monotonic()
        for _ in range(10):
            until(listener, "WATCHDOG")
        assert time.monotonic() - began < 10 * 0.4
        os.kill(daemon.pid, signal.SIGHUP)
        assert "MONOTONIC_USEC" in until(listener, "RELOADING")
        until(listener, "READY")
        assert daemon.process is not None
        daemon.process.terminate()
        until(listener, "STOPPING")
        until(listener, "EXTEND_TIMEOUT_USEC")
        until(listener, "WATCHDOG")
        assert daemon.process.wait(PATIENCE) == 0
        daemon.process = None
        environment = [line for line in daemon.log() if "NOTIFY" in str(line)]
        assert environment == []
