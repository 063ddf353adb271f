"""The envelope of every answer under `/api/v1` (wire contract, section 1).

ASCII only, as everything else that is sent: clients differ in what they take for a line break.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from s0d.model.errors import S0dError

_encoder = msgspec.json.Encoder()


def to_json(value: Any) -> bytes:
    """Compact JSON in ASCII."""
    data = _encoder.encode(value)
    return data if data.isascii() else _ascii(value)


def _ascii(value: Any) -> bytes:
    plain = msgspec.to_builtins(value)
    return json.dumps(plain, separators=(",", ":"), ensure_ascii=True).encode("ascii")


def success(data: Any) -> bytes:
    return b'{"success":true,"data":' + to_json(data) + b"}"


def failure(code: str, message: str, details: dict[str, Any] | None = None) -> bytes:
    error: dict[str, Any] = {"code": code, "message": message}
    if details:
        error["details"] = details
    return to_json({"success": False, "error": error})


def failure_of(error: S0dError) -> bytes:
    return failure(error.code, error.message, error.details)
