"""Errors of the named sessions' surface: problem details (RFC 9457)."""

from __future__ import annotations

from typing import Any, Final

from s0d.model.errors import S0dError

from .envelope import to_json

PREFIX: Final = "/v1/"
CONTENT_TYPE: Final = "application/problem+json"
TYPE_PREFIX: Final = "urn:s0d:problem:"
# The same fault has another name on this surface.
CODES: Final = {"invalid_request": "validation_failed"}


def expects_problem(target: str, root_path: str = "") -> bool:
    """Does whoever asked for this request target, a path or a whole URI, expect problem details?"""
    if not target.startswith("/"):
        target = "/" + target.partition("://")[2].partition("/")[2]
    return target.removeprefix(root_path).startswith(PREFIX)


def code_of(error: S0dError) -> str:
    """The word that clients of this surface branch on."""
    return CODES.get(error.code, error.code)


def problem_of(error: S0dError, status: int) -> bytes:
    return problem(code_of(error), status, error.message, error.details)


def problem(code: str, status: int, detail: str, details: dict[str, Any] | None = None) -> bytes:
    fields: dict[str, Any] = {
        "type": TYPE_PREFIX + code.replace("_", "-"),
        "title": code.replace("_", " ").capitalize(),
        "status": status,
        "code": code,
        "detail": detail,
    }
    if details:
        fields["details"] = details
    return to_json(fields)
