"""The record of a sandbox: the owner marker of its state directory, and its configuration."""

from __future__ import annotations

import enum

import msgspec


class SandboxStatus(enum.StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    PAUSED = "paused"
    TERMINATING = "terminating"
    FAILED = "failed"


class SandboxConfig(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a client may ask of a sandbox; all times in seconds, 0 for none.

    `ttl` counts from the last refresh or resume and then pauses, `hard_ttl` from the creation and
    then deletes.  `idle_suspend_seconds` of quiet freeze it until somebody needs it.
    """

    env_vars: dict[str, str] = {}
    ttl: int = 0
    hard_ttl: int = 0
    auto_resume: bool = True
    idle_suspend_seconds: int = 0


class SandboxRecord(msgspec.Struct, omit_defaults=True):
    """Stored as `sandbox.json`; its presence with this `id` marks the directory's owner.

    `generation` counts runtimes: it grows with every start of the daemon and every resume, before
    anything is started in the new runtime.  `root` is the sessions' default working directory: ""
    for the daemon's own choice, relative in the state directory, wherever that is; `owns_root` says
    that it was made for this sandbox and goes with it.  `paused` was asked for and outlives the
    daemon; `deleting` is seen through by the next one.
    The lease (`ttl`, or what a refresh asked for; seconds, 0 for none) counts from `renewed_at_ns`.
    `made_in` is the state directory that the root was made from (`place.Place.mark`).
    `fork_key` makes a repeated fork the same one.
    """

    id: str
    generation: int = 0
    created_at_ns: int = 0
    format: int = 1
    template: str = ""
    root: str = ""
    owns_root: bool = False
    made_in: str = ""
    config: SandboxConfig = SandboxConfig()
    updated_at_ns: int = 0
    renewed_at_ns: int = 0
    lease: int = 0
    paused: bool = False
    deleting: bool = False
    fork_key: str | None = None

    def expires_at_ns(self) -> int:
        """When the lease runs out (Unix ns); 0 for never."""
        return self.renewed_at_ns + self.lease * 10**9 if self.lease else 0

    def hard_expires_at_ns(self) -> int:
        """When `hard_ttl` runs out (Unix ns); 0 for never."""
        return self.created_at_ns + self.config.hard_ttl * 10**9 if self.config.hard_ttl else 0
