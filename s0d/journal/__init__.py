"""The journal: numbered records of one session, durable and replayable.

Promises
========

* ``append`` is all or nothing: a record that was published is in the file (and outlives the
  daemon's process); memory never runs ahead of disk; of an append that failed, or that the end of
  the process cut short, nothing is ever read. ``wait_durable`` returns when it is on the disk (and
  outlives a power cut).
* A number never stands for two records, also after power loss. Numbers ascend; ``latest`` covers
  every number that any reader may hold.
* A cursor gives every retained record in order, once, or says what is missing: a ``journal.gap``
  record for numbers lost, ``CursorExpired`` when retention has overtaken it.
* ``retained_bytes`` stays within ``max_bytes`` (inside one ``append`` of more than that it may be
  exceeded until the call returns; where such a batch holds control records that no snapshot can
  cover yet, or the disk refuses to remove a file, until the next one or the next ``retire``).
* Damage is never an error of opening, and never garbage for a reader.

On disk, format version 1
=========================

A directory holds the segments, named by the first number they stand for (20 digits, ``.seg``), and
the file ``mark``. The listing is the manifest. Numbers are little-endian; checksums are CRC-32C.

**Segment**: a header of 104 bytes (magic ``s0djrnl\\n``, u32 version, session id in 64 bytes padded
with zeros, u64 first number, i64 creation time in ns, 8 random bytes, checksum), then frames, then,
once it is sealed, a footer frame and a trailer.

**Frame**: u32 word (payload length in the low 24 bits, flags in the top byte), u32 checksum over
word and payload, payload. Flag 1: bulk, output; 2: footer; 4: the append goes on with the next
frame. A zero length is never valid. The payload of a record is a msgpack array: number, wall time
in ns, generation, attempt or nil, type, fields (a map; output bytes raw). Numbers follow each other
without a hole, except that a record ``journal.gap`` stands for all numbers from its field ``first``
to ``last``, its own.

**Footer and trailer**: msgpack array of session id, first and last number, count, last control
number, oldest and newest time, sparse index (pairs of number and offset, 64 KiB or more apart); the
trailer has u64 offset of the footer frame, the header's 8 random bytes, checksum. All of it can be
rebuilt from the frames. The random bytes tell it from a look-alike that a child has printed.

**Mark**: two slots, at 0 and 4096, written in turn: magic ``s0dmark1``, u64 counter, reserved,
next, earliest, u8 clean, 16 bytes boot id, checksum. Numbers below ``reserved`` may have been
shown.

Rules of reading
================

A segment stands for the numbers up to the next segment's first. Frames with higher numbers are what
a failed append left behind. After an unclean end an append without its last frame counts as torn,
also where it began in an earlier segment. A torn frame is legal at the end of the newest segment
only: it is copied to ``*.torn`` and cut off. Damage elsewhere is a gap up to the next frame that
can be found by the damaged one's length or by the index. After a clean end the numbers go on at
``next``; after any other end beyond ``reserved``, with a ``journal.gap`` record; without a reliable
mark beyond all that was seen, plus 2**32.

Details and reasons: ``docs/on-disk-format.md``.

Modules
=======

``frame``, ``layout``, ``record``, ``mark``: codecs. ``reader``, ``load``, ``contents``,
``recovery``, ``inspect``: from bytes to what a journal holds; ``repair``: for operators.
``framing``, ``segment``, ``store``, ``retention``: writing, rolling, removing. ``rounds``,
``durability``, ``syncer``: group sync. ``tail``, ``catchup``, ``cursor``: readers. ``journal`` puts
them together; ``disk`` is the only way to the system.
"""

from s0d.journal.contents import is_set_aside
from s0d.journal.cursor import Cursor
from s0d.journal.disk import Disk, RealDisk, make_directory, move, write_atomically
from s0d.journal.errors import CursorAhead, CursorExpired, JournalError
from s0d.journal.inspect import Report, dump, owner, records, verify
from s0d.journal.journal import Journal
from s0d.journal.load import Damage
from s0d.journal.record import GAP, Block, Entry, Limits, Record
from s0d.journal.recovery import RecoveryReport
from s0d.journal.repair import CannotRepair, repair
from s0d.journal.syncer import Syncer

__all__ = [
    "GAP",
    "Block",
    "CannotRepair",
    "Cursor",
    "CursorAhead",
    "CursorExpired",
    "Damage",
    "Disk",
    "Entry",
    "Journal",
    "JournalError",
    "Limits",
    "RealDisk",
    "Record",
    "RecoveryReport",
    "Report",
    "Syncer",
    "dump",
    "is_set_aside",
    "make_directory",
    "move",
    "owner",
    "records",
    "repair",
    "verify",
    "write_atomically",
]
