"""A token that was given on the command line is not left there for others to read."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

SECRET = "a-token-that-nobody-else-may-read"
AFTER = "what-is-no-option"


@pytest.mark.parametrize("given", [["--token", SECRET], [f"--token={SECRET}"]])
@pytest.mark.parametrize("before", [True, False])
def test_it_is_written_over_before_anything_is_asked(given: list[str], before: bool) -> None:
    verb = ["session", "create"]
    arguments = [*given, *verb] if before else [*verb, *given]
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "s0d", *arguments, "--url", url]
        with subprocess.Popen([*command, "--", "x", "--token", AFTER]) as process:
            try:
                connection, _ = server.accept()
                with connection:
                    assert SECRET.encode() in connection.recv(65536), "it is used all the same"
                    shown = Path(f"/proc/{process.pid}/cmdline").read_bytes()
            finally:
                process.kill()
    assert SECRET.encode() not in shown
    assert shown.endswith(b"\0--\0x\0--token\0" + AFTER.encode() + b"\0")
