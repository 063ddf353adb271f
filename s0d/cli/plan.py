"""How to attach, and how that ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .detach import DetachKeys
from .target import Target
from .tty import Tty

Json = dict[str, Any]


@dataclass(frozen=True)
class Plan:
    """`role` and `replay` are START's.  `tty` None: output is streamed, and only it.  `hint` is for
    the terminal's last line; `reads`: is standard input forwarded?"""

    target: Target
    path: str
    role: str
    replay: str
    tty: Tty | None
    keys: DetachKeys
    hint: str
    reads: bool
    notice: Callable[[str], None]


@dataclass(frozen=True)
class End:
    """Why it is over: `exit` (of the program, with its `frame`), `detached`, `TAKEOVER`, `DELETED`,
    `signal`, or `error`."""

    why: str
    frame: Json | None = None
    signum: int = 0
    error: Exception | None = None
