"""What a tool fails with: a code of the wire contract, words for it, and what to do next."""

from __future__ import annotations

from typing import Any, Final

_SEE = "Call session_list for the names and states of all sessions."
ADVICE: Final = {
    "session_not_found": f"{_SEE} Make one with session_create.",
    "sandbox_not_found": "Leave sandbox_id out to use the default sandbox.",
    "session_exists": (
        "Use the session that is there; or if it has ended pass replace: true; or if it is live "
        "end it with session_kill, wait with session_wait (exit: true), then create it again."
    ),
    "session_live": "End it first with session_kill.",
    "session_conflict": (
        "The session is not in a state for this (it has ended, or has no terminal). "
        "Call session_list to see its status; session_create with replace: true runs it again."
    ),
    "sandbox_conflict": "The sandbox is paused or ending: resume it first, or use another one.",
    "invalid_request": "Correct the field that the message names and call the tool again.",
    "validation_failed": "Correct the field that the message names and call the tool again.",
    "unknown_tool": "Use one of the tools that are listed.",
    "wait_timeout": (
        "Nothing was changed and the session goes on. Look with session_output or session_screen; "
        "call session_wait again to wait longer."
    ),
    "event_cursor_expired": (
        "That output is no longer kept. Call session_output without after for the newest output, "
        "or go on from the place that the message names."
    ),
    "input_buffer_full": (
        "The program does not read its input. Nothing was sent. Look at what it is doing, "
        "and try again later."
    ),
    "limit_exceeded": "Try again later, or end sessions that are not needed.",
    "request_too_large": "Send less at once.",
    "unauthorized": "A person has to configure a valid token (s0d token prints it).",
    "forbidden": "This token may not do that. Use a sandbox_id that it covers, or ask a person.",
    "unavailable": "Try again in a second.",
    "unreachable": "A person has to start the daemon with `s0d serve`.",
    "stop_incomplete": "A process cannot be ended by the system at the moment. Try again later.",
    "internal_error": "This is a fault of s0d. Try once more; then tell a person.",
}
_FALLBACK: Final = "Read the message; if the call was right, tell a person."


class ToolError(Exception):
    """A failure that the model is told about; nothing else leaves a tool."""

    def __init__(self, code: str, message: str, details: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def view(self) -> dict[str, Any]:
        message = self.message.encode("utf-8", "replace").decode()  # it may quote anything
        error: dict[str, Any] = {"code": self.code, "message": message}
        if self.details:
            error["details"] = self.details
        error["what_to_do"] = ADVICE.get(self.code, _FALLBACK)
        return {"error": error}


def invalid(message: str) -> ToolError:
    return ToolError("invalid_request", message)
