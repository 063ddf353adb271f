"""What whoever started us is told: systemd, or a client that started us on demand.

systemd: datagrams to `NOTIFY_SOCKET` (sd_notify(3)).  A client: a newline into a descriptor that we
inherited, then its end (the protocol of s6).  Both work without a library, and neither variable nor
descriptor is left for a child to find.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, MutableMapping
from typing import Final

import trio

_TICK: Final = 10.0  # seconds between looks at the status where no watchdog asks more often
_EXTEND: Final = 5.0
_EXTENSION: Final = 15.0  # seconds asked for, again and again while sessions stop


class Notifier:
    """Says nothing where nobody asked; a systemd that went away is not waited for."""

    def __init__(self, environ: MutableMapping[str, str], ready_fd: int | None = None) -> None:
        self._address = environ.pop("NOTIFY_SOCKET", None)
        self._watchdog = _watchdog(environ)
        self._ready_fd = ready_fd
        self._said = ""
        if ready_fd is not None:
            os.set_inheritable(ready_fd, False)

    @property
    def asked(self) -> bool:
        """Is there a systemd that listens?"""
        return self._address is not None

    def ready(self, status: str = "") -> None:
        """We serve; also said at the end of a reload."""
        self._said = status or self._said
        self._datagram("READY=1", *([f"STATUS={status}"] if status else []))
        if self._ready_fd is not None:
            fd, self._ready_fd = self._ready_fd, None
            with contextlib.suppress(BrokenPipeError):  # the client has left: that is its business
                os.write(fd, b"\n")
            os.close(fd)

    def reloading(self) -> None:
        """A reload has begun; `ready` ends it."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._datagram("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self) -> None:
        self._datagram("STOPPING=1", "STATUS=stopping sessions")

    async def keep(self, status: Callable[[], str]) -> None:
        """Tell that the loop lives, twice in the time that a watchdog grants, and how we are.

        By a task of the loop itself: a loop that hangs is what the watchdog is for.
        """
        if not self.asked:
            return
        while True:
            said = status()
            parts = ["WATCHDOG=1"] if self._watchdog else []
            if said != self._said:
                self._said = said
                parts.append(f"STATUS={said}")
            self._datagram(*parts)
            await trio.sleep(min(_TICK, self._watchdog / 2) if self._watchdog else _TICK)

    async def extend(self) -> None:
        """Ask for more time, until cancelled: sessions are using their grace periods."""
        if not self.asked:
            return
        while True:
            self._datagram(f"EXTEND_TIMEOUT_USEC={round(_EXTENSION * 1e6)}")
            await trio.sleep(_EXTEND)

    def _datagram(self, *parts: str) -> None:
        if not self._address or not parts:
            return
        address = self._address
        if address.startswith("@"):
            address = "\0" + address[1:]
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as sock,
        ):
            sock.connect(address)
            sock.send("\n".join(parts).encode())


def _watchdog(environ: MutableMapping[str, str]) -> float:
    """Seconds within which systemd wants to hear of us (sd_watchdog_enabled(3)); 0 for never."""
    microseconds = environ.pop("WATCHDOG_USEC", "")
    pid = environ.pop("WATCHDOG_PID", "")
    if not microseconds.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(microseconds) / 1e6
