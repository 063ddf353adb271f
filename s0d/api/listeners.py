"""TCP and Unix sockets to accept from.

A Unix socket is bound under a temporary name, given its mode and renamed into place: at no moment
does it stand there with another mode, and a stale one is replaced without a gap.  A live one (a
server answers behind it) is refused.  At the end it is removed, if it is still ours.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Final

import trio

from .config import Address, TcpAddress, UnixAddress

BACKLOG: Final = 1024
_MAX_UNIX_PATH: Final = 107  # bytes, see unix(7)


@asynccontextmanager
async def open_listeners(
    addresses: Sequence[Address | socket.socket], mode: int = 0o600
) -> AsyncIterator[list[trio.SocketListener]]:
    """Listen on all of `addresses`, or raise `OSError` and leave none of them open.

    `mode` is that of Unix sockets."""
    async with AsyncExitStack() as stack:
        listeners: list[trio.SocketListener] = []
        for address in addresses:
            if isinstance(address, UnixAddress):
                opened = [_open_unix(address.path, stack, mode)]
            elif isinstance(address, TcpAddress):
                opened = await _open_tcp(address)
            else:
                opened = [_adopt(address)]
            for listener in opened:
                await stack.enter_async_context(listener)
            listeners += opened
        yield listeners


def address_of(listener: trio.SocketListener) -> Address:
    """Where it listens, with the port that the system chose."""
    name = listener.socket.getsockname()
    if listener.socket.family == socket.AF_UNIX:
        return UnixAddress(_final(os.fsdecode(name)))
    return TcpAddress(name[0], name[1])


async def _open_tcp(address: TcpAddress) -> list[trio.SocketListener]:
    try:
        return await trio.open_tcp_listeners(address.port, host=address.host, backlog=BACKLOG)
    except OSError as error:
        raise _unusable(address, error) from error


def _adopt(given: socket.socket) -> trio.SocketListener:
    """A socket that was made elsewhere; children must not inherit it."""
    given.set_inheritable(False)
    return trio.SocketListener(trio.socket.from_stdlib_socket(given))


def _open_unix(path: str, stack: AsyncExitStack, mode: int) -> trio.SocketListener:
    try:
        _refuse_long(path)
        _refuse_live(path)
        sock, identity = _bind(path, mode)
    except OSError as error:
        raise _unusable(UnixAddress(path), error) from error
    stack.callback(_remove, path, identity)
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


def _bind(path: str, mode: int) -> tuple[socket.socket, tuple[int, int]]:
    temporary = _temporary(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        sock.bind(temporary)
        os.chmod(temporary, mode)
        sock.listen(BACKLOG)
        identity = _identity(temporary)
        os.rename(temporary, path)
    except OSError:
        sock.close()
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    return sock, identity


def _refuse_long(path: str) -> None:
    if len(os.fsencode(_temporary(path))) > _MAX_UNIX_PATH:
        raise OSError(errno.ENAMETOOLONG, "the path is too long for a socket")


def _refuse_live(path: str) -> None:
    """Raise unless nothing, or a socket without a server, stands at `path`."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(errno.EEXIST, "something that is not a socket is in the way")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except (ConnectionRefusedError, FileNotFoundError):
            return
        except BlockingIOError:
            pass  # the backlog is full: somebody is there
    raise OSError(errno.EADDRINUSE, "another server answers there")


def _remove(path: str, identity: tuple[int, int]) -> None:
    with contextlib.suppress(FileNotFoundError):
        if _identity(path) == identity:
            os.unlink(path)


def _identity(path: str) -> tuple[int, int]:
    status = os.lstat(path)
    return status.st_dev, status.st_ino


_SUFFIX: Final = ".new"


def _temporary(path: str) -> str:
    return path + _SUFFIX


def _final(path: str) -> str:
    """The kernel goes on calling the socket by the name it was bound to."""
    return path.removesuffix(_SUFFIX)


def _unusable(address: Address, error: OSError) -> OSError:
    return OSError(error.errno, f"cannot listen on {address}: {error.strerror or error}")
