"""How the standalone daemon's process handles memory: set once, before anything large is allocated.

Both are of the process, so that an embedder decides for itself.

The C library: output is read into blocks of 64 KiB that live as long as the tail that readers
share.  By default each of them grows the heap and shrinks it again, and its pages are cleared by
the kernel anew: ten page faults where one is enough, and a third of the CPU time of a flood.

The collector: what is loaded at the start stays, so that it is never looked at again; and it looks
less often for cycles, of which there are few (exceptions, mostly).
"""

from __future__ import annotations

import ctypes
import gc
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_TRIM: Final = 4 * 1024 * 1024
_PAD: Final = 1024 * 1024
_MMAP: Final = 1024 * 1024

_NEW_OBJECTS: Final = 10_000


def tune_allocator() -> None:
    """Keep up to 4 MiB of free heap; blocks of up to 1 MiB come from it.  Only glibc knows how."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    for parameter, value in (
        (_M_TRIM_THRESHOLD, _TRIM),
        (_M_TOP_PAD, _PAD),
        (_M_MMAP_THRESHOLD, _MMAP),
    ):
        mallopt(parameter, value)


def tune_collector() -> None:
    """Called once everything is loaded."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW_OBJECTS, 20, 20)
