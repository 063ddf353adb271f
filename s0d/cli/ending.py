"""How a session ended, in words and as an exit code."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

CANNOT_START = 127
_BY_ITSELF = ("exited", "signaled")


def exit_code_of(session: Json) -> int:
    """The command's own; 127 where it could not be started, as shells have it."""
    code = session.get("attempt", {}).get("exit_code")
    return CANNOT_START if code is None else int(code)


def ending(session: Json) -> str:
    """`exited with code 3`, `was ended by SIGTERM (desired_state_stopped)`."""
    attempt = session.get("attempt", {})
    code, signal, reason = (attempt.get(key) for key in ("exit_code", "signal", "reason"))
    if code is None and not signal:
        words = "did not start"
    elif signal:
        words = f"was ended by {signal}"
    else:
        words = f"exited with code {code}"
    why = [word for word in (reason, attempt.get("message")) if word and word not in _BY_ITSELF]
    return f"{words} ({': '.join(why)})" if why else words
