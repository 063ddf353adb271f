"""What goes into a journal and what comes out."""

from bisect import bisect_right
from collections.abc import Hashable
from typing import Any, NamedTuple

import msgspec

GAP = "journal.gap"
"""The journal's own record type, with ``first``, ``last``, ``reason``; its ``seq`` is ``last``."""

MAX_SEQ = 2**53 - 1
"""Numbers stay exact in every JSON reader."""


class Entry(NamedTuple):
    """One thing to append. ``fields`` belongs to the journal from then on: do not change it.

    ``bulk`` marks output: it never uses the room that is kept for control records, and a fold may
    skip it unread.
    """

    time_ns: int
    generation: int
    attempt: str | None
    type: str
    fields: dict[str, Any]
    bulk: bool = False


class Record(NamedTuple):
    """One numbered record, shared by all readers: do not change its ``fields``."""

    seq: int
    time_ns: int
    generation: int
    attempt: str | None
    type: str
    fields: dict[str, Any]


class Block:
    """Consecutive records, shared by all readers.

    ``first``..``last`` are the numbers covered: the next block starts at ``last + 1``. (A gap
    record covers many numbers.) ``nbytes`` is the encoded size, ``sizes`` that of each record.
    ``cache`` holds encodings that readers make once for each other; it lives as long as the block.
    """

    __slots__ = ("cache", "first", "last", "nbytes", "records", "sizes")

    def __init__(self, first: int, records: list[Record], sizes: list[int]) -> None:
        self.first = first
        self.last = records[-1].seq
        self.records = records
        self.sizes = sizes
        self.nbytes = sum(sizes)
        self.cache: dict[Hashable, bytes] = {}

    def part(self, after: int, max_bytes: int, max_records: int | None) -> "Block":
        """The records beyond ``after`` that fit, at least one; itself where that is all of it."""
        begin = bisect_right(self.records, after, key=lambda record: record.seq)
        if begin == 0 and self.nbytes <= max_bytes and within(len(self.records), max_records):
            return self
        stop, nbytes = begin + 1, self.sizes[begin]
        while stop < len(self.records) and within(stop - begin + 1, max_records):
            nbytes += self.sizes[stop]
            if nbytes > max_bytes:
                break
            stop += 1
        return Block(after + 1, self.records[begin:stop], self.sizes[begin:stop])

    def __repr__(self) -> str:
        return f"<Block {self.first}..{self.last} of {self.nbytes} bytes>"


class Limits(NamedTuple):
    """Retention: ``max_bytes`` on disk, and ``max_age_seconds`` (0: no limit by age)."""

    max_bytes: int
    max_age_seconds: int = 0


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Record)


def encode_record(record: Record) -> bytes:
    """The payload of a frame. Raises ``TypeError`` or ``OverflowError`` for unfit fields."""
    return _encoder.encode(record)


def decode_record(payload: bytes) -> Record:
    """Back from a payload. Raises ``ValueError`` for anything that is not a record."""
    try:
        record = _decoder.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(str(error)) from error
    if not 0 < record.seq <= MAX_SEQ:
        raise ValueError("number out of range")
    return record


def gap_record(first: int, last: int, reason: str, time_ns: int, generation: int = 0) -> Record:
    """Tell a reader that ``first``..``last`` are lost."""
    fields = {"first": first, "last": last, "reason": reason}
    return Record(last, time_ns, generation, None, GAP, fields)


def covered_from(record: Record) -> int:
    """The first number that a record stands for: its own, or the first one of a gap."""
    if record.type == GAP:
        first = record.fields.get("first")
        if type(first) is int and 0 < first <= record.seq:
            return first
    return record.seq


def within(count: int, limit: int | None) -> bool:
    """Whether ``count`` is allowed; None allows any."""
    return limit is None or count <= limit
