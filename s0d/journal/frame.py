"""The frame codec: bytes in, bytes out, no I/O.

A frame is ``u32 LE word``, ``u32 LE CRC-32C over word and payload``, payload. The word carries the
payload's length in its low 24 bits and flags in its top byte. A word of zero length is never
valid, so that a run of zeros (what a power cut leaves) is not taken for frames.
"""

import struct
from typing import NamedTuple

import google_crc32c

BULK = 0x01
"""Output: not a control record."""
FOOTER = 0x02
"""A sealed segment's footer: not a record."""
MORE = 0x04
"""The append goes on with the next frame: without its last one none of it counts."""
KNOWN_FLAGS = BULK | FOOTER | MORE

HEAD = struct.Struct("<II")
HEAD_SIZE = HEAD.size
MAX_PAYLOAD = (1 << 24) - 1

_word = struct.Struct("<I")
_value = google_crc32c.value
_extend = google_crc32c.extend


def checksum(data: bytes) -> bytes:
    """CRC-32C, as the four bytes that headers, trailers and marks end with."""
    value: int = google_crc32c.value(data)
    return value.to_bytes(4, "little")


class Frame(NamedTuple):
    """A frame that passed its check; ``end`` is the offset after it, in the buffer parsed."""

    flags: int
    payload: bytes
    end: int


class BadFrame(ValueError):
    """The bytes are no frame: zero word, unknown flags or wrong checksum."""


class Incomplete(ValueError):
    """The buffer ends inside the frame; ``needed`` is the size from its start to its end."""

    def __init__(self, needed: int) -> None:
        super().__init__(f"{needed} bytes are needed")
        self.needed = needed


def encode_head(payload: bytes, flags: int = 0) -> bytes:
    """The eight bytes before a payload. Raises ``ValueError`` for an empty or oversized one."""
    length = len(payload)
    if not 0 < length <= MAX_PAYLOAD:
        raise ValueError(f"a payload has 1 to {MAX_PAYLOAD} bytes, not {length}")
    word = length | flags << 24
    return HEAD.pack(word, _extend(_value(_word.pack(word)), payload))


def parse(buffer: bytes, offset: int) -> Frame:
    """The frame at ``offset``. Raises :class:`BadFrame` or :class:`Incomplete`, nothing else."""
    start = offset + HEAD_SIZE
    if start > len(buffer):
        raise Incomplete(HEAD_SIZE)
    word, crc = HEAD.unpack_from(buffer, offset)
    length = word & MAX_PAYLOAD
    flags = word >> 24
    if length == 0 or flags & ~KNOWN_FLAGS:
        raise BadFrame("not a frame's first word")
    end = start + length
    if end > len(buffer):
        raise Incomplete(HEAD_SIZE + length)
    payload = buffer[start:end]
    if _extend(_value(buffer[offset : offset + 4]), payload) != crc:
        raise BadFrame("wrong checksum")
    return Frame(flags, payload, end)


def claimed_size(buffer: bytes, offset: int) -> int | None:
    """What the word at ``offset`` says the whole frame measures; None where it cannot be one."""
    if offset + HEAD_SIZE > len(buffer):
        return None
    (word,) = _word.unpack_from(buffer, offset)
    length = word & MAX_PAYLOAD
    if length == 0 or word >> 24 & ~KNOWN_FLAGS:
        return None
    return int(HEAD_SIZE + length)
