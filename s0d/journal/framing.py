"""Records on their way to the disk: numbered, encoded, framed."""

from collections.abc import Sequence
from typing import NamedTuple

from s0d.journal import frame
from s0d.journal.record import GAP, Entry, Record, encode_record


class Framed(NamedTuple):
    """A record on its way to the disk. ``covers`` is the first number it stands for."""

    record: Record
    covers: int
    head: bytes
    payload: bytes
    bulk: bool
    size: int
    """Bytes in the file."""


class Run(NamedTuple):
    """Frames that go into one segment, which is new or the one being written; ``size`` in all."""

    new: bool
    frames: list[Framed]
    size: int


def frame_entries(first: int, entries: Sequence[Entry]) -> list[Framed]:
    """Number and encode. Raises ``TypeError`` or ``ValueError`` for what cannot be stored."""
    frames = []
    last = first + len(entries) - 1
    for seq, entry in enumerate(entries, first):
        if entry.type == GAP:
            raise ValueError("gaps are told by the journal itself")
        record = Record(seq, *entry[:5])
        frames.append(frame_record(record, seq, bulk=entry.bulk, more=seq < last))
    return frames


def frame_record(record: Record, covers: int, *, bulk: bool, more: bool = False) -> Framed:
    """One record as a frame. ``more``: it is not the last one of its append."""
    payload = encode_record(record)
    flags = (frame.BULK if bulk else 0) | (frame.MORE if more else 0)
    head = frame.encode_head(payload, flags)
    return Framed(record, covers, head, payload, bulk, frame.HEAD_SIZE + len(payload))
