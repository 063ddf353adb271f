"""The root directories of sandboxes: made, copied for a fork, removed.  Everything here blocks."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable
from typing import Final

from s0d.model.errors import InvalidRequest, SandboxConflict, Unavailable
from s0d.process.request import Identity

from .store import remove_tree

_VANISHED: Final = b"No such file or directory"
_LOOK: Final = 0.1
"""Seconds between two looks at whether a copy is still wanted."""


# What the disk is to blame for, and no path.
_OF_DISK: Final = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ENOMEM, errno.EMFILE, errno.ENFILE}
)


def make(path: str, owner: Identity | None, *, asked: bool = True) -> bool:
    """Make `path` where it is not there yet; whether it was made.

    Only one that was made goes with its sandbox.  Raises `InvalidRequest` for a path that was
    `asked` for and cannot be one, `Unavailable` where the disk refuses.
    """
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidRequest("config.root: must be an absolute path")
    parent, name = os.path.split(path.rstrip("/"))
    try:
        os.makedirs(parent or "/", exist_ok=True)
        _make_in(parent or "/", name, owner)
    except FileExistsError:
        if not os.path.isdir(path):
            raise InvalidRequest("config.root: is there, and is not a directory") from None
        return False
    except OSError as error:
        if asked and error.errno not in _OF_DISK:
            raise InvalidRequest(f"config.root: cannot be made: {error.strerror}") from None
        raise Unavailable(f"the root directory cannot be made: {error.strerror}") from None
    return True


def _make_in(parent: str, name: str, owner: Identity | None) -> None:
    """Make `name` and give it to `owner`.

    What the path leads to may change meanwhile, at the hands of those who work there already:
    what is given away is in the same parent, and no link.
    """
    above = os.open(parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.mkdir(name or ".", 0o755, dir_fd=above)
        made = os.open(
            name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above
        )
    finally:
        os.close(above)
    try:
        os.fchmod(made, 0o755)  # the umask is the daemon's, who works here is not
        if owner is not None:
            os.fchown(made, owner.uid, owner.gid)
    finally:
        os.close(made)


def copy(source: str, target: str, given_up: Callable[[], bool]) -> None:
    """Copy what is in `source` into `target`, with owners, links, times and attributes.

    By `cp`, which shares blocks where the file system can.  What goes away while it is being
    copied is not in the copy; any other fault is `Unavailable`, as is that `given_up()` holds.
    """
    if not os.path.isdir(source):
        raise SandboxConflict("the root directory is not there")
    within = os.path.join(os.path.realpath(source), "")
    if os.path.realpath(target).startswith(within):
        raise SandboxConflict("the root directory holds the daemon's own, and is not copied")
    with subprocess.Popen(
        ["cp", "-a", "--reflink=auto", "--", f"{source}/.", target],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
    ) as process:
        said = _outcome(process, given_up)
    if process.returncode and given_up():
        raise Unavailable("s0d is shutting down")
    faults = [line for line in said.splitlines() if _VANISHED not in line]
    if process.returncode and (faults or not said):
        reason = faults[0] if faults else b"cp: %d" % process.returncode
        for path in (target, source):  # which are ours to know
            reason = reason.replace(os.fsencode(path), b".")
        raise Unavailable(f"the root directory cannot be copied: {reason.decode(errors='replace')}")


def _outcome(process: subprocess.Popen[bytes], given_up: Callable[[], bool]) -> bytes:
    """What it wrote to standard error, once it has ended."""
    while True:
        try:
            return process.communicate(timeout=_LOOK)[1]
        except subprocess.TimeoutExpired:
            if given_up():
                process.kill()


def remove(path: str) -> None:
    """Remove a root that was made for a sandbox, with everything in it."""
    remove_tree(path)
