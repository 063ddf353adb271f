"""Errors of the named sessions' surface: problem details (RFC 9457)."""

from __future__ import annotations

from typing import Any, Final

from s0d.model.errors import S0dError

from .envelope import to_json

CONTENT_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:s0d:problem:"
# The same fault has another name on this surface.
_CODES: Final = {"invalid_request": "validation_failed"}


def code_of(error: S0dError) -> str:
    """The word that clients of this surface branch on."""
    return _CODES.get(error.code, error.code)


def problem_of(error: S0dError, status: int) -> bytes:
    code = code_of(error)
    fields: dict[str, Any] = {
        "type": TYPE_PREFIX + code.replace("_", "-"),
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": error.message,
    }
    if error.details:
        fields["details"] = error.details
    return to_json(fields)
