"""The bodies of requests, decoded and checked (wire contract, section 2).

Unknown fields are ignored here (in a SessionSpec they are refused: see `s0d.model.spec`).  `null`
for an optional field means absent.
"""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec
import pybase64

from s0d.model.errors import InvalidRequest
from s0d.model.parse import MAX_TERMINAL, explain
from s0d.model.spec import DesiredState

MAX_INPUT_ID_BYTES: Final = 255

T = TypeVar("T", bound=msgspec.Struct)


class DesiredStateBody(msgspec.Struct):
    state: str

    @property
    def desired(self) -> DesiredState:
        try:
            return DesiredState(self.state)
        except ValueError:
            raise InvalidRequest("state: must be one of running, stopped") from None


class AttemptBody(msgspec.Struct):
    replace_current: bool | None = None


class InputBody(msgspec.Struct):
    input_id: str
    expected_attempt_id: str | None = None
    data_base64: str | None = None
    eof: bool | None = None

    def data(self) -> bytes:
        """The bytes; standard base64 with padding, nothing else."""
        text = self.data_base64 or ""
        try:
            return pybase64.b64decode(text.encode("ascii"), validate=True)
        except ValueError:  # also UnicodeEncodeError and binascii.Error
            raise InvalidRequest("data_base64: must be standard base64 with padding") from None

    def check(self) -> None:
        if not self.input_id.strip():
            raise InvalidRequest("input_id: must not be empty")
        if len(self.input_id.encode(errors="surrogatepass")) > MAX_INPUT_ID_BYTES:
            raise InvalidRequest(f"input_id: at most {MAX_INPUT_ID_BYTES} bytes")
        if not self.data_base64 and not self.eof:
            raise InvalidRequest("data_base64: an input needs bytes, or eof")


class SignalBody(msgspec.Struct):
    signal: str | int
    expected_attempt_id: str | None = None


class ResizeBody(msgspec.Struct):
    rows: int
    cols: int
    expected_attempt_id: str | None = None

    def check(self) -> None:
        for name, value in (("rows", self.rows), ("cols", self.cols)):
            if not 1 <= value <= MAX_TERMINAL:
                raise InvalidRequest(f"{name}: must be from 1 to {MAX_TERMINAL}, got {value}")


def decode(body: bytes, type: type[T]) -> T:
    """`body` as a `type`."""
    try:
        return msgspec.json.decode(body, type=type)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise InvalidRequest(explain(error)) from None
    except RecursionError:  # also in a field that is skipped
        raise InvalidRequest("nested too deeply") from None
