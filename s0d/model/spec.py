"""The session specification in its normal form: every default filled in, every bound checked.

The inside of s0d sees only these values; `s0d.model.parse` makes them of what a client sends.
"""

from __future__ import annotations

import enum

import msgspec
from msgspec import UNSET, UnsetType


class DesiredState(enum.StrEnum):
    RUNNING = "running"
    STOPPED = "stopped"


class IOMode(enum.StrEnum):
    PIPES = "pipes"
    PTY = "pty"


class RestartPolicy(enum.StrEnum):
    NEVER = "never"
    ON_FAILURE = "on_failure"
    ALWAYS = "always"


class RecoveryPolicy(enum.StrEnum):
    RESTART = "restart"
    STOP = "stop"


class ReadinessType(enum.StrEnum):
    PROCESS = "process"
    DELAY = "delay"
    OUTPUT = "output"


class _Struct(msgspec.Struct, frozen=True):
    """Normalized parts are values: frozen, compared by content."""


class TerminalSpec(_Struct, frozen=True):
    rows: int = 24
    cols: int = 80
    term: str = "xterm-256color"


class IOSpec(_Struct, frozen=True):
    mode: IOMode = IOMode.PIPES
    terminal: TerminalSpec | UnsetType = UNSET


class RestartSpec(_Struct, frozen=True):
    policy: RestartPolicy = RestartPolicy.NEVER
    max_restarts: int = 5
    window_seconds: int = 60
    initial_backoff_ms: int = 250
    max_backoff_ms: int = 5000


class LifecycleSpec(_Struct, frozen=True):
    desired_state: DesiredState = DesiredState.RUNNING
    restart: RestartSpec = RestartSpec()
    runtime_recovery: RecoveryPolicy = RecoveryPolicy.RESTART
    idle_timeout_seconds: int = 0
    max_lifetime_seconds: int = 0
    stop_grace_period_seconds: int = 10


class ReadinessSpec(_Struct, frozen=True):
    type: ReadinessType = ReadinessType.PROCESS
    delay_ms: int | UnsetType = UNSET
    output: str | UnsetType = UNSET
    timeout_ms: int = 30_000


class RetentionSpec(_Struct, frozen=True):
    """`input` (an extension, terminals only): what is typed is retained, too, for recordings."""

    max_bytes: int = 64 << 20
    max_age_seconds: int = 86_400
    input: bool | UnsetType = UNSET


class LimitsSpec(_Struct, frozen=True):
    """Limits of an attempt (an extension); an unset one is no limit.

    `memory_max_bytes`, `pids_max` and `cpu_max` (processors, 0.5 is half of one) hold for the
    whole tree, by its cgroup; `nofile` (descriptors) and `core` (bytes, 0: no core dumps) hold for
    each process.
    """

    memory_max_bytes: int | UnsetType = UNSET
    pids_max: int | UnsetType = UNSET
    cpu_max: float | UnsetType = UNSET
    nofile: int | UnsetType = UNSET
    core: int | UnsetType = UNSET


class SessionSpec(_Struct, frozen=True):
    """What to run and how; `cwd` stays unset where the sandbox's root is meant."""

    command: tuple[str, ...]
    name: str | UnsetType = UNSET
    cwd: str | UnsetType = UNSET
    env: dict[str, str] = {}
    io: IOSpec = IOSpec()
    lifecycle: LifecycleSpec = LifecycleSpec()
    readiness: ReadinessSpec = ReadinessSpec()
    event_retention: RetentionSpec = RetentionSpec()
    stop_signal: str | UnsetType = UNSET
    limits: LimitsSpec | UnsetType = UNSET

    def with_desired_state(self, state: DesiredState) -> SessionSpec:
        lifecycle = msgspec.structs.replace(self.lifecycle, desired_state=state)
        return msgspec.structs.replace(self, lifecycle=lifecycle)

    def runs_the_same(self, other: SessionSpec, root: str) -> bool:
        """Would a process started from either be the same?  (`root` stands for an unset `cwd`.)"""
        return (
            self.command == other.command
            and (self.cwd or root) == (other.cwd or root)
            and self.env == other.env
            and self.io == other.io
            and self.readiness == other.readiness
            and self.limits == other.limits
        )
