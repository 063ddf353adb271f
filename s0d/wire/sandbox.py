"""Sandboxes as clients see them, make them and change them (wire contract, section 3)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from s0d.model.errors import InvalidRequest
from s0d.model.parse import INT31, check_env
from s0d.model.sandbox import SandboxConfig, SandboxRecord, SandboxStatus

from .times import rfc3339

NEVER: Final = "0001-01-01T00:00:00Z"
"""For a time that will not come: one SDK needs a date there."""
TEAM: Final = "local"
MAX_TEMPLATE: Final = 255


class SandboxView(msgspec.Struct, kw_only=True):
    """Field for field the wire's Sandbox."""

    id: str
    template_id: str
    team_id: str
    status: SandboxStatus
    paused: bool
    auto_resume: bool
    runtime_id: str
    pod_name: str
    runtime_generation: int
    claimed_at: str
    created_at: str
    updated_at: str
    expires_at: str
    hard_expires_at: str


class SummaryView(msgspec.Struct, kw_only=True):
    id: str
    template_id: str
    status: SandboxStatus
    paused: bool
    runtime_generation: int
    created_at: str
    updated_at: str
    expires_at: str
    hard_expires_at: str


class StatusView(msgspec.Struct, kw_only=True):
    sandbox_id: str
    template_id: str
    team_id: str
    runtime_id: str
    pod_name: str
    status: SandboxStatus
    claimed_at: str
    created_at: str
    expires_at: str
    hard_expires_at: str


class Claimed(msgspec.Struct):
    sandbox_id: str
    status: SandboxStatus
    runtime_id: str
    pod_name: str
    template: str


def view_sandbox(record: SandboxRecord, status: SandboxStatus) -> SandboxView:
    runtime = runtime_id(record, status)
    return SandboxView(
        id=record.id,
        template_id=record.template,
        team_id=TEAM,
        status=status,
        paused=status is SandboxStatus.PAUSED,
        auto_resume=record.config.auto_resume,
        runtime_id=runtime,
        pod_name=runtime,
        runtime_generation=record.generation,
        claimed_at=rfc3339(record.created_at_ns),
        created_at=rfc3339(record.created_at_ns),
        updated_at=rfc3339(max(record.updated_at_ns, record.created_at_ns)),
        expires_at=_expiry(record.expires_at_ns()),
        hard_expires_at=_expiry(record.hard_expires_at_ns()),
    )


def summarize(record: SandboxRecord, status: SandboxStatus) -> SummaryView:
    view = view_sandbox(record, status)
    return SummaryView(**{name: getattr(view, name) for name in SummaryView.__struct_fields__})


def view_status(record: SandboxRecord, status: SandboxStatus) -> StatusView:
    view = view_sandbox(record, status)
    given = {n: getattr(view, n) for n in StatusView.__struct_fields__ if n != "sandbox_id"}
    return StatusView(sandbox_id=record.id, **given)


def runtime_id(record: SandboxRecord, status: SandboxStatus) -> str:
    """One for each runtime; none while there is none to be used."""
    return "" if status is SandboxStatus.PAUSED else f"rt-{record.id}-{record.generation}"


def _expiry(time_ns: int) -> str:
    return rfc3339(time_ns) if time_ns else NEVER


# -- what a client sends -----------------------------------------------------------------------


class ConfigBody(msgspec.Struct):
    """Fields that are absent leave things as they are.

    What stands behind the extensions this host cannot honour is looked at only to refuse it.
    """

    env_vars: dict[str, str] | None = None
    ttl: int | None = None
    hard_ttl: int | None = None
    auto_resume: bool | None = None
    idle_suspend_seconds: int | None = None
    root: str | None = None
    network: Any = None
    webhook: Any = None
    services: Any = None
    resources: Any = None
    mounts: Any = None

    def check(self) -> None:
        for name in ("network", "webhook", "services", "resources", "mounts"):
            if getattr(self, name):
                raise InvalidRequest(f"config.{name}: this host cannot honour it: leave it out")

    def over(self, config: SandboxConfig) -> SandboxConfig:
        """`config` with what was sent."""
        self.check()
        return SandboxConfig(
            env_vars=check_env("config.env_vars", self.env_vars)
            if self.env_vars is not None
            else config.env_vars,
            ttl=_seconds("config.ttl", self.ttl, config.ttl),
            hard_ttl=_seconds("config.hard_ttl", self.hard_ttl, config.hard_ttl),
            auto_resume=config.auto_resume if self.auto_resume is None else self.auto_resume,
            idle_suspend_seconds=_seconds(
                "config.idle_suspend_seconds",
                self.idle_suspend_seconds,
                config.idle_suspend_seconds,
            ),
        )


class ClaimBody(msgspec.Struct):
    template: str | None = None
    id: str | None = None
    config: ConfigBody | None = None
    snapshot_id: str | None = None
    mounts: Any = None

    def check(self) -> None:
        for name in ("snapshot_id", "mounts"):
            if getattr(self, name):
                raise InvalidRequest(f"{name}: this host cannot honour it: leave it out")
        if self.template is not None and len(self.template) > MAX_TEMPLATE:
            raise InvalidRequest(f"template: at most {MAX_TEMPLATE} characters")


class UpdateBody(msgspec.Struct):
    config: ConfigBody | None = None

    def check(self) -> None:
        if self.config is not None and self.config.root is not None:
            raise InvalidRequest("config.root: cannot be changed")


class ForkBody(msgspec.Struct):
    """`config.root` names where the copy goes; it must not be there yet."""

    memory: bool | None = None
    config: ConfigBody | None = None

    @property
    def root(self) -> str | None:
        return None if self.config is None else self.config.root


class MemoryBody(msgspec.Struct):
    """For pause and resume."""

    memory: bool | None = None


class RefreshBody(msgspec.Struct):
    """`duration` in seconds, for once in place of the sandbox's `ttl`."""

    duration: int | None = None

    @property
    def seconds(self) -> int | None:
        return None if self.duration is None else _seconds("duration", self.duration, 0)


class PausedView(msgspec.Struct):
    sandbox_id: str
    paused: bool
    status: SandboxStatus


class ResumedView(msgspec.Struct):
    sandbox_id: str
    resumed: bool = True


class RefreshedView(msgspec.Struct):
    sandbox_id: str
    expires_at: str
    hard_expires_at: str


class ForkedView(msgspec.Struct):
    source_sandbox_id: str
    sandbox: SandboxView


class MessageView(msgspec.Struct):
    message: str


class SandboxPage(msgspec.Struct):
    """`count` is that of all that match."""

    sandboxes: list[SummaryView]
    count: int
    has_more: bool


def view_refreshed(record: SandboxRecord) -> RefreshedView:
    return RefreshedView(
        record.id, _expiry(record.expires_at_ns()), _expiry(record.hard_expires_at_ns())
    )


def _seconds(path: str, value: int | None, default: int) -> int:
    if value is None:
        return default
    if not 0 <= value <= INT31:
        raise InvalidRequest(f"{path}: must be from 0 to {INT31} seconds, got {value}")
    return value
