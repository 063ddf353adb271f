"""Sockets that were opened for us: socket activation (sd_listen_fds(3)).

The sockets are known by name, `unix` and `tcp` in the units of `contrib/systemd`.  Neither variable
nor descriptor is left for a child to find.
"""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Final

from s0d.model.errors import InvalidRequest

_FIRST: Final = 3
_FAMILIES: Final = {
    "unix": (socket.AF_UNIX,),
    "tcp": (socket.AF_INET, socket.AF_INET6),
}


def inherited(environ: MutableMapping[str, str], pid: int) -> list[socket.socket]:
    """The listening sockets that were passed to this process; `InvalidRequest` for others."""
    wanted, count, names = (
        environ.pop(name, "") for name in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES")
    )
    if wanted != str(pid) or not count.isdecimal():
        return []
    labels = names.split(":") if names else []
    labels += ["unknown"] * (int(count) - len(labels))
    return [_adopt(_FIRST + at, labels[at]) for at in range(int(count))]


def _adopt(fd: int, name: str) -> socket.socket:
    os.set_inheritable(fd, False)
    try:
        sock = socket.socket(fileno=fd)
    except OSError as error:
        raise InvalidRequest(f"descriptor {fd} ({name}): not a socket: {error.strerror}") from None
    listens = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
    families = _FAMILIES.get(name, sum(_FAMILIES.values(), ()))
    if sock.type != socket.SOCK_STREAM or not listens or sock.family not in families:
        sock.close()
        raise InvalidRequest(f"descriptor {fd}: not a listening {name} socket")
    sock.setblocking(False)
    return sock
