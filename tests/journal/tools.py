"""What the journal's tests share."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from s0d.journal import Block, Cursor, Disk, Entry, Journal, Limits, RealDisk, Record

SESSION = "ses-00000000-0000-4000-8000-000000000001"
LIMITS = Limits(1 << 20)


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def create(path: Path | str, disk: Disk | None = None, **options: Any) -> Journal:
    limits = options.pop("limits", LIMITS)
    return Journal.create(disk or RealDisk(), str(path), SESSION, limits, **options)


def reopen(path: Path | str, disk: Disk | None = None, **options: Any) -> Journal:
    limits = options.pop("limits", LIMITS)
    return Journal.open(disk or RealDisk(), str(path), SESSION, limits, **options)


def output(size: int = 100, fill: int = 0x61, *, time_ns: int = 1) -> Entry:
    return Entry(time_ns, 1, "att-1", "output", {"data": bytes([fill]) * size}, bulk=True)


def control(n: int = 0, *, time_ns: int = 1) -> Entry:
    return Entry(time_ns, 1, None, "session.updated", {"n": n})


def flat(blocks: Iterable[Block]) -> list[Record]:
    return [record for block in blocks for record in block.records]


async def read_all(cursor: Cursor, max_bytes: int = 256 * 1024) -> list[Record]:
    """Everything there is, with a check that the blocks abut."""
    records: list[Record] = []
    position = cursor.position
    while (block := await cursor.read_available(max_bytes)) is not None:
        assert block.first == position + 1
        assert block.last == block.records[-1].seq == cursor.position
        assert block.nbytes == sum(block.sizes)
        position = block.last
        records.extend(block.records)
    return records


async def contents(journal: Journal) -> list[Record]:
    with journal.cursor(None) as cursor:
        return await read_all(cursor)


def seqs(records: Iterable[Record]) -> list[int]:
    return [record.seq for record in records]
