"""The record of a sandbox: the owner marker of its state directory."""

from __future__ import annotations

import msgspec


class SandboxRecord(msgspec.Struct, omit_defaults=True):
    """Stored as `sandbox.json`; its presence with this `id` marks the directory's owner.

    `generation` counts runtimes: it grows with every start of the daemon and every resume, before
    anything is started in the new runtime.
    """

    id: str
    generation: int = 0
    created_at_ns: int = 0
    format: int = 1
