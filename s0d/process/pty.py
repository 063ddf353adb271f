"""Pseudo-terminals: a pair, its size, its foreground group.

The slave is opened through the master (TIOCGPTPEER, ioctl_tty(2)), never by the name that
ptsname(3) gives: in another mount namespace that name may be another user's terminal.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import termios
from typing import NamedTuple

from s0d.process.descriptors import lifted

_TIOCSPTLCK = 0x40045431
_TIOCGPTPEER = 0x5441
_TIOCSIG = 0x40045436

_FOREGROUND_SIGNALS = frozenset({signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP})


class TerminalSize(NamedTuple):
    """Character cells, each 1 to 65535."""

    rows: int
    cols: int


def open_pty(size: TerminalSize) -> tuple[int, int]:
    """A new terminal of this size: (master, slave), both close-on-exec, the master non-blocking.

    Neither becomes the caller's controlling terminal.  Raises OSError: ENOSPC at the limit of
    terminals (`kernel.pty.max`), EMFILE.
    """
    flags = os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC
    master = lifted(os.open("/dev/ptmx", flags | os.O_NONBLOCK))
    try:
        fcntl.ioctl(master, _TIOCSPTLCK, struct.pack("i", 0))
        set_size(master, size)
        return master, lifted(fcntl.ioctl(master, _TIOCGPTPEER, flags))
    except BaseException:
        os.close(master)
        raise


def set_size(fd: int, size: TerminalSize) -> None:
    """Set the size; the foreground group gets SIGWINCH when it changes."""
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.cols, 0, 0))


def signal_foreground(master: int, signum: int) -> bool:
    """Send INT, QUIT or TSTP to the foreground group, as the terminal's own keys do.

    False when it is another signal or nothing is in the foreground.  The kernel looks the group
    up itself (TIOCSIG), so that no recycled group can be hit between asking and sending.
    """
    if signum not in _FOREGROUND_SIGNALS or os.tcgetpgrp(master) <= 0:
        return False
    fcntl.ioctl(master, _TIOCSIG, signum)
    return True
