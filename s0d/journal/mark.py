"""The mark: which numbers may have been shown, and whether the last end was a clean one.

The file ``mark`` has two slots, one in each of its first two pages, so that a torn write of one
leaves the other whole. They are overwritten in turn, in place, and synced with ``fdatasync``. The
valid slot with the higher counter is the mark. A slot whose sync failed is simply written again:
it was not relied on.
"""

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, replace

import google_crc32c

from s0d.journal.disk import Disk, opened, opened_directory, read_fully, write_fully
from s0d.journal.frame import checksum
from s0d.journal.record import MAX_SEQ

NAME = "mark"
BLOCK = 65_536
"""Numbers that one mark reserves."""
SPACE = 3
"""What a counter leaves out behind marks that cannot be relied on: see ``renew_mark``."""

_PAGE = 4096
_MAGIC = b"s0dmark1"
_SLOT = struct.Struct("<8sQQQQB16sI")
_CHECKED = _SLOT.size - 4


@dataclass(frozen=True, slots=True)
class Mark:
    """One state of the mark.

    ``reserved``: no number from here on was ever shown. ``next`` and ``earliest``: as they were
    when the mark was written; exact where ``clean``. ``boot``: the kernel's boot id.
    """

    counter: int
    reserved: int
    next: int
    earliest: int
    clean: bool
    boot: bytes

    def encode(self) -> bytes:
        """One slot."""
        data = _SLOT.pack(
            _MAGIC,
            self.counter,
            self.reserved,
            self.next,
            self.earliest,
            self.clean,
            self.boot,
            0,
        )[:_CHECKED]
        return data + checksum(data)


class Marks:
    """The mark of an open journal: what may be given out, and when to reserve more."""

    __slots__ = ("_boot", "_state", "current")

    def __init__(self, current: Mark, state: Callable[[], tuple[int, int]], boot: bytes) -> None:
        self._state = state
        self._boot = boot
        self.current = current

    @property
    def reserved(self) -> int:
        """Numbers below are safe to show; 0 before the first reservation of this run."""
        return 0 if self.current.clean else self.current.reserved

    @property
    def wanted(self) -> bool:
        """Whether half of the block is used (and there is one)."""
        return bool(self.reserved) and self._state()[0] > self.reserved - BLOCK // 2

    def take(self) -> Mark | None:
        """The mark to write in the next round, if one is wanted."""
        return self.reserving(self._state()[0]) if self.wanted else None

    def book(self, mark: Mark) -> None:
        """``mark`` is durable."""
        if mark.counter > self.current.counter:
            self.current = mark

    def reserving(self, start: int) -> Mark:
        """A mark that makes the numbers from ``start`` usable."""
        following, earliest = self._state()
        return Mark(
            self.current.counter + 1,
            max(self.current.reserved, start + BLOCK),
            following,
            earliest,
            clean=False,
            boot=self._boot,
        )

    def clean(self) -> Mark:
        """The mark of a clean end."""
        following, earliest = self._state()
        counter, reserved = self.current.counter + 1, self.current.reserved
        return Mark(counter, reserved, following, earliest, clean=True, boot=self._boot)


def decode_slot(data: bytes) -> Mark | None:
    """A slot's mark; None for anything else."""
    if len(data) < _SLOT.size:
        return None
    magic, counter, reserved, following, earliest, clean, boot, crc = _SLOT.unpack_from(data)
    if magic != _MAGIC or google_crc32c.value(data[:_CHECKED]) != crc:
        return None
    if not (earliest <= following <= reserved <= MAX_SEQ and clean <= 1):
        return None
    return Mark(counter, reserved, following, earliest, bool(clean), boot)


def read_mark(disk: Disk, directory: int) -> tuple[Mark | None, bool]:
    """The newest valid mark, and whether it can be relied on.

    It cannot where its fellow slot is unusable: that one may have been the newer one, and numbers
    may have been shown that this one does not know of. (A write torn by a power cut looks the same
    and costs a jump of the numbers, nothing else.)
    """
    try:
        with opened(disk, directory, NAME) as fd:
            data = read_fully(disk, fd, 2 * _PAGE, 0)
    except FileNotFoundError:
        return None, False
    slots = [data[: _SLOT.size], data[_PAGE : _PAGE + _SLOT.size]]
    marks = sorted((m for m in map(decode_slot, slots) if m), key=lambda mark: mark.counter)
    if not marks:
        return None, False
    newest = marks[-1]
    if len(marks) == 2:
        return newest, newest.counter == marks[0].counter + 1
    return newest, newest.counter == 1 and not any(slots[0])


def write_mark(disk: Disk, path: str, mark: Mark) -> None:
    """Overwrite the older slot and sync. The file exists."""
    with (
        opened_directory(disk, path) as directory,
        opened(disk, directory, NAME, os.O_WRONLY) as fd,
    ):
        write_fully(disk, fd, mark.encode(), _PAGE * (mark.counter % 2))
        disk.fdatasync(fd)


def create_mark(disk: Disk, path: str, mark: Mark) -> None:
    """Of a new journal: the file whole, the other slot cleared. The caller makes it durable."""
    slots = [bytes(_PAGE), bytes(_PAGE)]
    slot = mark.encode()
    slots[mark.counter % 2] = slot + bytes(_PAGE - len(slot))
    with (
        opened_directory(disk, path) as directory,
        opened(disk, directory, NAME, os.O_WRONLY | os.O_CREAT) as fd,
    ):
        write_fully(disk, fd, b"".join(slots), 0)
        disk.ftruncate(fd, 2 * _PAGE)


def renew_mark(disk: Disk, path: str, mark: Mark) -> Mark:
    """Where no slot could be relied on: overwrite both, one after the other; returns the second.

    ``mark.counter`` leaves a space to whatever was there, so that no mixture of old and new slots,
    which a power cut may leave, looks like two that follow each other.
    """
    second = replace(mark, counter=mark.counter + 1)
    with (
        opened_directory(disk, path) as directory,
        opened(disk, directory, NAME, os.O_WRONLY | os.O_CREAT) as fd,
    ):
        disk.ftruncate(fd, 2 * _PAGE)
        for one in (mark, second):
            write_fully(disk, fd, one.encode(), _PAGE * (one.counter % 2))
            disk.fdatasync(fd)
    return second
