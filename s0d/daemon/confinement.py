"""What the standalone daemon does to its own process before it does anything else."""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

PR_SET_DUMPABLE: Final = 4  # prctl(2)


def confine() -> int | None:
    """Files for our eyes only, no core dump or ptrace that shows tokens, descriptors at the limit.

    A session costs about five descriptors.  Returns what children are to get back at their spawn
    (see `raise_descriptor_limit`).
    """
    os.umask(0o077)
    prctl(PR_SET_DUMPABLE, 0)
    return raise_descriptor_limit()


def prctl(option: int, value: int) -> None:
    """prctl(2) with one argument; raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def raise_descriptor_limit() -> int | None:
    """The soft limit becomes the hard one; returns the former soft limit, None where it was that.

    Programs are to start with the former one: select(2) fails beyond 1024, and some programs
    close every descriptor up to the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return None
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft
