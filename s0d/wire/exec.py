"""Commands that are no sessions: what is sent and what comes of them (wire contract, section 4)."""

from __future__ import annotations

import codecs
from typing import Final

import msgspec
import pybase64
from msgspec import UNSET, UnsetType

from s0d.model.errors import InvalidRequest
from s0d.model.spec import SessionSpec

from .named import DEFAULT_COLS, DEFAULT_ROWS, check_size, spec_of

MAX_TIMEOUT: Final = 300
DEFAULT_TIMEOUT: Final = 60
_ENCODINGS: Final = ("utf8", "base64")


class ExecBody(msgspec.Struct):
    """A command whose output is kept until it has ended; `timeout_s` in seconds."""

    cmd: list[str]
    env: dict[str, str] | None = None
    path: str | None = None
    timeout_s: int | None = None
    stdin_b64: str | None = None
    output_encoding: str | None = None

    def check(self) -> None:
        if self.timeout_s is not None and not 1 <= self.timeout_s <= MAX_TIMEOUT:
            raise InvalidRequest(f"timeout_s: must be from 1 to {MAX_TIMEOUT}")
        if self.output_encoding and self.output_encoding not in _ENCODINGS:
            raise InvalidRequest(f"output_encoding: must be one of {', '.join(_ENCODINGS)}")

    @property
    def timeout(self) -> float:
        return float(self.timeout_s or DEFAULT_TIMEOUT)

    @property
    def encoding(self) -> str:
        return self.output_encoding or _ENCODINGS[0]

    def stdin(self) -> bytes:
        try:
            return pybase64.b64decode((self.stdin_b64 or "").encode("ascii"), validate=True)
        except ValueError:  # also UnicodeEncodeError and binascii.Error
            raise InvalidRequest("stdin_b64: must be standard base64 with padding") from None

    def spec(self) -> SessionSpec:
        return spec_of({"command": self.cmd, "env": self.env, "cwd": self.path})


class ExecAnswer(msgspec.Struct, kw_only=True):
    """`signal` is a number, absent where none ended it."""

    exit_code: int
    signaled: bool
    signal: int | UnsetType = UNSET
    timed_out: bool
    stdout: str
    stderr: str
    stdout_truncated: bool
    stderr_truncated: bool
    output_encoding: str


class TTYStart(msgspec.Struct):
    """The first message of a transient terminal."""

    type: str
    cmd: list[str]
    env: dict[str, str] | None = None
    path: str | None = None
    cols: int | None = None
    rows: int | None = None

    def check(self) -> None:
        check_size(self.cols, self.rows)

    def spec(self) -> SessionSpec:
        size = {"rows": self.rows or DEFAULT_ROWS, "cols": self.cols or DEFAULT_COLS}
        io = {"mode": "pty", "terminal": size}
        return spec_of({"command": self.cmd, "env": self.env, "cwd": self.path, "io": io})


def encode_output(data: bytes, encoding: str, *, truncated: bool) -> str:
    """Output as text; a character that was cut in two at the end of what is kept is left out."""
    if encoding == "base64":
        return pybase64.b64encode(data).decode("ascii")
    return codecs.getincrementaldecoder("utf-8")("replace").decode(data, final=not truncated)
