"""The few C library and kernel calls that Python does not offer, with their errors as OSError.

All of them release the GIL (ctypes does so for every foreign call), which is the reason why
`posix_spawn` is called from here: `os.posix_spawn` keeps it until the child has called exec.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Any

_libc = ctypes.CDLL(None, use_errno=True)

CLONE_FS = 0x00000200
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_CHILD_SUBREAPER = 36
PR_GET_CHILD_SUBREAPER = 37

_TIMER_ABSOLUTE = 1
_TIMER_CANCEL_ON_SET = 2
_FAR = (1 << 40) if ctypes.sizeof(ctypes.c_long) == 8 else (1 << 31) - 1
"""Seconds after 1970: a time that does not come."""

_WAITID = {"x86_64": 247, "aarch64": 95, "riscv64": 95, "ppc64le": 272, "s390x": 281}
"""Its number as a system call."""

_SPAWN_SETSIGDEF = 0x04
_SPAWN_SETSIGMASK = 0x08
_SPAWN_SETSID = 0x80

# glibc: 336, 80 and 128 bytes on 64-bit, musl less.  Room to spare costs nothing.
_ATTRIBUTES_SIZE = 512
_ACTIONS_SIZE = 256
_SIGSET_SIZE = 128


def _raise(number: int, what: str) -> None:
    raise OSError(number, f"{what}: {os.strerror(number)}")


def _call(name: str, *arguments: Any) -> int:
    """Call a function that returns -1 and sets errno on failure."""
    result = int(getattr(_libc, name)(*arguments))
    if result == -1:
        _raise(ctypes.get_errno(), name)
    return result


def _check(name: str, *arguments: Any) -> None:
    """Call a function that returns an error number."""
    error = getattr(_libc, name)(*arguments)
    if error:
        _raise(error, name)


def unshare_fs() -> None:
    """Give the calling thread its own umask and working directory (unshare(2), CLONE_FS).

    Needs no privilege, but a container's seccomp filter may refuse it with EPERM.
    """
    _call("unshare", CLONE_FS)


def cancelable_timer() -> int:
    """A descriptor (timerfd_create(2)) whose only event is that the wall clock was moved.

    Then a read fails with ECANCELED, also if nobody waited.  Python has it from 3.13 on.
    """
    fd = _call("timerfd_create", time.CLOCK_REALTIME, os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        never = (ctypes.c_long * 4)(0, 0, _FAR, 0)  # struct itimerspec: interval, first
        _call("timerfd_settime", fd, _TIMER_ABSOLUTE | _TIMER_CANCEL_ON_SET, never, None)
    except OSError:
        os.close(fd)
        raise
    return fd


def peak_resident(pidfd: int) -> int | None:
    """The resident bytes that an ended child had at most, it or one of its own that it waited for.

    The child is left to be waited for (WNOWAIT), so the system call itself is needed: the library's
    waitid(3) gives no rusage.  None on a machine whose number of that call is not known here.
    """
    number = _WAITID.get(os.uname().machine)
    if number is None or ctypes.sizeof(ctypes.c_long) != 8:  # the machine's, not a 32-bit program's
        return None
    rusage = (ctypes.c_long * 18)()  # two times of two words each, then 14 words
    info = (ctypes.c_char * 128)()
    flags = os.WEXITED | os.WNOWAIT | os.WNOHANG
    _call("syscall", number, os.P_PIDFD, pidfd, info, flags, rusage)
    return int(rusage[4]) * 1024 or None


def prctl(option: int, value: int = 0) -> int:
    """prctl(2) with one integer argument."""
    zero = ctypes.c_ulong(0)
    return _call("prctl", option, ctypes.c_ulong(value), zero, zero, zero)


def set_thread_name(name: str) -> None:
    """Name the calling thread: at most 15 bytes; a child has the name until it calls exec."""
    zero = ctypes.c_ulong(0)
    _call("prctl", PR_SET_NAME, ctypes.c_char_p(name.encode()), zero, zero, zero)


def is_subreaper() -> bool:
    """Whether orphaned descendants are handed to this process."""
    answer = ctypes.c_int(0)
    _call("prctl", PR_GET_CHILD_SUBREAPER, ctypes.byref(answer), 0, 0, 0)
    return bool(answer.value)


_Plan = list[tuple[str, tuple[Any, ...]]]


class FileActions:
    """What the child does to its descriptors, in order, before it calls exec."""

    def __init__(self) -> None:
        self._plan: _Plan = []

    def open(self, fd: int, path: str, flags: int) -> None:
        self._plan.append(("open", (fd, os.fsencode(path), flags, 0)))

    def dup2(self, source: int, target: int) -> None:
        self._plan.append(("dup2", (source, target)))

    def close(self, fd: int) -> None:
        self._plan.append(("close", (fd,)))

    def fchdir(self, fd: int) -> None:
        self._plan.append(("fchdir_np", (fd,)))

    def close_from(self, lowest: int) -> None:
        """Close `lowest` and everything above, whether it was opened close-on-exec or not."""
        if hasattr(_libc, "posix_spawn_file_actions_addclosefrom_np"):
            self._plan.append(("closefrom_np", (lowest,)))
            return
        # glibc before 2.34: what is open now; closing what is not open is no error there.
        for name in os.listdir("/proc/self/fd"):
            if int(name) >= lowest:
                self.close(int(name))

    def __enter__(self) -> ctypes.Array[ctypes.c_char]:
        self._buffer = ctypes.create_string_buffer(_ACTIONS_SIZE)
        _check("posix_spawn_file_actions_init", self._buffer)
        for name, arguments in self._plan:
            _check(f"posix_spawn_file_actions_add{name}", self._buffer, *arguments)
        return self._buffer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _check("posix_spawn_file_actions_destroy", self._buffer)


class _Attributes:
    """A new session, no blocked signal, every disposition the default one."""

    def __enter__(self) -> ctypes.Array[ctypes.c_char]:
        self._buffer = ctypes.create_string_buffer(_ATTRIBUTES_SIZE)
        _check("posix_spawnattr_init", self._buffer)
        signals = ctypes.create_string_buffer(_SIGSET_SIZE)
        _call("sigemptyset", signals)
        _check("posix_spawnattr_setsigmask", self._buffer, signals)
        # All bits, not sigfillset(3), which leaves out glibc's own 32 and 33: those a child
        # would then find ignored.
        ctypes.memset(signals, 0xFF, _SIGSET_SIZE)
        _check("posix_spawnattr_setsigdefault", self._buffer, signals)
        flags = ctypes.c_short(_SPAWN_SETSIGDEF | _SPAWN_SETSIGMASK | _SPAWN_SETSID)
        _check("posix_spawnattr_setflags", self._buffer, flags)
        return self._buffer

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _check("posix_spawnattr_destroy", self._buffer)


def _vector(strings: Sequence[bytes]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(strings) + 1))(*strings, None)


def posix_spawn(
    path: bytes, argv: Sequence[bytes], environ: Sequence[bytes], actions: FileActions
) -> int:
    """Start `path` as the leader of a new session and return its pid.

    The calling thread sleeps until the child has called exec or has failed to (vfork); other
    threads run.  Raises OSError with the child's own error, whichever of its steps failed.
    """
    pid = ctypes.c_int(0)
    arguments, environment = _vector(argv), _vector(environ)
    with actions as file_actions, _Attributes() as attributes:
        error = _libc.posix_spawn(
            ctypes.byref(pid), path, file_actions, attributes, arguments, environment
        )
    if error:
        raise OSError(error, os.strerror(error))
    return pid.value


def block_signals() -> None:
    """Leave every signal to the other threads: a signal here would only interrupt a wait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())


def assume_identity(uid: int, gid: int, groups: Sequence[int]) -> None:
    """Take another user's identity in the calling thread alone, for good.

    The C library's functions change every thread, as POSIX wants it; the system calls change one
    (nptl(7)).  Real, effective and saved ids all change, so that a child cannot regain them; for
    the thread there is no way back either.  Raises OSError: EPERM where the process may not.
    """
    vector = (ctypes.c_uint * len(groups))(*groups)
    _syscall("setgroups", ctypes.c_size_t(len(groups)), vector)
    _syscall("setresgid", *[ctypes.c_uint(gid)] * 3)
    _syscall("setresuid", *[ctypes.c_uint(uid)] * 3)


# Numbers of the system calls by machine: x86-64 has its own, newer ports share one table.
_GENERIC = {"setgroups": 159, "setresgid": 149, "setresuid": 147}
_NUMBERS = {
    "x86_64": {"setgroups": 116, "setresgid": 119, "setresuid": 117},
    "aarch64": _GENERIC,
    "riscv64": _GENERIC,
    "loongarch64": _GENERIC,
}


def _syscall(name: str, *arguments: Any) -> int:
    numbers = _NUMBERS.get(os.uname().machine)
    if numbers is None:
        raise OSError(errno.ENOSYS, f"{name}: not known on {os.uname().machine}")
    return _call("syscall", ctypes.c_long(numbers[name]), *arguments)
