"""The journal layer."""

from s0d.journal.cursor import Cursor
from s0d.journal.disk import Disk, RealDisk, make_directory, write_atomically
from s0d.journal.errors import CursorAhead, CursorExpired, JournalError
from s0d.journal.inspect import Report, dump, verify
from s0d.journal.journal import Journal
from s0d.journal.load import Damage
from s0d.journal.record import GAP, Block, Entry, Limits, Record
from s0d.journal.recovery import RecoveryReport
from s0d.journal.syncer import Syncer

__all__ = [
    "GAP",
    "Block",
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
    "make_directory",
    "verify",
    "write_atomically",
]
