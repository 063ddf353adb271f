"""s0d: one program that owns processes.

A *session* is a named, durable thing a user asked for; an *attempt* is one operating-system process
that realizes it; an *event* is a fact in the session's journal; an *attachment* is a client looking
on.  The layers, from the inside out (imports point one way):

`s0d.model` <- `s0d.wire`, `s0d.journal`, `s0d.process`, `s0d.terminal` <- `s0d.supervisor`
<- `s0d.api` <- `s0d.daemon`.  `s0d.cli` talks HTTP and knows only `s0d.model` and `s0d.wire`.

Embedding, without the command line:

* `async with s0d.open_supervisor(state_dir) as supervisor` gives sessions without HTTP;
* `await nursery.start(s0d.serve, s0d.Config(...))` gives sessions and both HTTP surfaces.

Neither installs a signal handler, configures logging or touches the process as a whole, and both
leave nothing behind when they are cancelled.
"""

from __future__ import annotations

TYPE_CHECKING = False  # not from typing, which takes longer to import than all of this
if TYPE_CHECKING:
    from typing import Any

    from s0d.daemon.config import Config as Config
    from s0d.daemon.serve import serve as serve
    from s0d.supervisor import open_supervisor as open_supervisor

__version__ = "0.1.0"

__all__ = ["Config", "__version__", "open_supervisor", "serve"]

_LAZY = {
    "Config": "s0d.daemon.config",
    "serve": "s0d.daemon.serve",
    "open_supervisor": "s0d.supervisor",
}


def __getattr__(name: str) -> Any:
    """Import the three entries on first use: `import s0d` alone must stay cheap (PEP 562)."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
