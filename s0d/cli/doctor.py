"""`s0d doctor`: what is in force on this machine, what is missing, how to get it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from s0d import __version__

from .errors import ApiError, CliError, Unreachable, one_line
from .options import Common, connection_options

if TYPE_CHECKING:
    from s0d.daemon.doctor import Finding

Json = dict[str, Any]


@click.command()
@click.option("--state-dir", metavar="DIR", help="The daemon's; default: as for `s0d serve`.")
@connection_options
@click.pass_context
def doctor(ctx: click.Context, /, common: Common, state_dir: str | None) -> None:
    """Say how processes are owned here, what is missing and how to get it.

    Exits with 0 when all is well, with 1 when there is something to mend.

    s0d doctor; s0d doctor -o json
    """
    from s0d.daemon.doctor import examine

    status, daemon = _ask(common)
    path = Path(state_dir).absolute() if state_dir else None
    in_force = status["ownership"] if status is not None else None
    findings = [*examine(os.environ, os.geteuid(), path, in_force), daemon]
    well = all(finding.well for finding in findings)
    if common.json:
        _print_json(well, findings, status)
    else:
        for finding in findings:
            _print(finding)
    ctx.exit(0 if well else 1)


def _ask(common: Common) -> tuple[Json | None, Finding]:
    """The daemon's own report, and what there is to say about the daemon."""
    from s0d.daemon.doctor import Finding

    target = common.target
    try:
        status = common.client.status()
    except Unreachable as error:
        mend = "" if target.is_default else "start it, or correct --url and S0D_URL"
        text = "none answers; `s0d run` starts one" if target.is_default else str(error)
        return None, Finding("daemon", text, mend)
    except ApiError as error:
        mend = "restart it" if error.status == 404 else "see the message"
        return None, Finding("daemon", f"{target.url}: {error}", mend)
    except CliError as error:
        return None, Finding("daemon", f"{target.url}: {error}", "see its log")
    version = status["version"]
    text = f"s0d {version}, process {status['pid']}, answers on {target.url}"
    if "run_as" in status:
        text += f"; sessions run as {status['run_as']}"
    mend = "" if version == __version__ else f"restart it: {__version__} is installed"
    return status, Finding("daemon", text, mend)


def _print(finding: Finding) -> None:
    mark = "ok" if finding.well else "mend"
    click.echo(f"{mark:<6}{finding.name:<13}{one_line(finding.text)}")
    if finding.mend:
        click.echo(f"{'':<19}→ {one_line(finding.mend)}")


def _print_json(well: bool, findings: list[Finding], status: Json | None) -> None:
    report: Json = {
        "ok": well,
        "findings": [
            {"name": f.name, "ok": f.well, "text": f.text, **({"mend": f.mend} if f.mend else {})}
            for f in findings
        ],
    }
    if status is not None:
        report["daemon"] = status
    click.echo(msgspec.json.encode(report).decode())
