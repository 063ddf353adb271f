"""`s0d daemon ...`: the local daemon, which other verbs start on demand."""

from __future__ import annotations

import os
import select
import signal
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TextIO

import click

from s0d import __version__

from .background import LOG_NAME, flags_of, start_daemon
from .errors import CliError, Unreachable, UsageError
from .http import connect
from .options import Common, connection_options
from .patience import patience
from .ps import duration
from .render import notice, print_fields, print_json
from .target import Target

Json = dict[str, Any]

_LOOK: Final = 0.2
_CREDENTIALS: Final = struct.Struct("iII")  # pid, uid, gid (unix(7), SO_PEERCRED)


@click.group()
@connection_options
def daemon(common: Common) -> None:
    """Look at, start and stop the daemon of this user on this machine.

    s0d daemon status
    """


@daemon.command()
@connection_options
def status(common: Common) -> None:
    """Show the daemon: process, version, places, sessions. Exits with 5 where none answers.

    s0d daemon status -o json
    """
    answer = _status(common)
    if common.json:
        print_json(answer)
        return
    ownership = answer.pop("ownership")
    print_fields({**answer, "ownership": ownership["mode"]})
    if mismatch := version_mismatch(answer["version"]):
        notice(mismatch)


@daemon.command()
@connection_options
def start(common: Common) -> None:
    """Start the daemon in the background, where none answers.

    s0d daemon start
    """
    _check_ours(common.target)
    _start(common.target)


@daemon.command()
@connection_options
@click.option("--now", is_flag=True, help="Kill what does not end at once.")
def stop(common: Common, now: bool) -> None:
    """Stop the daemon and with it all that runs; answers when it has ended.

    Sessions are kept; the next daemon starts those again whose recovery says so.

    s0d daemon stop
    """
    pid = _stop(common, now)
    if not common.json:
        click.echo(f"stopped (pid {pid})")
    else:
        print_json({"stopped": True, "pid": pid})


@daemon.command()
@connection_options
@click.option("--now", is_flag=True, help="Kill what does not end at once.")
def restart(common: Common, now: bool) -> None:
    """Stop the daemon, where one answers, and start it again: as the version that is installed.

    s0d daemon restart
    """
    _check_ours(common.target)
    with suppress(Unreachable):
        _check_on_demand(int(common.client.status()["pid"]))
        _stop(common, now)
    _start(common.target)


@daemon.command()
@connection_options
@click.option("-n", "--tail", type=click.IntRange(0), default=20, show_default=True, metavar="N")
@click.option("-f", "--follow", is_flag=True, help="Go on with what is written; Ctrl-C ends.")
def logs(common: Common, tail: int, follow: bool) -> None:
    """Print the log of the daemon that was started on demand.

    s0d daemon logs --tail 50
    """
    _check_ours(common.target)
    log = _log_file()
    try:
        with open(log, encoding="utf-8", errors="backslashreplace") as file:
            _print(file, tail, follow)
    except FileNotFoundError:
        where = "a daemon that a service runs logs to the journal: journalctl -u s0d"
        raise CliError(f"{log}: there is none; {where}") from None


def _print(file: TextIO, tail: int, follow: bool) -> None:
    for line in deque(file, tail):
        click.echo(line, nl=False)
    while follow:
        if line := file.readline():
            click.echo(line, nl=False)
        else:
            sys.stdout.flush()
            time.sleep(_LOOK)  # a file offers nothing to wait for


def version_mismatch(theirs: str) -> str | None:
    """What to say where daemon and command are not of one version."""
    if theirs == __version__:
        return None
    return (
        f"the daemon is version {theirs}, this command {__version__}: "
        "bring them together with `s0d daemon restart`, or restart its service"
    )


def _status(common: Common) -> Json:
    target = common.target
    answer = common.client.status()
    places: Json = {"url": target.url}
    if target.is_default:
        from s0d.daemon.paths import default_state_dir

        log = _log_file()
        places["state_dir"] = str(default_state_dir(os.environ, os.geteuid()))
        if log.exists():
            places["log"] = str(log)
    if target.socket and (seconds := _age(answer["pid"])) is not None:
        places["uptime"] = duration(seconds)
    return {**answer, **places, "client_version": __version__}


def _age(pid: int) -> int | None:
    """Seconds since a process was started (proc(5), starttime)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        uptime = float(Path("/proc/uptime").read_text().split()[0])
    except OSError:
        return None
    ticks = int(stat.rpartition(")")[2].split()[19])
    return max(0, int(uptime - ticks / os.sysconf("SC_CLK_TCK")))


def _check_ours(target: Target) -> None:
    if not target.is_default:
        raise UsageError("this is about the local daemon: without --url and S0D_URL")


def _log_file() -> Path:
    from s0d.daemon.paths import default_state_dir

    return default_state_dir(os.environ, os.geteuid()) / LOG_NAME


def _start(target: Target) -> None:
    with patience("starting a daemon"):
        log = start_daemon()
    click.echo("a daemon is running already" if log is None else f"started (log: {log})")


def _check_on_demand(pid: int) -> None:
    """One that somebody started with flags of their own would come back without them."""
    with suppress(OSError):  # not visible here: `_stop` says what there is to say
        if flags := flags_of(pid):
            raise CliError(
                f"the daemon (pid {pid}) was started by `s0d serve {' '.join(flags)}`: "
                "stop it with `s0d daemon stop`, and start it as it was"
            )


def _stop(common: Common, now: bool) -> int:
    """End the process that answers on the socket, and wait for its end."""
    target = common.target
    if not target.socket:
        raise UsageError("a daemon is stopped on its own machine, by its local socket")
    pid = int(common.client.status()["pid"])
    with connect(target) as sock:
        credentials = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    if _CREDENTIALS.unpack(credentials)[0] != pid:
        raise CliError(
            f"the daemon (pid {pid}) was not started by hand: systemctl stop s0d.socket s0d.service"
        )
    try:
        handle = os.pidfd_open(pid)
    except OSError as error:
        raise CliError(f"the daemon (pid {pid}): {error.strerror}") from None
    try:
        signal.pidfd_send_signal(handle, signal.SIGTERM)
        with patience("waiting for its sessions to end"):
            if now and not _ends(handle, 0.1):
                signal.pidfd_send_signal(handle, signal.SIGTERM)  # the second one kills
            _ends(handle, None)
    except PermissionError:
        raise CliError(f"the daemon (pid {pid}) belongs to another user") from None
    finally:
        os.close(handle)
    return pid


def _ends(handle: int, seconds: float | None) -> bool:
    return bool(select.select([handle], [], [], seconds)[0])
