"""`s0d sandbox ...`: every verb of the sandboxes API."""

from __future__ import annotations

from typing import Any

import click

from .duration import SECONDS
from .errors import UsageError
from .options import Common, connection_options
from .patience import patience
from .render import print_fields, print_json, print_table

Json = dict[str, Any]

_id = click.argument("id")
_NEVER = "0001-01-01T00:00:00Z"


@click.group()
@connection_options
def sandbox(common: Common) -> None:
    """Make, look at and control sandboxes: places that sessions live in.

    s0d sandbox create --id work
    """


def _show(common: Common, value: Json) -> None:
    if common.json:
        print_json(value)
    else:
        print_fields({key: _plain(field) for key, field in value.items()})


def _plain(value: Any) -> Any:
    return "never" if value == _NEVER else str(value).lower() if isinstance(value, bool) else value


def _configuration(
    env: tuple[str, ...],
    ttl: int | None,
    hard_ttl: int | None,
    auto_resume: bool | None,
    idle_suspend: int | None,
) -> Json:
    config: Json = {
        "ttl": ttl,
        "hard_ttl": hard_ttl,
        "auto_resume": auto_resume,
        "idle_suspend_seconds": idle_suspend,
    }
    if env:
        pairs = [word.partition("=") for word in env]
        if not all(name and equals for name, equals, _ in pairs):
            raise UsageError("--env: write NAME=VALUE")
        config["env_vars"] = {name: value for name, _, value in pairs}
    return {name: value for name, value in config.items() if value is not None}


def _config_options(function: Any) -> Any:
    options = (
        click.option("-e", "--env", multiple=True, metavar="K=V", help="For all its sessions."),
        click.option("--ttl", type=SECONDS, metavar="TIME", help="Pause when not refreshed."),
        click.option("--hard-ttl", type=SECONDS, metavar="TIME", help="Delete after this time."),
        click.option("--auto-resume/--no-auto-resume", default=None, help="When it is used."),
        click.option("--idle-suspend", type=SECONDS, metavar="TIME", help="Freeze when quiet."),
    )
    for option in reversed(options):
        function = option(function)
    return function


@sandbox.command("list")
@connection_options
@click.option("--status", metavar="STATUS", help="Only these.")
@click.option("--template", metavar="NAME", help="Only those of it.")
@click.option("--paused/--not-paused", default=None, help="Only those.")
def list_(common: Common, status: str | None, template: str | None, paused: bool | None) -> None:
    """List sandboxes.

    s0d sandbox list --status running
    """
    wanted = None if paused is None else str(paused).lower()
    sandboxes = common.client.sandboxes(status=status, template_id=template, paused=wanted)
    if common.json:
        print_json(sandboxes)
        return
    keys = ("id", "template_id", "status", "runtime_generation", "created_at", "expires_at")
    head = ("ID", "TEMPLATE", "STATUS", "GENERATION", "CREATED", "EXPIRES")
    print_table(head, [[str(_plain(one[key])) for key in keys] for one in sandboxes])


@sandbox.command()
@connection_options
@_config_options
@click.option("--id", metavar="ID", help="Default: a new one.")
@click.option("--template", metavar="NAME", help="A word to recognize it by.")
@click.option("--root", metavar="DIR", help="Its root directory; default: a new one.")
def create(
    common: Common, id: str | None, template: str | None, root: str | None, **flags: Any
) -> None:
    """Make a sandbox.

    s0d sandbox create --id work --ttl 1h
    """
    config = _configuration(**flags) | ({"root": root} if root else {})
    body = {"id": id, "template": template, "config": config}
    given = {name: value for name, value in body.items() if value}
    _show(common, common.client.sandbox("POST", body=given))


@sandbox.command()
@connection_options
@_id
def get(common: Common, id: str) -> None:
    """Show a sandbox.

    s0d sandbox get local
    """
    _show(common, common.client.sandbox("GET", id))


@sandbox.command()
@connection_options
@_id
def status(common: Common, id: str) -> None:
    """Show where a sandbox stands, and when its time is up.

    s0d sandbox status local
    """
    _show(common, common.client.sandbox("GET", id, "status"))


@sandbox.command()
@connection_options
@_config_options
@_id
def update(common: Common, id: str, **flags: Any) -> None:
    """Change what is given; the rest stays.

    s0d sandbox update work --ttl 2h
    """
    config = _configuration(**flags)
    if not config:
        raise UsageError("give something to change: see --help")
    _show(common, common.client.sandbox("PUT", id, body={"config": config}))


@sandbox.command()
@connection_options
@_id
def delete(common: Common, id: str) -> None:
    """End all that runs in a sandbox, and remove it with its sessions and files.

    s0d sandbox delete work
    """
    with patience(f"waiting for the processes of {id}"):
        answer = common.client.sandbox("DELETE", id)
    _show(common, answer)


@sandbox.command()
@connection_options
@click.option("--memory", is_flag=True, help="Freeze the processes instead of ending them.")
@_id
def pause(common: Common, id: str, memory: bool) -> None:
    """End what runs in a sandbox until it is resumed; sessions are kept.

    s0d sandbox pause work --memory
    """
    with patience(f"waiting for the processes of {id}"):
        answer = common.client.sandbox("POST", id, "pause", {"memory": memory})
    _show(common, answer)


@sandbox.command()
@connection_options
@_id
def resume(common: Common, id: str) -> None:
    """Have a paused sandbox go on.

    s0d sandbox resume work
    """
    _show(common, common.client.sandbox("POST", id, "resume"))


@sandbox.command()
@connection_options
@click.option("--duration", type=SECONDS, metavar="TIME", help="For once, in place of its ttl.")
@_id
def refresh(common: Common, id: str, duration: int | None) -> None:
    """Give a sandbox its ttl anew.

    s0d sandbox refresh work --duration 30m
    """
    body = {} if duration is None else {"duration": duration}
    _show(common, common.client.sandbox("POST", id, "refresh", body))


@sandbox.command()
@connection_options
@click.option("--memory", is_flag=True, help="With its processes, where the host can do that.")
@_id
def fork(common: Common, id: str, memory: bool) -> None:
    """Copy a sandbox's files into a new one, which is paused; sessions are not copied.

    s0d sandbox fork work
    """
    answer = common.client.sandbox("POST", id, "fork", {"memory": True} if memory else {})
    if common.json:
        print_json(answer)
    else:
        _show(common, {"source_sandbox_id": answer["source_sandbox_id"], **answer["sandbox"]})
