"""What to do where no daemon answers."""

from __future__ import annotations

from .client import Client
from .errors import CliError
from .target import DEFAULT_PORT, Target

_TCP = f"http://127.0.0.1:{DEFAULT_PORT}"


def advice(target: Target) -> str:
    """A few words for the end of an error, empty where there is nothing better to do."""
    if not target.is_default:
        return ""
    if tcp_answers():
        return (
            f"; a daemon answers on {_TCP}: use it with --url {_TCP} "
            "and S0D_TOKEN set to what `s0d token` prints"
        )
    return "; start one with `s0d serve`, or let `s0d run` do it"


def mismatch(target: Target) -> str:
    """That the daemon is of another version, where it is."""
    from .daemon import version_mismatch

    try:
        said = version_mismatch(str(Client(target).metadata().get("version")))
    except CliError:
        return ""
    return f"; {said}" if said else ""


def tcp_answers() -> bool:
    """Does an s0d answer on the default port, where none answers on the socket?"""
    target = Target(url=_TCP, host="127.0.0.1", port=DEFAULT_PORT)
    try:
        return Client(target).metadata().get("service") == "s0d"
    except CliError:
        return False
