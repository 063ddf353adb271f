"""The files of one sandbox: owner marker, session records, trash.

Everything here blocks and is called in worker threads.  Names that come from outside have been
checked (`s0d.model.ids`) before they become a path.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from collections.abc import Sequence
from typing import Final

import msgspec

from s0d.journal import (
    Disk,
    Entry,
    Journal,
    Limits,
    Syncer,
    is_set_aside,
    make_directory,
    move,
    write_atomically,
)
from s0d.journal.disk import opened_directory
from s0d.model.ids import is_session_id
from s0d.model.sandbox import SandboxRecord
from s0d.model.session import SessionRecord
from s0d.model.spec import RetentionSpec

from .notes import Note

MARKER: Final = "sandbox.json"
RECORD: Final = "session.json"
JOURNAL: Final = "journal"
DAMAGED: Final = "damaged"

_encode = msgspec.json.Encoder().encode


class Store:
    """`STATE/sandboxes/ID`."""

    def __init__(self, path: str, disk: Disk) -> None:
        self.path = path
        self.disk = disk
        self.sessions = os.path.join(path, "sessions")
        self.trash = os.path.join(path, "trash")
        self.execs = os.path.join(path, "execs")

    def prepare(self) -> None:
        """Make the directories that are not there yet."""
        for directory in (self.path, self.sessions, self.trash):
            make_directory(self.disk, directory)

    # -- the owner marker --------------------------------------------------------------------

    def read_marker(self) -> SandboxRecord | None:
        """The marker; None where there is none.  Raises `ValueError` where it is damaged."""
        data = _read(os.path.join(self.path, MARKER))
        return None if data is None else msgspec.json.decode(data, type=SandboxRecord)

    def set_marker_aside(self) -> None:
        """Keep a damaged marker beside the new one."""
        with opened_directory(self.disk, self.path) as directory:
            self.disk.rename(directory, MARKER, f"{MARKER}.{DAMAGED}")

    def latest_generation(self) -> int:
        """The highest generation that a session's record tells of; 0 for none."""
        found = 0
        for session_id in self.session_ids():
            with contextlib.suppress(ValueError, OSError):
                record = self.read_record(session_id)
                found = max(found, record.generation if record is not None else 0)
        return found

    def write_marker(self, record: SandboxRecord) -> None:
        """Replace the marker, durably; every start has to, also one on a full disk."""
        write_atomically(self.disk, self.path, MARKER, _encode(record), spare=True)

    # -- sessions ----------------------------------------------------------------------------

    def session_ids(self) -> list[str]:
        return sorted(name for name in os.listdir(self.sessions) if is_session_id(name))

    def session_path(self, session_id: str) -> str:
        return os.path.join(self.sessions, session_id)

    def create_session(
        self, session_id: str, retention: RetentionSpec, syncer: Syncer, first: Entry
    ) -> Journal:
        """Make the session's directory and its journal with `first` in it, durably.

        Nothing is left on failure.
        """
        path = self.session_path(session_id)
        make_directory(self.disk, path, sync=False)
        try:
            return Journal.create(
                self.disk,
                os.path.join(path, JOURNAL),
                session_id,
                _limits(retention),
                syncer,
                first=[first],
                above=[self.sessions],
            )
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def open_journal(
        self, session_id: str, retention: RetentionSpec, syncer: Syncer, generation: int
    ) -> Journal:
        """Recover a journal; one that was closed cleanly is only read until it is reserved."""
        path = os.path.join(self.session_path(session_id), JOURNAL)
        return Journal.open(
            self.disk,
            path,
            session_id,
            _limits(retention),
            syncer,
            reserve=False,
            generation=generation,
        )

    def set_aside(self, session_id: str) -> None:
        """Keep what there is of a session that cannot be rebuilt in `damaged/` of its directory.

        Whatever interrupts it, nothing is lost, and the next call goes on.
        """
        path = self.session_path(session_id)
        kept = os.path.join(path, DAMAGED)
        make_directory(self.disk, kept)
        # The record goes first: it means nothing without its journal.
        for name in sorted(set(os.listdir(path)) - {DAMAGED}, reverse=True):
            target = os.path.join(kept, _free_name(kept, name))
            move(self.disk, os.path.join(path, name), target)

    def has_remains(self, session_id: str) -> bool:
        """Whether there is anything that a creation, cut short, does not leave behind."""
        path = self.session_path(session_id)
        names = {*os.listdir(path), *_names_in(os.path.join(path, JOURNAL))}
        return bool(names & {DAMAGED, RECORD}) or any(map(is_set_aside, names))

    def create_journal(
        self, session_id: str, retention: RetentionSpec, syncer: Syncer, first: Sequence[Entry]
    ) -> Journal:
        """A new journal with `first` in it in a session's directory; nothing is left on failure."""
        path = os.path.join(self.session_path(session_id), JOURNAL)
        try:
            return Journal.create(
                self.disk, path, session_id, _limits(retention), syncer, first=first
            )
        except BaseException:
            shutil.rmtree(path, ignore_errors=True)
            raise

    def has_journal(self, session_id: str) -> bool:
        return os.path.isdir(os.path.join(self.session_path(session_id), JOURNAL))

    def read_record(self, session_id: str) -> SessionRecord | None:
        """The snapshot; None where there is none.  Raises `ValueError` where it is damaged."""
        data = _read(os.path.join(self.session_path(session_id), RECORD))
        return None if data is None else decode_record(data)

    def write_record(self, session_id: str, data: bytes) -> None:
        """Replace the snapshot, durably."""
        write_atomically(self.disk, self.session_path(session_id), RECORD, data)

    def discard(self, session_id: str) -> str:
        """Move a session to the trash, durably, and return where it is now.

        From here on the session does not exist, whatever happens to its files.
        """
        target = os.path.join(self.trash, f"{session_id}.{os.urandom(4).hex()}")
        move(self.disk, self.session_path(session_id), target)
        return target

    def discard_all(self) -> None:
        """Move every session to the trash: the state was copied from another sandbox."""
        for name in os.listdir(self.sessions):
            self.discard(name)

    def discard_into(self, trash: str) -> None:
        """Remove the whole sandbox: by a name in `trash` first, so that it is gone at once."""
        target = os.path.join(trash, f"{os.path.basename(self.path)}.{os.urandom(4).hex()}")
        self.move(target)
        remove_tree(target)

    def move(self, path: str) -> None:
        """Give the directory its name, durably."""
        move(self.disk, self.path, path)

    def remove(self) -> None:
        """Take back a sandbox that could not be made."""
        remove_tree(self.path)

    def note_exec(self, attempt_id: str) -> Note:
        """Where the tree of a command that is no session is noted."""
        return Note(os.path.join(self.execs, attempt_id))

    def empty_trash(self) -> None:
        for name in os.listdir(self.trash):
            remove_tree(os.path.join(self.trash, name))


def encode_record(record: SessionRecord) -> bytes:
    return _encode(record)


def decode_record(data: bytes) -> SessionRecord:
    return msgspec.json.decode(data, type=SessionRecord)


def remove_tree(path: str) -> None:
    """Remove a directory and what is in it, also what its owner has locked against himself.

    What cannot be removed now goes at the next start.
    """
    shutil.rmtree(path, ignore_errors=True)
    if os.path.isdir(path) and not os.path.islink(path) and os.geteuid() != 0:
        _unlock(path)
        shutil.rmtree(path, ignore_errors=True)


def _unlock(path: str) -> None:
    with contextlib.suppress(OSError):
        os.chmod(path, stat.S_IRWXU)
    for parent, names, _ in os.walk(path):
        for name in names:
            inner = os.path.join(parent, name)
            if not os.path.islink(inner):
                with contextlib.suppress(OSError):
                    os.chmod(inner, stat.S_IRWXU)


def _limits(retention: RetentionSpec) -> Limits:
    return Limits(retention.max_bytes, retention.max_age_seconds)


def _free_name(directory: str, name: str) -> str:
    """`name`, with a number where it is taken."""
    number, free = 0, name
    while os.path.lexists(os.path.join(directory, free)):
        number += 1
        free = f"{name}.{number}"
    return free


def _names_in(directory: str) -> list[str]:
    with contextlib.suppress(FileNotFoundError):
        return os.listdir(directory)
    return []


def _read(path: str) -> bytes | None:
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            return file.read()
    return None
