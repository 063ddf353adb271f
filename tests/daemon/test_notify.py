"""Readiness, on real sockets and pipes."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from s0d.daemon.notify import Notifier


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd(short_dir: Path, abstract: bool) -> None:
    name = f"@s0d-test-{os.getpid()}" if abstract else str(short_dir / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(name.replace("@", "\0", 1) if abstract else name)
        listener.settimeout(5)
        environ = {"NOTIFY_SOCKET": name, "OTHER": "x"}
        notifier = Notifier(environ)
        assert environ == {"OTHER": "x"}
        notifier.ready()
        assert listener.recv(100) == b"READY=1"
        notifier.stopping()
        assert listener.recv(100) == b"STOPPING=1"


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


def test_nobody_asked() -> None:
    notifier = Notifier({})
    notifier.ready()
    notifier.stopping()
