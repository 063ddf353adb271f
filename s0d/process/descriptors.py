"""Descriptors out of the way of 0, 1 and 2.

A program may be started with its standard descriptors closed; then what it opens next *is* one
of them, and a child's file actions would overwrite it before they come to use it.
"""

from __future__ import annotations

import fcntl
import os


def lifted(fd: int) -> int:
    """`fd` itself when it is 3 or more, else a duplicate that is; `fd` is closed then."""
    if fd > 2:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    finally:
        os.close(fd)


def pipe() -> tuple[int, int]:
    """A close-on-exec pipe: (reading end, writing end)."""
    reading, writing = os.pipe2(os.O_CLOEXEC)
    try:
        reading = lifted(reading)
    except BaseException:
        os.close(writing)
        raise
    try:
        return reading, lifted(writing)
    except BaseException:
        os.close(reading)
        raise
