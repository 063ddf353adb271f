"""`s0d token`: the tokens that TCP clients need.  Works on the daemon's files, asks nobody."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

from .duration import SECONDS
from .errors import CliError, UsageError
from .options import Common
from .render import print_json, print_table
from .serve import resolve_config

if TYPE_CHECKING:
    from s0d.daemon.token import StoredToken, TokenFile

_ROLES = ("viewer", "operator", "admin")
_state_dir = click.option(
    "--state-dir", metavar="DIR", help="The daemon's; default: as for `s0d serve`."
)


@click.group(invoke_without_command=True)
@_state_dir
@click.pass_context
def token(ctx: click.Context, state_dir: str | None) -> None:
    """Print the daemon's own token, or manage tokens of others.

    Without a verb: the token that may do everything; it is made where there is none yet.

    S0D_TOKEN=$(s0d token) s0d session list --url http://127.0.0.1:7707
    """
    if ctx.invoked_subcommand is None:
        click.echo(resolve_config(state_dir=state_dir).token)


def _on_the_file(function: Callable[..., None]) -> Callable[..., Any]:
    """Hands the token file, and whether to print JSON, to `function`."""

    @_state_dir
    @click.option("-o", "--output", type=click.Choice(["table", "json"]), help="Default: table.")
    @click.pass_context
    @wraps(function)
    def wrapper(
        ctx: click.Context, /, state_dir: str | None, output: str | None, **given: Any
    ) -> None:
        from s0d.daemon.token import token_file

        assert ctx.parent is not None
        outer = ctx.find_object(Common) or Common()
        directory = state_dir or ctx.parent.params["state_dir"]
        with _one_line():
            file = token_file(directory, os.environ, os.geteuid())
            function(file=file, as_json=(output or outer.output) == "json", **given)

    return wrapper


@contextmanager
def _one_line() -> Iterator[None]:
    from s0d.model.errors import InvalidRequest, S0dError

    try:
        yield
    except InvalidRequest as error:
        raise UsageError(error.message) from None
    except S0dError as error:
        raise CliError(error.message) from None


@token.command()
@click.option("--name", required=True, help="What logs and lists call it.")
@click.option("--role", type=click.Choice(_ROLES), default="operator", show_default=True)
@click.option(
    "--sandbox", "sandboxes", multiple=True, metavar="ID", help="Several times; default: all."
)
@click.option("--expires", type=SECONDS, metavar="DURATION", help="5m, 2h, 7d; default: never.")
@_on_the_file
def create(
    file: TokenFile,
    as_json: bool,
    name: str,
    role: str,
    sandboxes: Sequence[str],
    expires: int | None,
) -> None:
    """Make a token and print it, this once: it is kept as a hash.

    s0d token create --name ci --role operator --sandbox build --expires 30d
    """
    from s0d.daemon.token import Role

    made, secret = file.create(name, Role(role), list(sandboxes) or None, expires)
    if as_json:
        print_json({**_shown(made), "token": secret})
    else:
        click.echo(secret)


@token.command("list")
@_on_the_file
def list_(file: TokenFile, as_json: bool) -> None:
    """List the tokens that were made; their secrets are nowhere.

    s0d token list
    """
    found = [_shown(each) for each in file.all()]
    if as_json:
        print_json(found)
        return
    rows = [(t["name"], t["role"], " ".join(t["sandboxes"] or ["(all)"]), _until(t)) for t in found]
    print_table(("NAME", "ROLE", "SANDBOXES", "EXPIRES"), rows)


@token.command()
@click.argument("name")
@_on_the_file
def revoke(file: TokenFile, as_json: bool, name: str) -> None:
    """Revoke a token: it is refused from now on, and what it has open ends.

    s0d token revoke ci
    """
    file.revoke(name)
    if as_json:
        print_json({"name": name, "revoked": True})


def _shown(token: StoredToken) -> dict[str, Any]:
    from s0d.wire.times import rfc3339

    expires = token.expires_at
    return {
        "name": token.name,
        "role": token.role.value,
        "sandboxes": token.sandboxes,
        "created_at": rfc3339(token.created_at * 10**9),
        "expires_at": None if expires is None else rfc3339(expires * 10**9),
        "expired": expires is not None and expires <= time.time(),
    }


def _until(token: dict[str, Any]) -> str:
    if token["expires_at"] is None:
        return "never"
    return f"{token['expires_at']}{' (expired)' if token['expired'] else ''}"
