"""A session specification from flags or from a file, as the API takes it.

Nothing is checked here that the daemon checks: its error names the field and the bound.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any, cast

import click
import msgspec

from .duration import SECONDS
from .errors import CliError, UsageError

Json = dict[str, Any]

_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option("--name", help="A name to recognize it by."),
    click.option("--cwd", metavar="DIR", help="Working directory."),
    click.option("-e", "--env", multiple=True, metavar="K=V", help="Environment; K alone: ours."),
    click.option("--pty", is_flag=True, help="Run in a terminal instead of pipes."),
    click.option("--rows", type=int, help="Terminal height."),
    click.option("--cols", type=int, help="Terminal width."),
    click.option("--term", help="The terminal's TERM."),
    click.option(
        "--restart", type=click.Choice(["never", "on_failure", "always"]), help="Default: never."
    ),
    click.option("--runtime-recovery", type=click.Choice(["restart", "stop"])),
    click.option("--idle-timeout", type=SECONDS, metavar="TIME", help="Stop after such a silence."),
    click.option("--max-lifetime", type=SECONDS, metavar="TIME", help="Stop after this time."),
    click.option("--stop-grace", type=SECONDS, metavar="TIME", help="From SIGTERM to SIGKILL."),
    click.option("--readiness", type=click.Choice(["process", "delay", "output"])),
    click.option("--ready-delay-ms", type=int, metavar="MS"),
    click.option("--ready-output", metavar="TEXT", help="Ready when the output has this."),
    click.option("--ready-timeout-ms", type=int, metavar="MS"),
    click.option("--retain-input", is_flag=True, help="Keep what is typed, for recordings."),
)


def spec_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The flags of a specification; `from_flags` takes what they were given."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def from_flags(command: tuple[str, ...], flags: Mapping[str, Any]) -> Json:
    """The specification that flags mean; what was not given is left to the daemon's default."""
    terminal = _given(rows=flags["rows"], cols=flags["cols"], term=flags["term"])
    if terminal and not flags["pty"]:
        raise UsageError("--rows, --cols and --term need --pty")
    if flags["retain_input"] and not flags["pty"]:
        raise UsageError("--retain-input needs --pty")
    lifecycle = _given(
        restart=_given(policy=flags["restart"]),
        runtime_recovery=flags["runtime_recovery"],
        idle_timeout_seconds=flags["idle_timeout"],
        max_lifetime_seconds=flags["max_lifetime"],
        stop_grace_period_seconds=flags["stop_grace"],
    )
    readiness = _given(
        type=flags["readiness"] or _implied_readiness(flags),
        delay_ms=flags["ready_delay_ms"],
        output=flags["ready_output"],
        timeout_ms=flags["ready_timeout_ms"],
    )
    return _given(
        command=list(command),
        name=flags["name"],
        cwd=flags["cwd"],
        env=_environment(flags["env"], os.environ),
        io=_given(mode="pty" if flags["pty"] else None, terminal=terminal),
        lifecycle=lifecycle,
        readiness=readiness,
        event_retention=_given(input=flags["retain_input"] or None),
    )


def choose(command: tuple[str, ...], spec_file: str | None, flags: Mapping[str, Any]) -> Json:
    """From flags or from a complete file, never a mixture of which nobody knows what wins."""
    if spec_file is None:
        if not command:
            raise UsageError("give a command after --, or --spec-file")
        return from_flags(command, flags)
    if command or any(flags.values()):
        raise UsageError("--spec-file is the complete specification: no command or flags beside it")
    return from_file(spec_file)


def from_file(path: str) -> Json:
    """A specification in JSON or YAML; `-` is standard input."""
    try:
        if path == "-":
            text = sys.stdin.buffer.read()
        else:
            with open(path, "rb") as file:
                text = file.read()
    except OSError as error:
        raise CliError(f"{path}: {error.strerror}") from None
    value = _parse(path, text)
    if not isinstance(value, dict):
        raise CliError(f"{path}: a specification is a mapping, with a command")
    return cast(Json, value)


def _parse(path: str, text: bytes) -> Any:
    """JSON first: it is quicker, and YAML 1.1 is not quite a superset of it."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError):
        pass  # then it is YAML, whose parser also has the better place to point at
    import yaml

    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeError) as error:
        raise CliError(f"{path}: neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _implied_readiness(flags: Mapping[str, Any]) -> str | None:
    if flags["ready_output"] is not None:
        return "output"
    return "delay" if flags["ready_delay_ms"] is not None else None


def _environment(words: tuple[str, ...], ours: Mapping[str, str]) -> dict[str, str]:
    """`K=V` as it is; `K` alone passes our own value on, and is left out where there is none."""
    env: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name:
            raise UsageError(f"--env {word}: write NAME=VALUE, or NAME to pass ours on")
        if equals:
            env[name] = value
        elif name in ours:
            env[name] = ours[name]
    return env


def _given(**fields: Any) -> Json:
    """The fields that were given; empty parts are left out."""
    return {name: value for name, value in fields.items() if value is not None and value != {}}
