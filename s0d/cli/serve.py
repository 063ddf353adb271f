"""`s0d serve`: the daemon in the foreground."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from .errors import CliError

if TYPE_CHECKING:
    from s0d.daemon.config import Config


@click.command()
@click.option("--state-dir", metavar="DIR", help="Sessions, journals, token.")
@click.option(
    "--listen",
    multiple=True,
    metavar="ADDRESS",
    help="HOST:PORT or unix:/path, several times; default: the local socket and 127.0.0.1:7707.",
)
@click.option("--sandbox-id", metavar="ID", help="The default sandbox's id; default: local.")
@click.option(
    "--reset-copied-sessions", is_flag=True, default=None, help="Clear another sandbox's sessions."
)
@click.option(
    "--no-cgroups",
    "cgroups",
    is_flag=True,
    flag_value=False,
    default=None,
    help="Find processes by /proc alone, also where cgroups could be made.",
)
@click.option("--run-as", metavar="USER[:GROUP]", help="Run sessions as this user (root only).")
@click.option("--log-format", type=click.Choice(["text", "json"]), help="Default: text.")
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="Default: info.",
)
@click.option("--config", "file", metavar="FILE", help="Its table [daemon]; flags are stronger.")
@click.option(
    "--no-access-log",
    "access_log",
    is_flag=True,
    flag_value=False,
    default=None,
    help="No line for each request.",
)
@click.option("--ready-fd", type=int, hidden=True, help="A newline goes here when we serve.")
@click.pass_context
def serve(
    ctx: click.Context, /, ready_fd: int | None, listen: tuple[str, ...], **flags: Any
) -> None:
    """Run the daemon in the foreground until SIGTERM or Ctrl-C.

    s0d serve --listen unix:/run/s0d/s0d.sock --listen 127.0.0.1:7707
    """
    config = resolve_config(listen=list(listen) or None, **flags)
    from s0d.daemon.standalone import standalone  # all of the server: only now

    ctx.exit(standalone(config, ready_fd=ready_fd))


def resolve_config(**flags: Any) -> Config:
    from s0d.daemon.config import resolve
    from s0d.model.errors import InvalidRequest, S0dError

    from .errors import UsageError

    try:
        return resolve(os.environ, os.geteuid(), **flags)
    except InvalidRequest as error:
        raise UsageError(error.message) from None
    except S0dError as error:
        raise CliError(error.message) from None
