"""Ending a process must not fail because descriptors are short: that is waited out."""

from __future__ import annotations

import errno
from collections.abc import Awaitable, Callable
from typing import TypeVar

import trio

T = TypeVar("T")

_SHORT = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
_PAUSE = 0.02  # seconds; nothing tells when a descriptor becomes free


async def patiently(action: Callable[[], T]) -> T:
    """Do it once descriptors allow; any other error is raised."""

    async def act() -> T:
        return action()

    return await patiently_async(act)


async def patiently_async(action: Callable[[], Awaitable[T]]) -> T:
    """The same for what is to be awaited."""
    while True:
        try:
            return await action()
        except OSError as error:
            if error.errno not in _SHORT:
                raise
        await trio.sleep(_PAUSE)
