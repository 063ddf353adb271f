"""Every error code has its status and its headers (wire contract, section 1)."""

from __future__ import annotations

import pytest

from s0d.api import errors
from s0d.model import errors as model
from s0d.model.errors import S0dError

TABLE = {
    "invalid_request": 400,
    "unauthorized": 401,
    "forbidden": 403,
    "session_not_found": 404,
    "sandbox_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "unsupported_media_type": 415,
    "wait_timeout": 408,
    "session_conflict": 409,
    "sandbox_conflict": 409,
    "event_cursor_expired": 410,
    "request_too_large": 413,
    "misdirected_request": 421,
    "input_buffer_full": 429,
    "limit_exceeded": 429,
    "internal_error": 500,
    "unavailable": 503,
    "stop_incomplete": 503,
}


def test_table() -> None:
    ours_alone = {"request_timeout": 408}  # a body that does not arrive
    named = {"session_exists": 409, "session_live": 409}  # section 4
    assert TABLE | ours_alone | named == errors.STATUS


def test_every_error_of_a_request_is_in_the_table() -> None:
    known = [
        value.code
        for module in (errors, model)
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, S0dError)
    ]
    at_start_only = {"state_directory"}
    assert set(known) - set(errors.STATUS) == at_start_only
    assert len(known) > 15


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (errors.Unauthorized("x"), {"www-authenticate": "Bearer"}),
        (errors.MethodNotAllowed({"PUT", "GET"}), {"allow": "GET, PUT"}),
        (model.InputBufferFull("x"), {"retry-after": "1"}),
        (model.LimitExceeded("x"), {"retry-after": "1"}),
        (model.Unavailable("x"), {"retry-after": "1"}),
        (model.StopIncomplete("x"), {"retry-after": "1"}),
        (model.InvalidRequest("x"), {}),
        (errors.InternalError("x"), {}),
    ],
)
def test_headers(error: S0dError, headers: dict[str, str]) -> None:
    assert errors.headers_of(error) == headers
