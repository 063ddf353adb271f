"""What a child waits at: the opening of a FIFO."""

from __future__ import annotations

import fcntl
import os
import tempfile


def _raised(fd: int) -> int:
    """A duplicate beyond the numbers that a child at the gate uses; `fd` is closed."""
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10)
    finally:
        os.close(fd)


class Fifo:
    """A FIFO without a name: made, opened as a path, and unlinked."""

    def __init__(self) -> None:
        directory = tempfile.mkdtemp(prefix="s0d-gate-")
        path = f"{directory}/fifo"
        try:
            os.chmod(directory, 0o700)  # the umask may be a child's
            # A child that already runs as another user opens it too; nobody else can reach it.
            os.mkfifo(path)
            os.chmod(path, 0o666)
            self.fd = _raised(os.open(path, os.O_PATH | os.O_CLOEXEC))
        finally:
            if os.path.lexists(path):
                os.unlink(path)
            os.rmdir(directory)

    @property
    def path(self) -> str:
        """A path by which this process, and a child before exec, can open it."""
        return f"/proc/self/fd/{self.fd}"

    def open(self, flags: int) -> int:
        return os.open(self.path, flags | os.O_NONBLOCK | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.fd)


class Latch:
    """A FIFO whose opening for reading blocks until `lift`, if it had no writer before.

    The writer that `lift` made is closed again, but a copy of it may live on in a process that
    another thread forked.
    """

    def __init__(self) -> None:
        self._fifo = Fifo()
        try:
            self._reader = self._fifo.open(os.O_RDONLY)
        except BaseException:
            self._fifo.close()
            raise

    @property
    def fd(self) -> int:
        """By which it can be opened; always the same number."""
        return self._fifo.fd

    def has_writer(self) -> bool:
        """Whether any process, whosever, has it open for writing."""
        try:
            os.read(self._reader, 1)
        except BlockingIOError:
            return True
        return False  # end of file

    def renew(self) -> None:
        """Take a new FIFO in place of this one.

        Not done for each child: it takes a hundred times as long as asking whether it is needed,
        and room in a file system.
        """
        fresh = Latch()
        try:
            os.dup2(fresh._fifo.fd, self._fifo.fd, inheritable=False)
            os.dup2(fresh._reader, self._reader, inheritable=False)
        finally:
            fresh.close()

    def lift(self) -> int:
        """Open it, for as long as the descriptor that is returned is.

        For reading and writing, which never blocks.
        """
        return self._fifo.open(os.O_RDWR)

    def close(self) -> None:
        os.close(self._reader)
        self._fifo.close()
