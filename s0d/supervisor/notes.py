"""Small files that name the trees of commands while they may live.

For the next daemon, where this one is killed.  They need not survive the machine: no process does.
A disk that is full must not keep a command from running, least of all the one that makes room.
"""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass

import msgspec

from s0d.process.attribution import TreeRecord

log = logging.getLogger("s0d.exec")


@dataclass(frozen=True)
class Note:
    """The file at `path`, which names one tree."""

    path: str

    def write(self, record: TreeRecord) -> None:
        try:
            os.makedirs(os.path.dirname(self.path), 0o700, exist_ok=True)
            with open(f"{self.path}.new", "wb") as file:
                file.write(msgspec.json.encode(record))
            os.rename(f"{self.path}.new", self.path)
        except OSError as error:
            log.warning("a command goes on without a note of its processes: %s", error)

    def remove(self) -> None:
        for path in (self.path, f"{self.path}.new"):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue
            except OSError as error:
                log.warning("cannot remove the note of a command: %s", error)


def read_notes(directory: str) -> list[tuple[Note, TreeRecord]]:
    """What a dead daemon has left; a note that cannot be read is removed."""
    found = []
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    for name in names:
        note = Note(os.path.join(directory, name))
        try:
            with open(note.path, "rb") as file:
                found.append((note, msgspec.json.decode(file.read(), type=TreeRecord)))
        except (OSError, msgspec.MsgspecError) as error:
            log.warning("the note of a command cannot be read: %s", error)
            note.remove()
    return found
