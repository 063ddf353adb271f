"""Disks for tests: one that fails where it is told to, one that can lose its power."""

from __future__ import annotations

import errno
import os
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from s0d.journal import Disk, RealDisk

SECTOR = 512
MUTATIONS = (
    "mkdir", "open", "rename", "unlink", "pwrite", "writev", "ftruncate", "fallocate",
    "fdatasync", "fsync",
)  # fmt: skip


class Stopped(BaseException):
    """The process ends here: nothing after this point may run."""


@dataclass
class Failpoint:
    """``operation`` on a file whose name contains ``name`` fails ``times`` times, after ``skip``.

    ``error`` is an errno; ``short`` lets so many bytes through first; ``stop`` ends the process
    (with ``after``: once the operation is done).
    """

    operation: str
    name: str = ""
    error: int | None = None
    short: int | None = None
    stop: bool = False
    after: bool = False
    times: int | None = 1
    skip: int = 0
    hits: int = 0

    def matches(self, operation: str, name: str) -> bool:
        if operation != self.operation or self.name not in name:
            return False
        if self.skip > 0:
            self.skip -= 1
            return False
        if self.times is not None and self.hits >= self.times:
            return False
        self.hits += 1
        return True


@dataclass
class Trap:
    """At the operation with the number ``place``, whatever it is, the process ends, or the disk
    fails with ``error``; ``after``: once it has been done."""

    place: int
    after: bool = False
    error: int | None = None

    def springs(self) -> bool:
        self.place -= 1
        return self.place == -1

    def spring(self, operation: str) -> None:
        if self.error is None:
            raise Stopped(operation)
        raise OSError(self.error, os.strerror(self.error))


class FailDisk:
    """Another disk with failpoints beside each operation, and a record of all operations."""

    def __init__(self, inner: Disk | None = None) -> None:
        self.inner = inner or RealDisk()
        self.points: list[Failpoint] = []
        self.trap: Trap | None = None
        self.before: Callable[[], None] | None = None
        """Called before each operation that takes something back."""
        self.calls: list[tuple[str, str]] = []
        self.names: dict[int, str] = {}

    def fail(self, operation: str, error: int | None = None, **options: Any) -> Failpoint:
        point = Failpoint(operation, error=error, **options)
        self.points.append(point)
        return point

    def count(self, operation: str, name: str = "") -> int:
        return sum(op == operation and name in of for op, of in self.calls)

    def _do(self, operation: str, name: str, call: Callable[[], Any]) -> Any:
        self.calls.append((operation, name))
        if self.before is not None and operation in ("ftruncate", "unlink"):
            self.before()
        if self.trap is not None and self.trap.springs():
            if self.trap.after:
                call()
            if operation == "fdatasync" and self.trap.error and isinstance(self.inner, SimDisk):
                self.inner.fail_syncs = 1  # as Linux fails it: what it was about is lost
                call()
            self.trap.spring(operation)
        for point in self.points:
            if point.matches(operation, name):
                if point.stop and not point.after:
                    raise Stopped(operation)
                if point.stop:
                    call()
                    raise Stopped(operation)
                if point.error is not None:
                    raise OSError(point.error, os.strerror(point.error))
        return call()

    def _data(
        self, operation: str, fd: int, buffers: Sequence[bytes], call: Callable[[bytes], int]
    ) -> int:
        name = self.names.get(fd, "?")
        self.calls.append((operation, name))
        data = b"".join(buffers)
        if self.trap is not None and self.trap.springs():
            call(data if self.trap.after else data[: len(data) // 2])
            self.trap.spring(operation)
        for point in self.points:
            if not point.matches(operation, name):
                continue
            written = call(data[: point.short]) if point.short else 0
            if point.stop:
                if point.after:
                    call(data)
                raise Stopped(operation)
            if point.error is not None and not point.short:
                raise OSError(point.error, os.strerror(point.error))
            return written
        return call(data)

    def open_directory(self, path: str) -> int:
        fd = self._do("open_directory", path, lambda: self.inner.open_directory(path))
        self.names[fd] = path
        return fd

    def open(self, directory: int, name: str, flags: int) -> int:
        fd = self._do("open", name, lambda: self.inner.open(directory, name, flags))
        self.names[fd] = name
        return fd

    def mkdir(self, directory: int, name: str) -> None:
        self._do("mkdir", name, lambda: self.inner.mkdir(directory, name))

    def listdir(self, directory: int) -> list[str]:
        return self._do("listdir", "", lambda: self.inner.listdir(directory))

    def rename(self, directory: int, old: str, new: str, into: int | None = None) -> None:
        self._do("rename", old, lambda: self.inner.rename(directory, old, new, into))

    def unlink(self, directory: int, name: str) -> None:
        self._do("unlink", name, lambda: self.inner.unlink(directory, name))

    def size(self, fd: int) -> int:
        return self.inner.size(fd)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        return self._do(
            "pread", self.names.get(fd, "?"), lambda: self.inner.pread(fd, length, offset)
        )

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        return self._data("pwrite", fd, [data], lambda part: self.inner.pwrite(fd, part, offset))

    def writev(self, fd: int, buffers: Sequence[bytes]) -> int:
        return self._data("writev", fd, buffers, lambda part: self.inner.writev(fd, [part]))

    def ftruncate(self, fd: int, size: int) -> None:
        self._do("ftruncate", self.names.get(fd, "?"), lambda: self.inner.ftruncate(fd, size))

    def fallocate(self, fd: int, offset: int, length: int) -> None:
        name = self.names.get(fd, "?")
        self._do("fallocate", name, lambda: self.inner.fallocate(fd, offset, length))

    def fdatasync(self, fd: int) -> None:
        self._do("fdatasync", self.names.get(fd, "?"), lambda: self.inner.fdatasync(fd))

    def fsync(self, fd: int) -> None:
        self._do("fsync", self.names.get(fd, "?"), lambda: self.inner.fsync(fd))

    def sync_together(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self.fsync(fd)

    def close(self, fd: int) -> None:
        self.names.pop(fd, None)
        self.inner.close(fd)

    def boot_id(self) -> bytes:
        return self.inner.boot_id()


@dataclass(eq=False)
class Inode:
    """A file: what programs see, what the disk has, and which sectors are not there yet."""

    cache: bytearray = field(default_factory=bytearray)
    disk: bytearray = field(default_factory=bytearray)
    dirty: set[int] = field(default_factory=set)
    allocated: int = 0
    opened: int = 0

    @property
    def space(self) -> int:
        return max(len(self.cache), self.allocated)

    def write(self, offset: int, data: bytes) -> None:
        end = offset + len(data)
        if end > len(self.cache):
            self.cache.extend(bytes(end - len(self.cache)))
        self.cache[offset:end] = data
        self.dirty.update(range(offset // SECTOR, (end + SECTOR - 1) // SECTOR))

    def truncate(self, size: int) -> None:
        old = len(self.cache)
        del self.cache[size:]
        self.cache.extend(bytes(size - len(self.cache)))
        self.allocated = min(self.allocated, size)
        self.dirty.update(range(min(old, size) // SECTOR, (max(old, size) + SECTOR - 1) // SECTOR))

    def sync(self) -> None:
        size = len(self.cache)
        del self.disk[size:]
        self.disk.extend(bytes(size - len(self.disk)))
        for sector in self.dirty:
            start = sector * SECTOR
            self.disk[start : min(size, start + SECTOR)] = self.cache[start : start + SECTOR]
        self.dirty.clear()

    def write_back(self, chance: random.Random) -> None:
        """Some sectors reach the disk, and a length that covers them."""
        for sector in [one for one in sorted(self.dirty) if chance.random() < 0.5]:
            start, stop = sector * SECTOR, min(len(self.cache), (sector + 1) * SECTOR)
            if start < stop:
                self.disk.extend(bytes(max(0, stop - len(self.disk))))
                self.disk[start:stop] = self.cache[start:stop]
                self.dirty.discard(sector)

    def power_cut(self, chance: random.Random) -> None:
        """Each unsynced sector, and the length, is there or not, independently of the others."""
        size = chance.choice([len(self.disk), len(self.cache)])
        if chance.random() < 0.3 and len(self.cache) > len(self.disk):
            size = chance.randint(len(self.disk), len(self.cache))
        image = self.disk[:size] + bytes(max(0, size - len(self.disk)))
        for sector in sorted(self.dirty):
            start = sector * SECTOR
            stop = min(size, start + SECTOR, len(self.cache))
            if start < stop and chance.random() < 0.5:
                image[start:stop] = self.cache[start:stop]
        self.cache, self.disk = image, bytearray(image)
        self.dirty.clear()
        self.allocated = 0


@dataclass(eq=False)
class Directory:
    """Names as programs see them, as the disk has them, and the changes in between, in order.

    ext4, XFS and btrfs commit the changes of one directory in order: a power cut keeps a prefix.
    """

    names: dict[str, Inode] = field(default_factory=dict)
    disk: dict[str, Inode] = field(default_factory=dict)
    log: list[dict[str, Inode]] = field(default_factory=list)

    def changed(self) -> None:
        self.log.append(dict(self.names))

    def sync(self) -> None:
        self.disk = dict(self.names)
        self.log.clear()

    def write_back(self, chance: random.Random) -> None:
        """Some changes, the oldest ones, are committed."""
        if self.log:
            place = chance.randrange(len(self.log))
            self.disk = self.log[place]
            del self.log[: place + 1]

    def power_cut(self, chance: random.Random) -> None:
        self.disk = dict(chance.choice([self.disk, *self.log]))
        self.names = dict(self.disk)
        self.log.clear()


class SimDisk:
    """A disk in memory with page cache and platter apart.

    ``crash`` ends the process (the cache stays), ``power_cut`` loses what was not synced, in any
    combination of sectors. ``fail_syncs``: so many syncs fail the way Linux lets them: the pages
    count as clean afterwards, and the disk does not have them. ``capacity`` in bytes bounds files
    and what is set aside.
    """

    def __init__(self, seed: int = 0, capacity: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.capacity = capacity
        self.fail_syncs = 0
        self.boots = 1
        self.directories: dict[str, Directory] = {}
        self._open: dict[int, tuple[Inode | Directory, int]] = {}
        self._next = 1000
        self._lock = threading.RLock()

    def put(self, path: str, files: dict[str, bytes]) -> None:
        """Replace a directory's content; it is on the disk."""
        self.directories[path] = directory = Directory()
        for name, data in files.items():
            directory.names[name] = Inode(bytearray(data), bytearray(data))
        directory.sync()

    def files(self, path: str) -> dict[str, bytes]:
        """A directory's content as programs see it."""
        names = self.directories[path].names if path in self.directories else {}
        return {name: bytes(inode.cache) for name, inode in names.items()}

    def crash(self) -> None:
        for fd in list(self._open):
            self.close(fd)

    def write_back(self) -> None:
        """What the kernel does at any time."""
        with self._lock:
            for directory in self.directories.values():
                directory.write_back(self.chance)
                for inode in dict.fromkeys(directory.names.values()):
                    inode.write_back(self.chance)

    def boot_id(self) -> bytes:
        return self.boots.to_bytes(16, "little")

    def power_cut(self) -> None:
        self.crash()
        self.boots += 1
        for directory in self.directories.values():
            directory.power_cut(self.chance)
            for inode in dict.fromkeys(directory.names.values()):  # in order: a seed tells all
                inode.power_cut(self.chance)

    def used(self) -> int:
        inodes = {i for d in self.directories.values() for i in d.names.values()}
        inodes |= {of for of, _ in self._open.values() if isinstance(of, Inode)}
        return sum(inode.space for inode in inodes)

    def _want(self, inode: Inode, size: int) -> int:
        """How much of ``size`` there is space for."""
        if self.capacity is None:
            return size
        return min(size, max(inode.space, inode.space + self.capacity - self.used()))

    def _new(self, of: Inode | Directory, flags: int = 0) -> int:
        self._next += 1
        self._open[self._next] = of, flags
        if isinstance(of, Inode):
            of.opened += 1
        return self._next

    def _inode(self, fd: int) -> Inode:
        of = self._open[fd][0]
        assert isinstance(of, Inode)
        return of

    def _directory(self, fd: int) -> Directory:
        of = self._open[fd][0]
        assert isinstance(of, Directory)
        return of

    @contextmanager
    def _as_directory(self, fd: int, name: str) -> Iterator[Directory]:
        with self._lock:
            directory = self._directory(fd)
            if name not in directory.names:
                raise FileNotFoundError(errno.ENOENT, name)
            yield directory
            directory.changed()

    def open_directory(self, path: str) -> int:
        with self._lock:
            return self._new(self.directories.setdefault(path, Directory()))

    def mkdir(self, directory: int, name: str) -> None:
        with self._lock:
            if self._directory(directory).names.setdefault(name, inode := Inode()) is not inode:
                raise FileExistsError(errno.EEXIST, name)

    def listdir(self, directory: int) -> list[str]:
        with self._lock:
            return list(self._directory(directory).names)

    def open(self, directory: int, name: str, flags: int) -> int:
        with self._lock:
            names = self._directory(directory).names
            if name not in names:
                if not flags & os.O_CREAT:
                    raise FileNotFoundError(errno.ENOENT, name)
                names[name] = Inode()
                self._directory(directory).changed()
            elif flags & os.O_TRUNC:
                names[name].truncate(0)
            return self._new(names[name], flags)

    def rename(self, directory: int, old: str, new: str, into: int | None = None) -> None:
        assert into is None, "a journal stays in its directory"
        with self._as_directory(directory, old) as of:
            of.names[new] = of.names.pop(old)

    def unlink(self, directory: int, name: str) -> None:
        with self._as_directory(directory, name) as of:
            del of.names[name]

    def size(self, fd: int) -> int:
        return len(self._inode(fd).cache)

    def pread(self, fd: int, length: int, offset: int) -> bytes:
        with self._lock:
            return bytes(self._inode(fd).cache[offset : offset + length])

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        with self._lock:
            inode = self._inode(fd)
            room = self._want(inode, offset + len(data)) - offset
            if room <= 0 < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            inode.write(offset, data[:room])
            return min(room, len(data))

    def writev(self, fd: int, buffers: Sequence[bytes]) -> int:
        with self._lock:
            assert self._open[fd][1] & os.O_APPEND
            return self.pwrite(fd, b"".join(buffers), self.size(fd))

    def ftruncate(self, fd: int, size: int) -> None:
        with self._lock:
            self._inode(fd).truncate(size)

    def fallocate(self, fd: int, offset: int, length: int) -> None:
        with self._lock:
            inode = self._inode(fd)
            if self._want(inode, offset + length) < offset + length:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            inode.allocated = max(inode.allocated, offset + length)

    def fdatasync(self, fd: int) -> None:
        with self._lock:
            if self.fail_syncs:
                self.fail_syncs -= 1
                self._inode(fd).dirty.clear()
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            self._inode(fd).sync()

    def fsync(self, fd: int) -> None:
        with self._lock:
            of = self._open[fd][0]
            if isinstance(of, Directory):
                of.sync()
            else:
                self.fdatasync(fd)

    def sync_together(self, fds: Sequence[int]) -> None:
        for fd in fds:
            self.fsync(fd)

    def close(self, fd: int) -> None:
        with self._lock:
            of, _ = self._open.pop(fd)
            if isinstance(of, Inode):
                of.opened -= 1

    @property
    def descriptors(self) -> int:
        return len(self._open)
