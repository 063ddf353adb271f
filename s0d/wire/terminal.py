"""The bodies of requests about a terminal: keys, and waiting (extensions of the wire contract)."""

from __future__ import annotations

from typing import Final, cast

import msgspec

from s0d.model.errors import InvalidRequest
from s0d.model.session import Phase

from .requests import MAX_INPUT_ID_BYTES, decode

MAX_KEYS: Final = 4096
MAX_TIMEOUT_MS: Final = 2**31 - 1
DEFAULT_TIMEOUT_MS: Final = 30_000
LEAST_TIMEOUT_MS: Final = 250
"""What is true already may take a moment to find: a screen to draw, output to read."""
STREAMS: Final = ("stdout", "stderr", "pty")


class TextItem(msgspec.Struct):
    """`text` goes as it is, also where it is the name of a key; `paste` as a paste."""

    text: str | None = None
    paste: str | None = None


class KeysBody(msgspec.Struct):
    """Keys by name (`Enter`, `C-c`, `Up`), and text between them.

    A bare array stands for `{"keys": […]}`, and `{"paste": TEXT}` for one paste.
    """

    keys: list[str | TextItem] | None = None
    paste: str | None = None
    input_id: str | None = None
    expected_attempt_id: str | None = None

    def items(self) -> list[str | TextItem]:
        paste = [] if self.paste is None else [TextItem(paste=self.paste)]
        return [*(self.keys or ()), *paste]

    def check(self) -> None:
        items = self.items()
        if not 0 < len(items) <= MAX_KEYS:
            raise InvalidRequest(f"keys: must be from 1 to {MAX_KEYS}")
        for at, item in enumerate(items):
            if isinstance(item, TextItem) and (item.text is None) == (item.paste is None):
                raise InvalidRequest(f"keys[{at}]: needs either text or paste")
        if self.input_id is not None:
            if not self.input_id.strip():
                raise InvalidRequest("input_id: must not be empty")
            if len(self.input_id.encode(errors="surrogatepass")) > MAX_INPUT_ID_BYTES:
                raise InvalidRequest(f"input_id: at most {MAX_INPUT_ID_BYTES} bytes")


Keys = list[str | TextItem] | KeysBody
"""What may be sent: the bare array will do."""


def decode_keys(body: bytes) -> KeysBody:
    """A `KeysBody`, also from the bare array."""
    sent = decode(body, cast(type[KeysBody], Keys))
    return KeysBody(keys=sent) if isinstance(sent, list) else sent


class RegexItem(msgspec.Struct):
    """An expression in RE2's syntax, where a plain string would be the text itself."""

    regex: str


class For(msgspec.Struct):
    """What to wait for; of several the first to come true."""

    phase: list[Phase] | Phase | None = None
    exit: bool | None = None
    output: str | RegexItem | None = None
    stream: str | None = None
    after: int | None = None
    screen: str | RegexItem | None = None
    port: int | None = None

    @property
    def phases(self) -> list[Phase]:
        return [self.phase] if isinstance(self.phase, Phase) else self.phase or []

    def check(self) -> None:
        wanted = (self.phases, self.exit, self.output is not None, self.screen is not None)
        if not any(wanted) and self.port is None:
            raise InvalidRequest("for: needs one of phase, exit, output, screen, port")
        if self.output is None and (self.stream is not None or self.after is not None):
            raise InvalidRequest("for: stream and after go with output")
        if self.stream is not None and self.stream not in STREAMS:
            raise InvalidRequest(f"for.stream: must be one of {', '.join(STREAMS)}")
        if self.after is not None and not 0 <= self.after < 2**53:
            raise InvalidRequest("for.after: must be a sequence")
        if self.port is not None and not 1 <= self.port <= 65535:
            raise InvalidRequest("for.port: must be from 1 to 65535")


class WaitBody(msgspec.Struct, rename={"wanted": "for"}):
    """`timeout_ms` 0 only looks, and takes the time for that (a quarter of a second at most)."""

    wanted: For
    timeout_ms: int | None = None

    @property
    def seconds(self) -> float:
        given = DEFAULT_TIMEOUT_MS if self.timeout_ms is None else self.timeout_ms
        return max(given, LEAST_TIMEOUT_MS) / 1000

    def check(self) -> None:
        if self.timeout_ms is not None and not 0 <= self.timeout_ms <= MAX_TIMEOUT_MS:
            raise InvalidRequest(f"timeout_ms: must be from 0 to {MAX_TIMEOUT_MS}")
        self.wanted.check()
