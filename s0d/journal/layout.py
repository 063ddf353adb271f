"""What surrounds the frames of a segment: its name, header, footer and trailer. No I/O."""

import re
import struct

import google_crc32c
import msgspec

from s0d.journal import frame
from s0d.journal.frame import checksum
from s0d.journal.record import MAX_SEQ

VERSION = 1
SUFFIX = ".seg"
OTHER_VERSION = "format version"
"""So begins what is told of a segment that only another version of this program can read."""

_NAME = re.compile(r"[0-9]{20}\.seg", re.ASCII)
_MAGIC = b"s0djrnl\n"
_HEADER = struct.Struct("<8sI64sQq8sI")
HEADER_SIZE = _HEADER.size
_HEADER_CHECKED = HEADER_SIZE - 4
NONCE_SIZE = 8

_TRAILER = struct.Struct("<Q8sI")
TRAILER_SIZE = _TRAILER.size

INDEX_SPACING = 64 * 1024
"""Bytes of frames between two entries of the sparse index, at least."""


class BadLayout(ValueError):
    """Not a header, footer or trailer of this format; the message says what is wrong."""


def segment_name(first: int) -> str:
    """The file that starts with record ``first``."""
    return f"{first:020d}{SUFFIX}"


def segment_first(name: str) -> int | None:
    """The first number by a file's name; None for any other file."""
    if not _NAME.fullmatch(name):
        return None
    first = int(name[:20])
    return first if 0 < first <= MAX_SEQ else None


class Header(msgspec.Struct, frozen=True):
    """A segment's first 104 bytes.

    ``nonce`` is random. The trailer repeats it: a child that prints what looks like a footer at
    the end of a segment does not know it.
    """

    session_id: str
    first: int
    created_ns: int
    nonce: bytes

    def encode(self) -> bytes:
        """Raises ``ValueError`` for a session id over 64 bytes."""
        name = self.session_id.encode()
        if not 0 < len(name) <= 64 or b"\0" in name:
            raise ValueError("a session id has 1 to 64 bytes, none of them zero")
        data = _HEADER.pack(_MAGIC, VERSION, name, self.first, self.created_ns, self.nonce, 0)
        data = data[:_HEADER_CHECKED]
        return data + checksum(data)


def decode_header(data: bytes) -> Header:
    """Raises :class:`BadLayout`."""
    if len(data) < HEADER_SIZE:
        raise BadLayout("the header is cut")
    magic, version, name, first, created_ns, nonce, crc = _HEADER.unpack_from(data)
    if magic != _MAGIC:
        raise BadLayout("not a segment")
    if google_crc32c.value(bytes(data[:_HEADER_CHECKED])) != crc:
        raise BadLayout("the header is damaged")
    if version != VERSION:
        raise UnknownVersion(f"{OTHER_VERSION} {version}")
    try:
        return Header(name.rstrip(b"\0").decode(), first, created_ns, nonce)
    except UnicodeDecodeError as error:
        raise BadLayout("the session id is no text") from error


class UnknownVersion(BadLayout):
    """A whole header of a version that this program does not read."""


class Footer(msgspec.Struct, array_like=True, frozen=True):
    """What a sealed segment says about itself; all of it can be rebuilt from the frames.

    ``index`` maps numbers to frame offsets, ascending. ``last_control`` is 0 where there is no
    control record. Times are wall-clock nanoseconds of the first and of the newest record.
    """

    session_id: str
    first: int
    last: int
    count: int
    last_control: int
    oldest_ns: int
    newest_ns: int
    index: list[tuple[int, int]]


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Footer)


def encode_footer(footer: Footer, offset: int, nonce: bytes) -> bytes:
    """The footer's frame, to be written at ``offset``, and the trailer that locates it."""
    payload = _encoder.encode(footer)
    place = _TRAILER.pack(offset, nonce, 0)[: TRAILER_SIZE - 4]
    trailer = place + checksum(place)
    return frame.encode_head(payload, frame.FOOTER) + payload + trailer


def footer_bound(entries: int) -> int:
    """No footer with trailer and so many index entries is larger."""
    return frame.HEAD_SIZE + TRAILER_SIZE + 160 + 20 * entries


def decode_trailer(data: bytes, size: int, nonce: bytes) -> int:
    """The footer's offset, from the last 20 bytes of a file of ``size`` bytes."""
    if len(data) != TRAILER_SIZE:
        raise BadLayout("no trailer")
    offset, found, crc = _TRAILER.unpack(data)
    if found != nonce or google_crc32c.value(data[: TRAILER_SIZE - 4]) != crc:
        raise BadLayout("no trailer")
    if not HEADER_SIZE <= offset <= size - TRAILER_SIZE - frame.HEAD_SIZE:
        raise BadLayout("the trailer points outside")
    return int(offset)


def decode_footer(data: bytes, offset: int) -> Footer:
    """From the bytes between the footer's ``offset`` and the trailer. Raises :class:`BadLayout`."""
    try:
        parsed = frame.parse(data, 0)
        if parsed.flags != frame.FOOTER or parsed.end != len(data):
            raise BadLayout("not a footer")
        footer = _decoder.decode(parsed.payload)
    except (frame.BadFrame, frame.Incomplete, msgspec.MsgspecError, RecursionError) as error:
        raise BadLayout("the footer is damaged") from error
    if not _plausible(footer, offset):
        raise BadLayout("the footer contradicts itself")
    return footer


def _plausible(footer: Footer, offset: int) -> bool:
    if (
        not 0 < footer.first <= footer.last <= MAX_SEQ
        or not 0 <= footer.last_control <= footer.last
    ):
        return False
    seq, place = footer.first - 1, HEADER_SIZE - 1
    for next_seq, next_place in footer.index:
        if not (seq < next_seq <= footer.last and place < next_place < offset):
            return False
        seq, place = next_seq, next_place
    return footer.count > 0
