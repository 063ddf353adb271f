"""One sync, as a worker thread carries it out.

A failed ``fdatasync`` is never simply repeated: the kernel may have dropped the pages and would
then report success. The file is retired from writing, and the next round writes it anew from what
can still be read (new file, fsync, rename, fsync of the directory); only then its numbers count as
durable. Until that works, waiters get the error. Should the process die first, an empty file beside
the segment tells the next one, to which the kernel would report success too.
"""

import os
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field

from s0d.journal.disk import Disk, opened, opened_directory, read_fully, write_fully
from s0d.journal.mark import NAME as MARK
from s0d.journal.mark import Mark, write_mark
from s0d.journal.segment import Segment, SharedFile

_COPY = 1024 * 1024
_NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
NEW_SUFFIX = ".new"
SUSPECT_SUFFIX = ".suspect"


@dataclass(slots=True, eq=False)
class DirtyFile:
    """A segment file with data that is not durable. ``suspect``: a sync of it has failed.
    ``settles``: something was taken back from it before its round was planned."""

    segment: Segment
    file: SharedFile
    suspect: bool = False
    settles: bool = False


@dataclass(slots=True)
class Plan:
    """What a worker thread is to do; it touches nothing else."""

    path: str
    files: list[DirtyFile]
    names: bool
    mark: Mark | None
    above: Sequence[str] | None = None
    """A new journal is made durable: files, mark and names, and those in these directories."""
    failed: list[DirtyFile] = field(default_factory=list)
    mark_failed: bool = False
    names_done: bool = False
    error: OSError | None = None

    def carry_out(self, disk: Disk) -> None:
        """Blocking. Errors are put down in the plan; a failure does not keep the rest undone."""
        if self.above is not None:
            self._found(disk, self.above)
            return
        for dirty in self.files:
            self._try(disk, dirty)
        if self.names and self.error is None:
            try:
                _sync_names(disk, self.path)
                self.names_done = True
            except OSError as error:
                self.error = error
        if self.mark is not None:
            try:
                write_mark(disk, self.path, self.mark)
            except OSError as error:
                self.mark_failed = True
                self.error = self.error or error

    def _found(self, disk: Disk, above: Sequence[str]) -> None:
        """All at once: nobody has seen the journal yet, so that no order has to be kept."""
        try:
            with ExitStack() as stack:
                fds = [dirty.file.fd for dirty in self.files]
                directory, *rest = (
                    stack.enter_context(opened_directory(disk, path))
                    for path in (self.path, *above)
                )
                fds.append(stack.enter_context(opened(disk, directory, MARK)))
                disk.sync_together([*fds, directory, *rest])
            self.names_done = True
        except OSError as error:
            self.failed, self.error = list(self.files), error

    def _try(self, disk: Disk, dirty: DirtyFile) -> None:
        try:
            if dirty.segment.removed:
                return  # by retention: nobody can ask for it any more
            if dirty.suspect:
                with opened_directory(disk, self.path) as directory:
                    rewrite(disk, directory, dirty.segment)
            else:
                disk.fdatasync(dirty.file.fd)
        except OSError as error:
            if not dirty.segment.removed:
                self.failed.append(dirty)
                self.error = self.error or error
                with suppress(OSError), opened_directory(disk, self.path) as directory:
                    leave_word(disk, directory, dirty.segment.name)


def rewrite(disk: Disk, directory: int, segment: Segment) -> None:
    """Give a segment whose sync failed a new, durable file with the same content."""
    name, size = segment.name, segment.size
    with (
        opened(disk, directory, name) as old,
        opened(disk, directory, name + NEW_SUFFIX, _NEW_FLAGS) as new,
    ):
        # The size as it was counted: what a failed append left behind it is not copied.
        for offset in range(0, size, _COPY):
            part = read_fully(disk, old, min(_COPY, size - offset), offset)
            write_fully(disk, new, part, offset)
        disk.fsync(new)
    with segment.naming:
        if segment.removed:  # on the loop, meanwhile; another may bear its name now
            disk.unlink(directory, name + NEW_SUFFIX)
            return
        disk.rename(directory, name + NEW_SUFFIX, name)
    disk.fsync(directory)
    trust(disk, directory, name)


def leave_word(disk: Disk, directory: int, name: str) -> None:
    """A sync of the segment ``name`` failed: for the next process in this boot, who needs no sync
    to see it. As well as can be: the disk may refuse this, too."""
    with suppress(OSError):
        disk.close(disk.open(directory, name + SUSPECT_SUFFIX, _NEW_FLAGS))


def trust(disk: Disk, directory: int, name: str) -> None:
    """Take the word back: the segment ``name`` is durable, or gone."""
    with suppress(FileNotFoundError):
        disk.unlink(directory, name + SUSPECT_SUFFIX)


def _sync_names(disk: Disk, path: str) -> None:
    with opened_directory(disk, path) as directory:
        disk.fsync(directory)
