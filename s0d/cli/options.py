"""Flags that several verbs share, and what they come to.

Where the daemon is and how to print may be said before or after the verb: `s0d -o json session
list` is `s0d session list -o json`.  The nearer one wins.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import click

from .client import Client
from .target import Target, resolve

_NAMES = ("url", "token", "sandbox", "output")


@dataclass(frozen=True)
class Common:
    """Where to and how to print."""

    url: str | None = None
    token: str | None = None
    sandbox: str | None = None
    output: str | None = None

    @property
    def target(self) -> Target:
        return resolve(self.url, self.token, os.environ)

    @property
    def client(self) -> Client:
        return Client(self.target, self.sandbox)

    @property
    def json(self) -> bool:
        return self.output == "json"


def complete_session(ctx: click.Context, param: click.Parameter, text: str) -> list[str]:
    """For a shell: names of sessions, and ids where what is there begins as one does."""
    from .errors import CliError

    given: dict[str, str] = {}
    place: click.Context | None = ctx  # no verb has run: the flags are where they were written
    while place is not None:
        given = {n: v for n in _NAMES if (v := place.params.get(n)) is not None} | given
        place = place.parent
    common = Common(**given)
    try:
        sessions = common.client.list()
    except CliError:
        return []  # a shell has no place for an error
    names = [session["spec"].get("name", "") for session in sessions]
    ids = [session["id"] for session in sessions] if text.startswith("ses-") else []
    return sorted({word for word in (*names, *ids) if word and word.startswith(text)})


session_argument: Final = click.argument("id", metavar="NAME|ID", shell_complete=complete_session)


def connection_options(
    function: Callable[..., Any], output: tuple[str, ...] = ("-o", "--output", "output")
) -> Callable[..., Any]:
    """`--url --token --sandbox -o`, handed to `function` as one `common: Common`.

    `output` is for a verb that means something else by `--output`.
    """

    @click.option("--url", metavar="URL", help="http://HOST:PORT or unix:/path  [env: S0D_URL]")
    @click.option("--token", metavar="TOKEN", help="Bearer token; better by S0D_TOKEN.")
    @click.option("--sandbox", metavar="ID", help="Sandbox; default: the daemon's own (local).")
    @click.option(*output, type=click.Choice(["table", "json"]), help="Default: table.")
    @click.pass_context
    @functools.wraps(function)
    def wrapper(ctx: click.Context, /, **given: Any) -> Any:
        here = {name: given.pop(name) for name in _NAMES}
        outer = ctx.obj if isinstance(ctx.obj, Common) else Common()
        common = Common(**{n: v if v is not None else getattr(outer, n) for n, v in here.items()})
        ctx.obj = common
        return ctx.invoke(function, common=common, **given)

    return wrapper
