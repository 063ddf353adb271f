"""Errors of the HTTP edge, and what every error code is in HTTP (wire contract, section 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

from s0d.model.errors import LimitExceeded, S0dError
from s0d.wire.envelope import failure_of
from s0d.wire.problem import CONTENT_TYPE, problem_of

STATUS: Final = {
    "invalid_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "session_not_found": 404,
    "sandbox_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "request_timeout": 408,
    "wait_timeout": 408,
    "session_conflict": 409,
    "session_exists": 409,
    "session_live": 409,
    "sandbox_conflict": 409,
    "event_cursor_expired": 410,
    "request_too_large": 413,
    "unsupported_media_type": 415,
    "misdirected_request": 421,
    "input_buffer_full": 429,
    "limit_exceeded": 429,
    "internal_error": 500,
    "unavailable": 503,
    "stop_incomplete": 503,
}

RETRY_AFTER: Final = 1  # seconds: a queue drains and a start or stop ends in about that


class Unauthorized(S0dError):
    """No token, or not one of ours."""

    code = "unauthorized"


class TooManyFailures(LimitExceeded):
    """Wrong tokens came from there one after the other; `wait` is in seconds."""

    def __init__(self, wait: float) -> None:
        super().__init__("too many wrong tokens: try again later")
        self.retry_after = math.ceil(wait)


class Forbidden(S0dError):
    """The caller is known but may not do this, or a foreign web page is behind the request."""

    code = "forbidden"


class NotFound(S0dError):
    """There is no such route."""

    code = "not_found"


class MethodNotAllowed(S0dError):
    """The route exists, with other methods."""

    code = "method_not_allowed"

    def __init__(self, allowed: Iterable[str]) -> None:
        self.allowed = sorted(allowed)
        super().__init__(f"this path takes {', '.join(self.allowed)}")


class RequestTimeout(S0dError):
    """The body did not arrive in time."""

    code = "request_timeout"


class WaitTimeout(S0dError):
    """What was waited for did not come true in time."""

    code = "wait_timeout"


class RequestTooLarge(S0dError):
    """The body is above the limit."""

    code = "request_too_large"


class UnsupportedMediaType(S0dError):
    """The body is not JSON."""

    code = "unsupported_media_type"


class MisdirectedRequest(S0dError):
    """The Host is not one of ours: DNS rebinding, or a name nobody configured."""

    code = "misdirected_request"


class InternalError(S0dError):
    """A bug; the log has the rest under the request id."""

    code = "internal_error"


def status_of(error: S0dError) -> int:
    return STATUS.get(error.code, 500)


def answer_of(error: S0dError, *, problem: bool) -> tuple[bytes, dict[str, str]]:
    """Body and headers: problem details under `/v1`, the envelope everywhere else."""
    body, kind = failure_of(error), "application/json"
    if problem:
        body, kind = problem_of(error, status_of(error)), CONTENT_TYPE
    return body, {"content-type": kind, **headers_of(error)}


def headers_of(error: S0dError) -> dict[str, str]:
    """The headers that go with an error beyond those of every answer."""
    if isinstance(error, Unauthorized):
        return {"www-authenticate": "Bearer"}
    if isinstance(error, MethodNotAllowed):
        return {"allow": ", ".join(error.allowed)}
    if status_of(error) in (429, 503):
        return {"retry-after": str(getattr(error, "retry_after", RETRY_AFTER))}
    return {}
