"""The group of all verbs; errors as one line and an exit code.

Exit codes: 0 done, 1 an error, 2 the command line makes no sense, 3 not found, 4 in conflict with
what is there, 5 no daemon answers, 124 a wait timed out, 130 interrupted; `s0d run`, `s0d attach`
and `s0d wait` exit as the command did.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

import click

from s0d import __version__

from .errors import ApiError, CliError, Unreachable, one_line
from .options import Common, connection_options

_VERBS = {
    "attach": ("s0d.cli.attach", "attach"),
    "completion": ("s0d.cli.help", "completion"),
    "config": ("s0d.cli.config", "config"),
    "daemon": ("s0d.cli.daemon", "daemon"),
    "doctor": ("s0d.cli.doctor", "doctor"),
    "down": ("s0d.cli.up", "down"),
    "help": ("s0d.cli.help", "help_"),
    "inspect": ("s0d.cli.manage", "inspect"),
    "journal": ("s0d.cli.journal", "journal"),
    "kill": ("s0d.cli.manage", "kill"),
    "logs": ("s0d.cli.logs", "logs"),
    "mcp": ("s0d.cli.mcp", "mcp"),
    "ps": ("s0d.cli.ps", "ps"),
    "restart": ("s0d.cli.manage", "restart"),
    "rm": ("s0d.cli.manage", "rm"),
    "run": ("s0d.cli.run", "run"),
    "sandbox": ("s0d.cli.sandbox", "sandbox"),
    "serve": ("s0d.cli.serve", "serve"),
    "session": ("s0d.cli.session", "session"),
    "start": ("s0d.cli.manage", "start"),
    "stop": ("s0d.cli.manage", "stop"),
    "token": ("s0d.cli.token", "token"),
    "top": ("s0d.cli.ps", "top"),
    "up": ("s0d.cli.up", "up"),
    "wait": ("s0d.cli.manage", "wait"),
}
_OF_ANOTHER_VERSION = ("not_found", "method_not_allowed", "invalid_request")


class LazyGroup(click.Group):
    """Imports a verb when it is called, so that each starts as fast as its own imports allow."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, name = _VERBS[cmd_name]
        command = getattr(import_module(module), name)
        assert isinstance(command, click.Command)
        return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="s0d", message="%(prog)s %(version)s")
@connection_options
def s0d(common: Common) -> None:
    """Durable, replayable process sessions.

    s0d run -- sh -c 'echo hello; sleep 2; echo bye'
    """


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    _open_standard_streams()
    if any(argument.startswith("--token") for argument in sys.argv):
        from s0d.cli.secrecy import hide_token

        hide_token()
    try:
        result = s0d.main(arguments, prog_name="s0d", standalone_mode=False)
    except Unreachable as error:
        return _fail(f"{error}{_advice(error)}", error.exit_code)
    except ApiError as error:
        return _fail(f"{error}{_mismatch(error)}", error.exit_code)
    except CliError as error:
        return _fail(str(error), error.exit_code)
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "s0d"
        return _fail(f"{error.format_message()} (see {path} --help)", 2)
    except click.Abort:
        return 130
    except BrokenPipeError:
        _discard_output()  # whoever read it has left
        return 1
    except OSError as error:  # our own output, mostly: a full disk
        _discard_output()
        return _fail(str(error), 1)
    return result if isinstance(result, int) else 0


def _open_standard_streams() -> None:
    """Put /dev/null where a standard descriptor is closed (`<&-`).

    Else the first socket or file that is opened takes its number: output would be sent to the
    daemon in the middle of a request, a daemon would log into its own state.
    """
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one: `fd`


def _discard_output() -> None:
    """What is still buffered cannot be written; the interpreter would complain when it flushes."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _advice(error: Unreachable) -> str:
    from .advice import advice

    return advice(error.target)


def _mismatch(error: ApiError) -> str:
    """What a daemon does not know may be what only another version knows."""
    if error.target is None or error.code not in _OF_ANOTHER_VERSION:
        return ""
    from .advice import mismatch

    return mismatch(error.target)


def _fail(message: str, code: int) -> int:
    print(f"s0d: {one_line(message)}", file=sys.stderr)
    return code
