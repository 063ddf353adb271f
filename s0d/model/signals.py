"""Signals as clients write them: a name with or without `SIG`, in any case, or a number 1...64."""

from __future__ import annotations

import signal

from .errors import InvalidRequest

_HIGHEST = 64  # SIGRTMAX on Linux


def parse_signal(text: str | int) -> int:
    """The signal's number; `InvalidRequest` for anything Linux does not know."""
    word = str(text).strip().upper()
    if word.isascii() and word.isdigit() and len(word) <= 2:
        number = int(word)
        if 1 <= number <= _HIGHEST:
            return number
    elif word:
        number = getattr(signal, word if word.startswith("SIG") else f"SIG{word}", 0)
        if isinstance(number, signal.Signals):
            return int(number)
    raise InvalidRequest("signal: not a signal name or a number from 1 to 64")


def signal_name(number: int) -> str:
    """`SIGTERM` for 15; real-time signals as kill(1) lists them: `SIGRTMIN+3`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        above = number - signal.SIGRTMIN
        return f"SIGRTMIN+{above}" if above > 0 else f"SIG{number}"
