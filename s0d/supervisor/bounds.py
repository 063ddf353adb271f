"""How much of everything a supervisor bears; beyond it requests are refused, nothing breaks."""

from __future__ import annotations

import msgspec

from s0d.process.input import QUEUE_LIMIT


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """`sessions` and `execs` are a sandbox's, `attachments` a session's; sizes are bytes.

    `journal_bytes` is what all journals of a sandbox may retain together: the oldest segments of
    the largest go first.  It is looked at whenever a segment begins, so that each session that
    writes may be a segment (4 MiB at most) beyond it.
    """

    sandboxes: int = 1000
    sessions: int = 10_000
    execs: int = 256
    attachments: int = 1024
    all_attachments: int = 8192
    input_queue: int = QUEUE_LIMIT
    journal_bytes: int = 64 << 30

    def descriptors(self, connections: int) -> int:
        """What is needed at most where one sandbox is full: about five a session."""
        return 5 * (self.sessions + self.execs) + connections + self.all_attachments + 256
