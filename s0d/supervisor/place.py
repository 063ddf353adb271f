"""Where sandboxes are kept: their directories under the state directory, and who owns them.

Everything here blocks and is called in worker threads.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from s0d.journal import Disk, Syncer, make_directory
from s0d.model.errors import InvalidRequest, SandboxConflict, StateDirectoryError, Unavailable
from s0d.model.ids import is_sandbox_id
from s0d.model.sandbox import SandboxRecord
from s0d.process.request import Identity

from . import roots
from .host import ProcessHost
from .store import Store

log = logging.getLogger("s0d.supervisor")

_DIRECTORY: Final = "sandboxes"
_TRASH: Final = "trash"
_ROOTS: Final = "roots"
_GENERATIONS_LOST: Final = 1000
"""So far the generations jump where the marker is damaged: beyond what nobody wrote down."""


@dataclass(frozen=True)
class Place:
    """What all sandboxes share.  `root` is where the default one's sessions start; `identity` whom
    processes run as, None for our own user."""

    state_dir: str
    disk: Disk
    host: ProcessHost
    syncer: Syncer
    root: str
    identity: Identity | None

    def store(self, sandbox_id: str) -> Store:
        return Store(os.path.join(self.state_dir, _DIRECTORY, sandbox_id), self.disk)

    @property
    def trash(self) -> str:
        return os.path.join(self.state_dir, _TRASH)

    def root_for(self, sandbox_id: str, named: str | None) -> str:
        """For the record of a new sandbox: the root it has `named`, by default one of ours.

        Raises `InvalidRequest` for one that cannot be named, or where ours is out of reach.
        """
        if named is not None:
            if not os.path.isabs(named):
                raise InvalidRequest("config.root: must be an absolute path")
            return named
        if self.identity is not None:
            raise InvalidRequest(
                "config.root: name a directory, the daemon's own is out of reach of the user that "
                "sessions run as"
            )
        return os.path.join(_ROOTS, sandbox_id)

    def root_of(self, record: SandboxRecord) -> str:
        """The root directory of a sandbox."""
        return os.path.join(self.state_dir, record.root) if record.root else self.root

    @property
    def mark(self) -> str:
        """Tells this state directory from a copy of it, which owns nothing outside itself."""
        found = os.stat(self.state_dir)
        return f"{found.st_dev}:{found.st_ino}"

    def discarded(self, sandbox_id: str) -> str:
        """A new name in the trash."""
        return os.path.join(self.trash, f"{sandbox_id}.{os.urandom(4).hex()}")


def take_ownership(
    place: Place, sandbox_id: str, *, root: str | None, reset: bool
) -> SandboxRecord:
    """Check the owner marker, and raise the generation before anything starts in the new runtime.

    A directory that belongs to another sandbox is refused, unless its sessions shall be reset;
    then the sessions of an ownerless one are cleared too.  Without that, ownerless state is
    adopted.  A matching owner keeps its sessions, also with reset.
    """
    if not is_sandbox_id(sandbox_id):
        raise StateDirectoryError(f"not a sandbox id: {sandbox_id!r}")
    make_directory(place.disk, os.path.join(place.state_dir, _DIRECTORY))
    store = place.store(sandbox_id)
    store.prepare()
    try:
        marker = store.read_marker()
    except ValueError as error:
        log.error("the owner marker is damaged, it is made anew: %s", error)  # noqa: TRY400
        # With reset it is nobody's: it could be another sandbox's.
        marker = None if reset else _made_anew(store, sandbox_id)
    foreign = marker is not None and marker.id != sandbox_id
    if foreign and not reset:
        raise StateDirectoryError(
            f"{store.path} belongs to sandbox {marker.id!r}, not {sandbox_id!r}: "  # type: ignore[union-attr]
            "start with --reset-copied-sessions to clear its sessions"
        )
    if reset and (marker is None or foreign):
        store.discard_all()
        marker = None
    record = marker or SandboxRecord(sandbox_id, created_at_ns=time.time_ns())
    record.root = root or ""
    record.generation += 1
    try:
        store.write_marker(record)
    except OSError as error:
        raise StateDirectoryError(
            f"{store.path}: the owner marker cannot be written: {error.strerror}"
        ) from None
    return record


def _made_anew(store: Store, sandbox_id: str) -> SandboxRecord:
    """In place of a damaged marker, which is kept: in a generation beyond all that are known of."""
    generation = store.latest_generation() + _GENERATIONS_LOST
    store.set_marker_aside()
    return SandboxRecord(sandbox_id, generation, created_at_ns=time.time_ns())


def own_others(place: Place, default: str) -> list[SandboxRecord]:
    """The records of all sandboxes but the default one, each in a new generation.

    What bears another sandbox's marker, or none, is left alone: nobody asked for it.
    """
    records = []
    for name in sorted(os.listdir(os.path.join(place.state_dir, _DIRECTORY))):
        if name == default or not is_sandbox_id(name):
            continue
        store = place.store(name)
        try:
            record = store.read_marker()
            if record is None or record.id != name:
                raise ValueError("no owner marker of its own")  # noqa: TRY301
            store.prepare()
            record.generation += 1
            store.write_marker(record)
        except (OSError, ValueError) as error:
            log.warning("sandbox %s is left alone: %s", name, error)
            continue
        records.append(record)
    return records


def make(
    place: Place, record: SandboxRecord, copied: str | None, given_up: Callable[[], bool]
) -> None:
    """Put a new sandbox on disk, or leave nothing behind.

    It is made in the trash and gets its name when it is whole: of a daemon that is killed
    meanwhile nothing is left that looks like a sandbox.
    """
    store = place.store(record.id)
    if os.path.lexists(store.path):  # left alone at the start, and not ours to write over
        raise SandboxConflict("id: there is something by this name that cannot be opened")
    staged = Store(place.discarded(record.id), place.disk)
    record.made_in = place.mark
    try:
        make_directory(place.disk, place.trash)
        _make_root(place, record, copied, given_up)
        staged.prepare()
        staged.write_marker(record)
        staged.move(store.path)
    except BaseException as error:
        if record.owns_root:
            roots.remove(place.root_of(record))
        staged.remove()
        store.remove()
        if isinstance(error, OSError):
            reason = error.strerror or "the disk refuses"
            raise Unavailable(f"the sandbox cannot be stored: {reason}") from None
        raise


def _make_root(
    place: Place, record: SandboxRecord, copied: str | None, given_up: Callable[[], bool]
) -> None:
    root = place.root_of(record)
    if os.path.isabs(record.root):
        record.owns_root = roots.make(root, place.identity)
        if copied is not None:
            if not record.owns_root:
                raise SandboxConflict("config.root: is there already, and a copy is to go there")
            roots.copy(copied, root, given_up)
        return
    os.makedirs(os.path.dirname(root), exist_ok=True)
    _discard_root(place, record)  # what a killed daemon left is nothing to begin with
    staged = place.discarded(record.id)
    try:
        roots.make(staged, None, asked=False)
        if copied is not None:
            roots.copy(copied, staged, given_up)
        os.rename(staged, root)
    except BaseException:
        roots.remove(staged)
        raise
    record.owns_root = True


def _discard_root(place: Place, record: SandboxRecord) -> None:
    target = place.discarded(record.id)
    with contextlib.suppress(FileNotFoundError):
        os.rename(place.root_of(record), target)
    roots.remove(target)


def remove(place: Place, record: SandboxRecord) -> None:
    """Remove everything of a sandbox whose sessions have ended."""
    try:
        make_directory(place.disk, place.trash)
        if record.owns_root and not os.path.isabs(record.root):
            _discard_root(place, record)
        elif record.owns_root and record.made_in == place.mark:
            roots.remove(record.root)
        place.store(record.id).discard_into(place.trash)
    except OSError as error:
        reason = error.strerror or "the disk refuses"
        raise Unavailable(f"the sandbox's files cannot be removed: {reason}") from None


def empty_trash(place: Place, sandbox_ids: list[str]) -> None:
    """Remove what former daemons had begun to remove, or had not finished making."""
    for sandbox_id in sandbox_ids:
        place.store(sandbox_id).empty_trash()
    for name in _names(place.trash):
        roots.remove(os.path.join(place.trash, name))
    ours = os.path.join(place.state_dir, _ROOTS)
    for name in _names(ours):
        if is_sandbox_id(name) and not os.path.lexists(place.store(name).path):
            roots.remove(os.path.join(ours, name))


def _names(directory: str) -> list[str]:
    return os.listdir(directory) if os.path.isdir(directory) else []
