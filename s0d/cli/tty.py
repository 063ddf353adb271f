"""A person's terminal while it belongs to a session: raw, and given back whatever happens.

A small process watches over it: should we be killed, it gives the terminal back in our place.
"""

from __future__ import annotations

import os
import re
import signal
import termios
import tty
from contextlib import suppress
from typing import Any, Final, NoReturn

# What programs leave behind: attributes, character sets, margins, keypad, mouse, focus and paste
# reports, cursor and keyboard modes.  Each is harmless where it was not set.
_RESET: Final = (
    b"\x1b[0m\x1b(B\x0f\x1b[?6l\x1b[r\x1b[4l\x1b[?7h\x1b[?1l\x1b>"
    b"\x1b[?9l\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1004l\x1b[?1005l\x1b[?1006l\x1b[?1015l"
    b"\x1b[?2004l\x1b[?2026l\x1b[>4m\x1b[<u\x1b[0 q\x1b[?25h"
)
_BELOW: Final = b"\x1b[999;1H\r\n"  # what there is: some of the sequences move the cursor
_SWITCH: Final = re.compile(rb"\x1b\[\?(?:[0-9;]*;)?(?:47|1047|1049)(?:;[0-9;]*)?([hl])|\x1bc")
_LONGEST_SWITCH: Final = 32

_LEFT, _ENTERED, _DONE = b"l", b"h", b"q"  # what the watching process is told


class Tty:
    """The terminal on `fd`, a context manager; output goes to `out`.

    `alternate`: is its alternate screen shown?
    """

    def __init__(self, fd: int, out: int) -> None:
        self.alternate = False
        self._fd = fd
        self._out = out
        self._saved: list[Any] = termios.tcgetattr(fd)
        self._tail = b""
        self._watch = _Watch(fd, out, self._saved)

    def __enter__(self) -> Tty:
        self._watch.begin()
        self.make_raw()
        return self

    def __exit__(self, *error: object) -> None:
        self.give_back()
        self._watch.end()

    def make_raw(self) -> None:
        tty.setraw(self._fd, termios.TCSANOW)

    def give_back(self) -> None:
        """As it was found, the cursor at the beginning of a free line.  May be called twice."""
        _give_back(self._fd, self._out, self._saved, self.alternate)
        self._note(False)

    def seen(self, data: bytes) -> None:
        """Told of all output: which of its screens is shown?"""
        text = self._tail + data
        self._tail = text[-_LONGEST_SWITCH:]
        switches = _SWITCH.findall(text)
        if switches:
            self._note(switches[-1] == b"h")

    def size(self) -> tuple[int, int]:
        """Rows and columns."""
        return termios.tcgetwinsize(self._fd)

    def clean(self) -> bytes:
        """What is to be painted now begins on the primary screen, with no mode set."""
        return (b"\x1b[?1049l" if self.alternate else b"") + _RESET

    def reset(self) -> bytes:
        """The sequences after which another program may use the terminal."""
        return _reset(self.alternate)

    def _note(self, alternate: bool) -> None:
        if alternate != self.alternate:
            self.alternate = alternate
            self._watch.tell(_ENTERED if alternate else _LEFT)


class _Watch:
    """The process that gives the terminal back when we have ended without doing so."""

    def __init__(self, fd: int, out: int, saved: list[Any]) -> None:
        self._terminal = (fd, out, saved)
        self._pid = 0
        self._pipe = -1

    def begin(self) -> None:
        theirs, self._pipe = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.close(self._pipe)
                self._run(theirs)
            finally:
                os._exit(1)
        os.close(theirs)

    def tell(self, what: bytes) -> None:
        with suppress(OSError):  # somebody has killed it
            os.write(self._pipe, what)

    def end(self) -> None:
        self.tell(_DONE)
        os.close(self._pipe)
        with suppress(ChildProcessError):
            os.waitpid(self._pid, 0)

    def _run(self, pipe: int) -> NoReturn:
        os.setpgid(0, 0)  # what is sent to our group is not for it
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
            signal.signal(signum, signal.SIG_IGN)
        # It is in the background, and may still write to the terminal and set it.
        for signum in (signal.SIGTTOU, signal.SIGTSTP, signal.SIGPIPE):
            signal.signal(signum, signal.SIG_IGN)
        alternate = False
        while (told := os.read(pipe, 1)) != _DONE:
            if not told:
                self._rescue(alternate)
                break
            alternate = told == _ENTERED
        os._exit(0)

    def _rescue(self, alternate: bool) -> None:
        """Unless the shell was quicker: what it has set is left alone."""
        fd, out, saved = self._terminal
        if termios.tcgetattr(fd)[3] & (termios.ICANON | termios.ECHO):
            os.write(out, _reset(alternate))
        else:
            _give_back(fd, out, saved, alternate)


def _give_back(fd: int, out: int, saved: list[Any], alternate: bool) -> None:
    with suppress(OSError, termios.error):  # the terminal may be gone
        os.write(out, _reset(alternate))
    with suppress(termios.error):
        termios.tcsetattr(fd, termios.TCSANOW, saved)


def _reset(alternate: bool) -> bytes:
    return (b"\x1b[?1049l" if alternate else b"") + _RESET + _BELOW
