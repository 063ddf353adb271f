"""A token on the command line, taken out of what the machine's other users see of it.

`/proc/PID/cmdline` shows the memory in which the kernel put the arguments (proc(5), `arg_start`
and `arg_end` in `/proc/PID/stat`): it is written over there.  For some milliseconds, until we run,
it was to be seen; `S0D_TOKEN` never is.
"""

from __future__ import annotations

from collections.abc import Iterator

_OPTION = b"--token"
_ARG_START, _ARG_END = 48, 49  # fields of /proc/PID/stat, counted from 1


def hide_token() -> None:
    """Write over the values of `--token`; where the kernel does not say where, nothing is done."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = (int(fields[n - 3]) for n in (_ARG_START, _ARG_END))
    except (OSError, ValueError, IndexError):
        return
    if not start:
        return
    import ctypes  # only for whoever gives one

    for at, size in _tokens(ctypes.string_at(start, end - start)):
        ctypes.memset(start + at, ord("x"), size)


def _tokens(area: bytes) -> Iterator[tuple[int, int]]:
    """Where tokens stand among the arguments, each ended by NUL; what follows `--` is no option."""
    at, follows = 0, False
    for argument in area.split(b"\0"):
        if follows:
            yield at, len(argument)
        elif argument == b"--":
            return
        elif argument.startswith(_OPTION + b"="):
            yield at + len(_OPTION) + 1, len(argument) - len(_OPTION) - 1
        follows = argument == _OPTION and not follows
        at += len(argument) + 1
