"""The file operations that the journal and the session records need, as one small object.

Everything that touches the disk goes through a :class:`Disk` that is passed in, so that tests can
fail any single operation or simulate a power cut. :class:`RealDisk` is the system itself. All
methods raise ``OSError``. Files are named inside an open directory: no path is walked twice, and a
symbolic link in place of a file is refused.
"""

import ctypes
import errno
import os
import queue
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial
from typing import Protocol

import trio
from outcome import Outcome, capture

_FALLOC_FL_KEEP_SIZE = 1
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
_SPARE = ".spare"
_BLOCK = 4096
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]


class Disk(Protocol):
    """One method a system call; descriptors are plain integers."""

    def open_directory(self, path: str) -> int:
        """Open a directory (the last component must not be a symbolic link)."""

    def mkdir(self, directory: int, name: str) -> None:
        """Make a directory of mode 0700."""

    def listdir(self, directory: int) -> list[str]:
        """Names in the directory, in no order."""

    def open(self, directory: int, name: str, flags: int) -> int:
        """Open a file; ``flags`` are ``os.O_*``, a new file has mode 0600."""

    def rename(self, directory: int, old: str, new: str, into: int | None = None) -> None:
        """Rename, replacing what was there: in the directory, or into the directory ``into``."""

    def unlink(self, directory: int, name: str) -> None:
        """Remove a file's name."""

    def size(self, fd: int) -> int:
        """Length in bytes."""

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """Up to ``length`` bytes; fewer at the end of the file."""

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """Write at a place; may be short."""

    def writev(self, fd: int, buffers: Sequence[bytes]) -> int:
        """Write at the descriptor's position (segments are opened for append); may be short."""

    def ftruncate(self, fd: int, size: int) -> None:
        """Cut; also gives back what was preallocated beyond ``size``."""

    def fallocate(self, fd: int, offset: int, length: int) -> None:
        """Set space aside without changing the length."""

    def fdatasync(self, fd: int) -> None:
        """Make the data durable."""

    def fsync(self, fd: int) -> None:
        """Make data and metadata durable; on a directory: its names."""

    def sync_together(self, fds: Sequence[int]) -> None:
        """``fsync`` of them all, in no order; on return each has ended. Raises the first error."""

    def close(self, fd: int) -> None:
        """Close the descriptor."""

    def boot_id(self) -> bytes:
        """16 bytes that are others after each start of the machine; zeros where nobody knows."""


class RealDisk:
    """The system calls."""

    def open_directory(self, path: str) -> int:
        """See :class:`Disk`."""
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)

    def mkdir(self, directory: int, name: str) -> None:
        """See :class:`Disk`."""
        os.mkdir(name, 0o700, dir_fd=directory)

    def listdir(self, directory: int) -> list[str]:
        """See :class:`Disk`."""
        return os.listdir(directory)

    def open(self, directory: int, name: str, flags: int) -> int:
        """See :class:`Disk`."""
        return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=directory)

    def rename(self, directory: int, old: str, new: str, into: int | None = None) -> None:
        """See :class:`Disk`."""
        os.rename(old, new, src_dir_fd=directory, dst_dir_fd=directory if into is None else into)

    def unlink(self, directory: int, name: str) -> None:
        """See :class:`Disk`."""
        os.unlink(name, dir_fd=directory)

    def size(self, fd: int) -> int:
        """See :class:`Disk`."""
        return os.fstat(fd).st_size

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        """See :class:`Disk`."""
        return os.pread(fd, length, offset)

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        """See :class:`Disk`."""
        return os.pwrite(fd, data, offset)

    def writev(self, fd: int, buffers: Sequence[bytes]) -> int:
        """See :class:`Disk`."""
        return os.writev(fd, buffers)

    def ftruncate(self, fd: int, size: int) -> None:
        """See :class:`Disk`."""
        os.ftruncate(fd, size)

    def fallocate(self, fd: int, offset: int, length: int) -> None:
        """See :class:`Disk`. By ctypes: ``os.posix_fallocate`` would change the file's length."""
        while _libc.fallocate(fd, _FALLOC_FL_KEEP_SIZE, offset, length) != 0:
            number = ctypes.get_errno()
            if number != errno.EINTR:
                raise OSError(number, os.strerror(number))

    def fdatasync(self, fd: int) -> None:
        """See :class:`Disk`."""
        os.fdatasync(fd)

    def fsync(self, fd: int) -> None:
        """See :class:`Disk`."""
        os.fsync(fd)

    def sync_together(self, fds: Sequence[int]) -> None:
        """See :class:`Disk`.

        In threads of Trio's, side by side: each ``fsync`` ends with a flush of the device's cache,
        which takes most of its time, and the kernel does flushes that wait together as one.
        """
        done: queue.SimpleQueue[Outcome[None]] = queue.SimpleQueue()
        for fd in fds[1:]:
            trio.lowlevel.start_thread_soon(partial(os.fsync, fd), done.put)
        outcomes: list[Outcome[None]] = [capture(os.fsync, fd) for fd in fds[:1]]
        outcomes.extend(done.get() for _ in fds[1:])
        for outcome in outcomes:
            outcome.unwrap()

    def close(self, fd: int) -> None:
        """See :class:`Disk`."""
        os.close(fd)

    def boot_id(self) -> bytes:
        """See :class:`Disk`."""
        return _boot_id()


@cache
def _boot_id() -> bytes:
    """By ``proc(5)``, random/boot_id."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return bytes.fromhex(file.read().strip().replace("-", ""))
    except (OSError, ValueError):
        return bytes(16)


@contextmanager
def opened_directory(disk: Disk, path: str) -> Iterator[int]:
    """A directory's descriptor for the length of a block.

    Descriptors of directories are not kept: an idle journal costs one descriptor, not two.
    """
    directory = disk.open_directory(path)
    try:
        yield directory
    finally:
        disk.close(directory)


@contextmanager
def opened(disk: Disk, directory: int, name: str, flags: int = os.O_RDONLY) -> Iterator[int]:
    """A file's descriptor for the length of a block."""
    fd = disk.open(directory, name, flags)
    try:
        yield fd
    finally:
        disk.close(fd)


def write_fully(disk: Disk, fd: int, data: bytes, offset: int) -> None:
    """``pwrite`` until all is written. A write of nothing is an error, not a loop."""
    done = 0
    while done < len(data):
        written = disk.pwrite(fd, data[done:], offset + done)
        if written == 0:
            raise OSError(errno.EIO, "nothing was written")
        done += written


def read_fully(disk: Disk, fd: int, length: int, offset: int) -> bytes:
    """``pread`` until ``length`` bytes or the end of the file."""
    data = disk.pread(fd, length, offset)
    if len(data) in (0, length):
        return data
    parts = [data]
    got = len(data)
    while got < length and (data := disk.pread(fd, length - got, offset + got)):
        parts.append(data)
        got += len(data)
    return b"".join(parts)


def make_directory(disk: Disk, path: str, *, sync: bool = True) -> None:
    """Make one directory (mode 0700) so that it survives a power cut; an existing one is fine.

    Without ``sync`` the caller makes its name durable.
    """
    parent, name = os.path.split(os.path.abspath(path))
    with opened_directory(disk, parent) as directory:
        try:
            disk.mkdir(directory, name)
        except FileExistsError:
            return
        if sync:
            disk.fsync(directory)


def move(disk: Disk, path: str, target: str) -> None:
    """Move a directory or a file, durably: it is in one place or in the other."""
    with (
        opened_directory(disk, os.path.dirname(path)) as source,
        opened_directory(disk, os.path.dirname(target)) as into,
    ):
        disk.rename(source, os.path.basename(path), os.path.basename(target), into)
        for directory in (into, source):
            disk.fsync(directory)


def write_atomically(disk: Disk, path: str, name: str, data: bytes, *, spare: bool = False) -> None:
    """Replace the file ``name`` in the directory ``path``: it is old or new, never in between.

    Temporary file, fsync, rename, fsync of the directory: durable on return. On ``OSError`` the
    old file stands; a left-over ``NAME.tmp`` is replaced by the next call.

    With ``spare`` room for the next call is kept in ``NAME.spare``: it may find the disk full.
    """
    with opened_directory(disk, path) as directory:
        try:
            _replace(disk, directory, name, data)
        except OSError as error:
            if not spare or error.errno not in _NO_SPACE:
                raise
            _discard(disk, directory, name + _SPARE)
            _replace(disk, directory, name, data)
        if spare:
            _keep_spare(disk, directory, name + _SPARE, len(data))


def _keep_spare(disk: Disk, directory: int, name: str, size: int) -> None:
    """Where there is no room else, there is that of the file that was just replaced."""
    with (
        suppress(OSError),
        opened(disk, directory, name, os.O_WRONLY | os.O_CREAT) as fd,
    ):
        disk.fallocate(fd, 0, -(-size // _BLOCK) * _BLOCK)


def _replace(disk: Disk, directory: int, name: str, data: bytes) -> None:
    temporary = name + ".tmp"
    try:
        with opened(disk, directory, temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as fd:
            write_fully(disk, fd, data, 0)
            disk.fsync(fd)
        disk.rename(directory, temporary, name)
    except OSError:
        _discard(disk, directory, temporary)
        raise
    disk.fsync(directory)


def _discard(disk: Disk, directory: int, name: str) -> None:
    try:
        disk.unlink(directory, name)
    except OSError:
        return  # the first error is the one to tell; the next call truncates the remains
