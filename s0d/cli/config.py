"""`s0d config`: what the daemon would be told, and by whom.  It asks no daemon."""

from __future__ import annotations

import os
from typing import Any

import click

from .errors import UsageError
from .options import Common
from .render import print_json, print_table

_file = click.option(
    "--config", "file", metavar="FILE", help="Default: S0D_CONFIG, or the system's."
)
_output = click.option(
    "-o", "--output", type=click.Choice(["table", "json"]), help="Default: table."
)


@click.group()
def config() -> None:
    """Check and show what `s0d serve` is configured to do.

    s0d config check --config /etc/s0d/s0d.toml
    """


@config.command()
@_file
def check(file: str | None) -> None:
    """Say what is wrong, or nothing: exit code 0 where the daemon would take it, 2 where not.

    s0d config check
    """
    _gather(file)
    from s0d.daemon.config import file_of
    from s0d.daemon.declared import Declarations
    from s0d.model.errors import InvalidRequest

    try:
        Declarations(file_of(os.environ, os.geteuid(), file))
    except InvalidRequest as error:
        raise UsageError(error.message) from None


@config.command()
@_file
@_output
@click.pass_context
def show(ctx: click.Context, /, file: str | None, output: str | None) -> None:
    """Every setting, its value and where that comes from.

    s0d config show
    """
    found = _gather(file)
    outer = ctx.find_object(Common) or Common()
    if (output or outer.output) == "json":
        print_json(
            {key: {"value": value, "origin": origin} for key, (value, origin) in found.items()}
        )
        return
    print_table(("KEY", "VALUE", "ORIGIN"), [(k, _word(v), o) for k, (v, o) in found.items()])


def _gather(file: str | None) -> dict[str, tuple[Any, str]]:
    from s0d.daemon.config import resolve_settings
    from s0d.model.errors import InvalidRequest

    try:
        return resolve_settings(os.environ, os.geteuid(), file, {})[1]
    except InvalidRequest as error:
        raise UsageError(error.message) from None


def _word(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) if isinstance(value, list) else str(value)
