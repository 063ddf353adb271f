"""From what a client sends to a `SessionSpec`.

`parse_spec` fills in every default and checks every bound, or raises `InvalidRequest` naming the
field by its path and the bound.

Rules that clients of the reference rely on (wire contract, section 2): a zero where a default
stands means the default; `null` for an optional field means absent, an empty string for an enum
its default; unknown fields are refused, so that a misspelt policy is never silently ignored.
"""

from __future__ import annotations

import enum
from typing import Any, Final, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from .errors import InvalidRequest
from .signals import parse_signal, signal_name
from .spec import (
    DesiredState,
    IOMode,
    IOSpec,
    LifecycleSpec,
    LimitsSpec,
    ReadinessSpec,
    ReadinessType,
    RecoveryPolicy,
    RestartPolicy,
    RestartSpec,
    RetentionSpec,
    SessionSpec,
    TerminalSpec,
)

INT31: Final = 2**31 - 1
INT53: Final = 2**53 - 1
MAX_NAME_BYTES: Final = 255
MAX_ARGUMENTS: Final = 4096
MAX_COMMAND_BYTES: Final = 1 << 20
MAX_READY_OUTPUT_BYTES: Final = 64 << 10
MAX_TERMINAL: Final = 65535
MIN_RETENTION_BYTES: Final = 262_144
MIN_CPU: Final = 0.01  # below, the kernel refuses the quota (cgroup v2, cpu.max: 1 ms at least)
MAX_CPU: Final = 1024

# -- what a client sends: every field optional, None standing for absent ------------------------


class _Sent(msgspec.Struct, forbid_unknown_fields=True):
    pass


class _SentTerminal(_Sent):
    rows: int | None = None
    cols: int | None = None
    term: str | None = None


class _SentIO(_Sent):
    mode: str | None = None
    terminal: _SentTerminal | None = None


class _SentRestart(_Sent):
    policy: str | None = None
    max_restarts: int | None = None
    window_seconds: int | None = None
    initial_backoff_ms: int | None = None
    max_backoff_ms: int | None = None


class _SentLifecycle(_Sent):
    desired_state: str | None = None
    restart: _SentRestart | None = None
    runtime_recovery: str | None = None
    idle_timeout_seconds: int | None = None
    max_lifetime_seconds: int | None = None
    stop_grace_period_seconds: int | None = None


class _SentReadiness(_Sent):
    type: str | None = None
    delay_ms: int | None = None
    output: str | None = None
    timeout_ms: int | None = None


class _SentRetention(_Sent):
    max_bytes: int | None = None
    max_age_seconds: int | None = None
    input: bool | None = None


class _SentLimits(_Sent):
    memory_max_bytes: int | None = None
    pids_max: int | None = None
    cpu_max: float | None = None
    nofile: int | None = None
    core: int | None = None


class SentSpec(_Sent):
    """The wire form of a specification, before it is checked and normalized."""

    command: list[str] | None = None
    name: str | None = None
    cwd: str | None = None
    env: dict[str, str] | None = None
    io: _SentIO | None = None
    lifecycle: _SentLifecycle | None = None
    readiness: _SentReadiness | None = None
    event_retention: _SentRetention | None = None
    stop_signal: str | None = None
    limits: _SentLimits | None = None


def parse_spec(sent: Any) -> SessionSpec:
    """Normalize `sent`: JSON bytes, the builtin objects of parsed JSON, or a `SentSpec`."""
    try:
        if isinstance(sent, bytes | bytearray | memoryview):
            sent = msgspec.json.decode(sent, type=SentSpec)
        elif not isinstance(sent, SentSpec):
            sent = msgspec.convert(sent, SentSpec)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidRequest(explain(error)) from None
    return _normalize(sent)


def explain(error: Exception) -> str:
    """msgspec's own words with the path first: `io.terminal.rows: Expected `int`, got `str``."""
    message, at, path = str(error).partition(" - at `$.")
    return f"{path.rstrip('`')}: {message}" if at else message.removesuffix(" - at `$`")


def _normalize(sent: SentSpec) -> SessionSpec:
    io = _io(sent.io or _SentIO())
    return SessionSpec(
        command=_command(sent.command),
        name=_name(sent.name),
        cwd=_cwd(sent.cwd),
        env=check_env("env", sent.env or {}),
        io=io,
        lifecycle=_lifecycle(sent.lifecycle or _SentLifecycle()),
        readiness=_readiness(sent.readiness or _SentReadiness()),
        event_retention=_retention(sent.event_retention or _SentRetention(), io),
        stop_signal=_stop_signal(sent.stop_signal),
        limits=_limits(sent.limits or _SentLimits()),
    )


def _command(command: list[str] | None) -> tuple[str, ...]:
    if not command:
        raise InvalidRequest("command: at least one string is required")
    if not command[0].strip():
        raise InvalidRequest("command[0]: must name a program, it is blank")
    if len(command) > MAX_ARGUMENTS:
        raise InvalidRequest(f"command: at most {MAX_ARGUMENTS} strings, got {len(command)}")
    for i, word in enumerate(command):
        _text(f"command[{i}]", word)
    if sum(len(word.encode()) + 1 for word in command) > MAX_COMMAND_BYTES:
        raise InvalidRequest(f"command: at most {MAX_COMMAND_BYTES} bytes in all")
    return tuple(command)


def _name(name: str | None) -> str | UnsetType:
    name = (name or "").strip()
    _text("name", name)
    if len(name.encode()) > MAX_NAME_BYTES:
        raise InvalidRequest(f"name: at most {MAX_NAME_BYTES} bytes")
    return name or UNSET


def _cwd(cwd: str | None) -> str | UnsetType:
    _text("cwd", cwd or "")
    return cwd or UNSET


def check_env(path: str, env: dict[str, str]) -> dict[str, str]:
    """An environment that a process can be given; else `InvalidRequest` naming `path`."""
    for name, value in env.items():
        if not name or "=" in name:
            raise InvalidRequest(f"{path}: a name must not be empty or contain '='")
        _text(path, name)
        _text(f"{path}.{name}", value)
    return env


def _text(path: str, value: str) -> None:
    """The kernel takes NUL-terminated bytes: no NUL, and nothing that UTF-8 cannot hold."""
    if "\0" in value:
        raise InvalidRequest(f"{path}: must not contain NUL")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(f"{path}: must be valid Unicode") from None


def _io(sent: _SentIO) -> IOSpec:
    mode = _enum("io.mode", sent.mode, IOMode.PIPES)
    if mode is IOMode.PIPES:
        return IOSpec()
    terminal = sent.terminal or _SentTerminal()
    _text("io.terminal.term", terminal.term or "")
    return IOSpec(
        mode,
        TerminalSpec(
            rows=_integer("io.terminal.rows", terminal.rows, 24, MAX_TERMINAL),
            cols=_integer("io.terminal.cols", terminal.cols, 80, MAX_TERMINAL),
            term=terminal.term or "xterm-256color",
        ),
    )


def _lifecycle(sent: _SentLifecycle) -> LifecycleSpec:
    def seconds(name: str, default: int) -> int:
        return _integer(f"lifecycle.{name}", getattr(sent, name), default, INT31)

    return LifecycleSpec(
        desired_state=_enum("lifecycle.desired_state", sent.desired_state, DesiredState.RUNNING),
        restart=_restart(sent.restart or _SentRestart()),
        runtime_recovery=_enum(
            "lifecycle.runtime_recovery", sent.runtime_recovery, RecoveryPolicy.RESTART
        ),
        idle_timeout_seconds=seconds("idle_timeout_seconds", 0),
        max_lifetime_seconds=seconds("max_lifetime_seconds", 0),
        stop_grace_period_seconds=seconds("stop_grace_period_seconds", 10),
    )


def _restart(sent: _SentRestart) -> RestartSpec:
    def number(name: str, default: int) -> int:
        return _integer(f"lifecycle.restart.{name}", getattr(sent, name), default, INT31)

    initial = number("initial_backoff_ms", 250)
    longest = number("max_backoff_ms", 5000)
    if longest < initial:
        if sent.initial_backoff_ms and sent.max_backoff_ms:
            raise InvalidRequest(
                f"lifecycle.restart.max_backoff_ms: must be at least initial_backoff_ms ({initial})"
            )
        # One of the two is only a default: it gives way to the one that was meant.
        initial = longest = initial if sent.initial_backoff_ms else longest
    return RestartSpec(
        policy=_enum("lifecycle.restart.policy", sent.policy, RestartPolicy.NEVER),
        max_restarts=number("max_restarts", 5),
        window_seconds=number("window_seconds", 60),
        initial_backoff_ms=initial,
        max_backoff_ms=longest,
    )


def _readiness(sent: _SentReadiness) -> ReadinessSpec:
    type_ = _enum("readiness.type", sent.type, ReadinessType.PROCESS)
    timeout = _integer("readiness.timeout_ms", sent.timeout_ms, 30_000, INT31)
    delay = _integer("readiness.delay_ms", sent.delay_ms, 0, INT31)
    if type_ is ReadinessType.DELAY:
        if delay >= timeout:
            raise InvalidRequest(f"readiness.delay_ms: must be below timeout_ms ({timeout})")
        return ReadinessSpec(type_, delay_ms=delay, timeout_ms=timeout)
    if type_ is ReadinessType.OUTPUT:
        return ReadinessSpec(type_, output=_ready_output(sent.output or ""), timeout_ms=timeout)
    return ReadinessSpec(type_, timeout_ms=timeout)


def _ready_output(output: str) -> str:
    if not output:
        raise InvalidRequest("readiness.output: must not be empty for type output")
    if len(output.encode(errors="surrogatepass")) > MAX_READY_OUTPUT_BYTES:
        raise InvalidRequest(f"readiness.output: at most {MAX_READY_OUTPUT_BYTES} bytes")
    try:
        output.encode()
    except UnicodeEncodeError:
        raise InvalidRequest("readiness.output: must be valid Unicode") from None
    return output


def _retention(sent: _SentRetention, io: IOSpec) -> RetentionSpec:
    most = _integer("event_retention.max_bytes", sent.max_bytes, 64 << 20, INT53)
    age = _integer("event_retention.max_age_seconds", sent.max_age_seconds, 86_400, INT53)
    typed = True if sent.input and io.mode is IOMode.PTY else UNSET
    return RetentionSpec(max(most, MIN_RETENTION_BYTES), age, typed)


def _stop_signal(name: str | None) -> str | UnsetType:
    if not name:
        return UNSET
    try:
        return signal_name(parse_signal(name))
    except InvalidRequest as error:
        raise InvalidRequest(f"stop_{error.message}") from None


def _limits(sent: _SentLimits) -> LimitsSpec | UnsetType:
    def most(name: str, value: int | None) -> int | UnsetType:
        return _integer(f"limits.{name}", value, 0, INT53) or UNSET

    if sent.cpu_max and not MIN_CPU <= sent.cpu_max <= MAX_CPU:
        raise InvalidRequest(f"limits.cpu_max: must be from {MIN_CPU} to {MAX_CPU} processors")
    limits = LimitsSpec(
        memory_max_bytes=most("memory_max_bytes", sent.memory_max_bytes),
        pids_max=most("pids_max", sent.pids_max),
        cpu_max=sent.cpu_max or UNSET,
        nofile=most("nofile", sent.nofile),
        # The one limit of which zero is a useful value: no core dumps.
        core=UNSET if sent.core is None else _integer("limits.core", sent.core, 0, INT53),
    )
    return UNSET if limits == LimitsSpec() else limits


def _integer(path: str, value: int | None, default: int, most: int) -> int:
    if not value:  # absent, null and zero all mean the default
        return default
    if not 0 < value <= most:
        raise InvalidRequest(f"{path}: must be from 0 to {most}, got {value}")
    return value


_E = TypeVar("_E", bound=enum.StrEnum)


def _enum(path: str, value: str | None, default: _E) -> _E:
    if not value:
        return default
    try:
        return type(default)(value)
    except ValueError:
        known = ", ".join(type(default))
        raise InvalidRequest(f"{path}: must be one of {known}") from None
