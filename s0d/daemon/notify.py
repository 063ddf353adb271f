"""Readiness, told to whoever started us: systemd, or a client that started us on demand.

systemd: datagrams to `NOTIFY_SOCKET` (sd_notify(3)).  A client: a newline into a descriptor that we
inherited, then its end (the protocol of s6).  Both work without a library, and neither variable nor
descriptor is left for a child to find.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import MutableMapping


class Notifier:
    """Says `ready` and `stopping` once each; says nothing where nobody asked."""

    def __init__(self, environ: MutableMapping[str, str], ready_fd: int | None = None) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", None)
        self._ready_fd = ready_fd
        if ready_fd is not None:
            os.set_inheritable(ready_fd, False)

    def ready(self) -> None:
        self._datagram("READY=1")
        if self._ready_fd is not None:
            fd, self._ready_fd = self._ready_fd, None
            with contextlib.suppress(BrokenPipeError):  # the client has left: that is its business
                os.write(fd, b"\n")
            os.close(fd)

    def stopping(self) -> None:
        self._datagram("STOPPING=1")

    def _datagram(self, text: str) -> None:
        if not self._address:
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(address)
            sock.send(text.encode())
