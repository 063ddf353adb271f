"""Find the program and the directory, and say exactly what is wrong with them.

The kernel gives one error number for a whole spawn.  What can be looked at beforehand is, with
the effective identity of the calling thread; a number that still comes back is explained by
looking at the file again.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Mapping, Sequence

from s0d.process.descriptors import lifted
from s0d.process.errors import SpawnError, SpawnErrorKind, system_error

DEFAULT_PATH = "/bin:/usr/bin"  # execvp(3), where PATH is not set

_RESOURCE_KINDS = dict.fromkeys(
    (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE), SpawnErrorKind.RESOURCES
)
_CWD_KINDS = _RESOURCE_KINDS | {
    errno.ENOENT: SpawnErrorKind.CWD_NOT_FOUND,
    errno.ENOTDIR: SpawnErrorKind.CWD_NOT_DIRECTORY,
    errno.EACCES: SpawnErrorKind.CWD_DENIED,
}
_SHOWN = 100  # characters of a name that is too long to be one
_PROGRAM_KINDS = _RESOURCE_KINDS | {
    errno.ENOENT: SpawnErrorKind.NOT_FOUND,
    errno.ENOTDIR: SpawnErrorKind.NOT_FOUND,
    errno.EACCES: SpawnErrorKind.ACCESS_DENIED,
    errno.EPERM: SpawnErrorKind.ACCESS_DENIED,
    errno.ENOEXEC: SpawnErrorKind.BAD_FORMAT,
    errno.ENAMETOOLONG: SpawnErrorKind.TOO_LONG,
}


def check_strings(argv: Sequence[str], env: Mapping[str, str], cwd: str) -> None:
    """Refuse what no exec could carry: no program, NUL, a name with `=`, text that is no UTF-8."""
    if not argv or not argv[0]:
        raise _invalid("argv: no program is named")
    if not cwd:
        raise _invalid("cwd: empty")
    for name, value in env.items():
        if not name or "=" in name:
            raise _invalid(f"env: {name!r} is no name of a variable")
        _check_string(name, "env: a name")
        _check_string(value, f"env: the value of {name!r}")
    for index, argument in enumerate(argv):
        _check_string(argument, f"argv[{index}]")
    _check_string(cwd, "cwd")


def _check_string(text: str, where: str) -> None:
    if "\0" in text:
        raise _invalid(f"{where}: holds a NUL")
    try:
        os.fsencode(text)
    except UnicodeEncodeError:
        raise _invalid(f"{where}: cannot be encoded") from None


def _invalid(message: str) -> SpawnError:
    return SpawnError(SpawnErrorKind.INVALID, "", 0, message)


def open_directory(path: str) -> int:
    """A descriptor of the working directory, which the calling thread may enter."""
    try:
        # O_PATH: a directory that may be entered need not be readable.
        fd = lifted(os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC))
    except OSError as error:
        raise _cwd_error(path, error) from error
    try:
        os.stat(".", dir_fd=fd)
    except OSError as error:
        os.close(fd)
        raise _cwd_error(path, error) from error
    return fd


def _cwd_error(path: str, error: OSError) -> SpawnError:
    number = error.errno or errno.EIO
    kind = _CWD_KINDS.get(number, SpawnErrorKind.SYSTEM)
    return system_error(kind, path, number, "working directory")


def find_program(name: str, search_path: str | None, cwd_fd: int) -> str:
    """The path to execute for argv[0]: `name` itself when it has a slash, else by PATH.

    Relative paths, in PATH too, are relative to the directory `cwd_fd`.
    """
    if "/" in name:
        _check_program(name, cwd_fd)
        return name
    denied: SpawnError | None = None
    for directory in (DEFAULT_PATH if search_path is None else search_path).split(":"):
        candidate = f"{directory or '.'}/{name}"
        try:
            _check_program(candidate, cwd_fd)
        except SpawnError as error:
            # As execvp does: what may not be executed is passed over, and is the answer only
            # when nothing better is found.
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                denied = denied or error
        else:
            return candidate
    raise denied or system_error(SpawnErrorKind.NOT_FOUND, name, errno.ENOENT, "not found in PATH")


def _check_program(path: str, cwd_fd: int) -> None:
    try:
        mode = os.stat(path, dir_fd=cwd_fd).st_mode
    except OSError as error:
        raise _program_error(path, error.errno or errno.EIO) from error
    if stat.S_ISDIR(mode):
        # The kernel says EACCES here, which would send people looking at permissions.
        raise system_error(SpawnErrorKind.IS_DIRECTORY, path, errno.EISDIR)
    if not os.access(path, os.X_OK, dir_fd=cwd_fd, effective_ids=True):
        raise _program_error(path, errno.EACCES)


def _program_error(path: str, number: int) -> SpawnError:
    if number == errno.ENAMETOOLONG:  # and so would the message be
        path = f"{path[:_SHOWN]}\N{HORIZONTAL ELLIPSIS}"
    return system_error(_PROGRAM_KINDS.get(number, SpawnErrorKind.SYSTEM), path, number)


def explain(path: str, number: int, cwd_fd: int) -> SpawnError:
    """The error of a spawn whose program had been found and looked executable."""
    if number == errno.E2BIG:
        what = "arguments and environment"
        return SpawnError(
            SpawnErrorKind.TOO_LONG, path, number, f"{what}: {path}: {os.strerror(number)}"
        )
    if number in (errno.ENOENT, errno.EACCES, errno.ENOTDIR, errno.ELOOP):
        interpreter = _interpreter(path, cwd_fd)
        if interpreter and _exists(path, cwd_fd):
            message = f"{path}: interpreter {interpreter}: {os.strerror(number)}"
            return SpawnError(SpawnErrorKind.INTERPRETER, interpreter, number, message)
    return _program_error(path, number)


def _exists(path: str, cwd_fd: int) -> bool:
    return os.access(path, os.X_OK, dir_fd=cwd_fd, effective_ids=True)


def _interpreter(path: str, cwd_fd: int) -> str | None:
    """The program that the kernel runs for `path`: after `#!`, or an ELF file's loader."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=cwd_fd)
    except OSError:
        return None  # executable but not readable: nothing more can be said
    try:
        head = os.pread(fd, 4096, 0)
    except OSError:
        return None
    finally:
        os.close(fd)
    if head.startswith(b"#!"):
        words = head[2:].split(b"\n", 1)[0].split(None, 1)
        return os.fsdecode(words[0]) if words else None
    return _elf_loader(head)


def _elf_loader(head: bytes) -> str | None:
    """PT_INTERP of a little-endian 64-bit ELF file, when it lies in the first block (elf(5))."""
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    table = int.from_bytes(head[32:40], "little")
    size = int.from_bytes(head[54:56], "little")
    for index in range(int.from_bytes(head[56:58], "little")):
        entry = head[table + index * size : table + (index + 1) * size]
        if int.from_bytes(entry[:4], "little") == 3:
            offset = int.from_bytes(entry[8:16], "little")
            length = int.from_bytes(entry[32:40], "little")
            return os.fsdecode(head[offset : offset + length].rstrip(b"\0")) or None
    return None
