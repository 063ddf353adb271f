"""TCP and Unix sockets: how they stand, and what they refuse."""

from __future__ import annotations

import os
import socket
import stat
import sys
from pathlib import Path

import pytest
import trio

from s0d.api.config import TcpAddress, UnixAddress
from s0d.api.listeners import address_of, open_listeners

_PRINT_OPEN = """
import os, sys
for number in sys.argv[1:]:
    try:
        os.fstat(int(number))
        print(number)
    except OSError:
        pass
"""


async def test_unix_socket_is_the_owners_alone_and_goes_away(short_dir: Path) -> None:
    path = short_dir / "api.sock"
    async with open_listeners([UnixAddress(str(path))]) as [listener]:
        status = path.stat()
        assert stat.S_ISSOCK(status.st_mode)
        assert stat.S_IMODE(status.st_mode) == 0o600
        assert address_of(listener) == UnixAddress(str(path))
        async with await trio.open_unix_socket(path):
            pass
        assert os.listdir(short_dir) == ["api.sock"]
    assert os.listdir(short_dir) == []


async def test_live_socket_is_refused(short_dir: Path) -> None:
    path = str(short_dir / "api.sock")
    async with open_listeners([UnixAddress(path)]):
        with pytest.raises(OSError, match=r"unix:.*another server"):
            async with open_listeners([UnixAddress(path)]):
                pass
        async with await trio.open_unix_socket(path):
            pass  # the first one is none the worse


async def test_stale_socket_is_replaced(short_dir: Path) -> None:
    path = short_dir / "api.sock"
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(path))
    async with (
        open_listeners([UnixAddress(str(path))]),
        await trio.open_unix_socket(path),
    ):
        pass
    assert not path.exists()


async def test_leftover_of_a_bind_is_no_obstacle(short_dir: Path) -> None:
    (short_dir / "api.sock.new").touch()
    async with open_listeners([UnixAddress(str(short_dir / "api.sock"))]):
        assert os.listdir(short_dir) == ["api.sock"]


async def test_anything_but_a_socket_is_left_alone(short_dir: Path) -> None:
    path = short_dir / "api.sock"
    path.write_text("precious")
    with pytest.raises(FileExistsError):
        async with open_listeners([UnixAddress(str(path))]):
            pass
    assert path.read_text() == "precious"


async def test_socket_of_somebody_else_is_not_removed(short_dir: Path) -> None:
    path = short_dir / "api.sock"
    with socket.socket(socket.AF_UNIX) as foreign:
        async with open_listeners([UnixAddress(str(path))]):
            path.unlink()
            foreign.bind(str(path))
        assert path.exists()


async def test_failure_leaves_nothing_open(short_dir: Path) -> None:
    path = str(short_dir / "api.sock")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="cannot listen on 127"):
            async with open_listeners([UnixAddress(path), TcpAddress(*taken.getsockname())]):
                pass
        assert len(os.listdir("/proc/self/fd")) == before
    assert os.listdir(short_dir) == []


@pytest.mark.parametrize("path", ["missing/api.sock", "x" * 104])
async def test_path_that_cannot_be(short_dir: Path, path: str) -> None:
    with pytest.raises(OSError, match="cannot listen on unix:"):
        async with open_listeners([UnixAddress(str(short_dir / path))]):
            pass


async def test_children_inherit_no_listener(short_dir: Path) -> None:
    """Not even one that was handed in inheritable, as socket activation does."""
    given = socket.create_server(("127.0.0.1", 0))
    given.set_inheritable(True)
    listen = [TcpAddress("127.0.0.1", 0), UnixAddress(str(short_dir / "s")), given]
    async with open_listeners(listen) as listeners:
        numbers = [listener.socket.fileno() for listener in listeners]
        command = [sys.executable, "-c", _PRINT_OPEN, *map(str, numbers)]
        done = await trio.run_process(command, capture_stdout=True, close_fds=False)
        assert done.stdout == b""


async def test_adopted_socket_is_served(short_dir: Path) -> None:
    given = socket.create_server(("127.0.0.1", 0))
    address = TcpAddress(*given.getsockname())
    async with open_listeners([given]) as [listener]:
        assert address_of(listener) == address
