"""The root directories of sandboxes: made, copied for a fork, removed.  Everything here blocks."""

from __future__ import annotations

import os
import subprocess
from typing import Final

from s0d.model.errors import InvalidRequest, Unavailable
from s0d.process.request import Identity

from .store import remove_tree

_VANISHED: Final = b"No such file or directory"


def make(path: str, owner: Identity | None) -> bool:
    """Make `path` where it is not there yet; whether it was made.

    Only one that was made goes with its sandbox.  Raises `InvalidRequest` for a path that cannot
    be one, `Unavailable` where the disk refuses.
    """
    if not os.path.isabs(path) or "\0" in path:
        raise InvalidRequest("config.root: must be an absolute path")
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.mkdir(path, 0o755)
    except FileExistsError:
        if not os.path.isdir(path):
            raise InvalidRequest("config.root: is there, and is not a directory") from None
        return False
    except OSError as error:
        raise Unavailable(f"the root directory cannot be made: {error.strerror}") from None
    os.chmod(path, 0o755)  # the umask is the daemon's, who works here is not
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)
    return True


def copy(source: str, target: str) -> None:
    """Copy what is in `source` into `target`, with owners, links, times and attributes.

    By `cp`, which shares blocks where the file system can.  What goes away while it is being
    copied is not in the copy; any other fault is `Unavailable`.
    """
    done = subprocess.run(
        ["cp", "-a", "--reflink=auto", "--", f"{source}/.", target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
        check=False,
    )
    faults = [line for line in done.stderr.splitlines() if _VANISHED not in line]
    if done.returncode and (faults or not done.stderr):
        reason = faults[0].decode(errors="replace") if faults else f"cp: {done.returncode}"
        raise Unavailable(f"the root directory cannot be copied: {reason}")


def remove(path: str) -> None:
    """Remove a root that was made for a sandbox, with everything in it."""
    remove_tree(path)
