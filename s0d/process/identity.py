"""Start a program as another user, without a helper program in between.

posix_spawn cannot change the user, but a child has the credentials of the *thread* that made it.
So a thread is made for one spawn: it takes the user's identity by system calls that change one
thread only, does the whole spawn (directory, program, terminal and pipes are found and made as
that user, with that user's rights) and ends.

For as long as it lives, which is one spawn, that thread may be signalled by the user's other
processes; a SIGKILL aimed at it in that millisecond would end the daemon.  Without a helper
program there is no way around it: the kernel looks at the real or the saved user id, and the
child needs both.  What the daemon holds in memory stays out of reach: a process whose credentials
have changed is not dumpable, so that it cannot be traced.
"""

from __future__ import annotations

import grp
import os
import pwd
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

from s0d.process import libc
from s0d.process.environment import UserEntry
from s0d.process.errors import SpawnErrorKind, system_error
from s0d.process.request import Identity

T = TypeVar("T")


def parse_user(text: str) -> tuple[Identity, UserEntry]:
    """The identity that `USER` or `USER:GROUP` means, each a name or a number.

    Raises ValueError with a message for a person.  May ask the network (NSS), as `look_up`.
    """
    user, colon, group = text.partition(":")
    if not user or (colon and not group):
        raise ValueError("must be USER or USER:GROUP")
    try:
        gid = _gid(group) if colon else None
    except KeyError:
        raise ValueError(f"there is no group {group!r}") from None
    try:
        return look_up(user, gid)
    except (KeyError, OverflowError):
        raise ValueError(f"there is no user {user!r}") from None


def _gid(group: str) -> int:
    entry = grp.getgrgid(int(group)) if group.isdecimal() else grp.getgrnam(group)
    return entry.gr_gid


def look_up(user: str, group: int | None = None) -> tuple[Identity, UserEntry]:
    """The identity of a user by name or number, with all supplementary groups.

    Raises KeyError.  May ask the network (NSS): not for the event loop.
    """
    entry = pwd.getpwuid(int(user)) if user.isdecimal() else pwd.getpwnam(user)
    gid = entry.pw_gid if group is None else group
    groups = tuple(os.getgrouplist(entry.pw_name, gid))
    return (
        Identity(entry.pw_uid, gid, groups),
        UserEntry(entry.pw_name, entry.pw_dir, entry.pw_shell),
    )


def run_as(identity: Identity, action: Callable[[], T]) -> T:
    """Do something in a thread that has this identity; the result or the error is the caller's.

    Raises SpawnError (IDENTITY) when this process may not take it.
    """
    if is_own(identity):
        return action()
    results: list[T] = []
    errors: list[BaseException] = []

    def act() -> None:
        try:
            _assume(identity)
            results.append(action())
        except BaseException as error:
            errors.append(error)

    dumpable = libc.prctl(libc.PR_GET_DUMPABLE)
    thread = threading.Thread(target=act, name="s0d-identity", daemon=True)
    thread.start()
    thread.join()
    _wait_gone(thread)
    if dumpable == 1:
        # The kernel took it away from the whole process; all threads are what they were again.
        with suppress(OSError):
            libc.prctl(libc.PR_SET_DUMPABLE, 1)
    if errors:
        raise errors[0]
    return results[0]


def is_own(identity: Identity) -> bool:
    """Whether it is what this process is anyway."""
    return (
        os.getresuid() == (identity.uid,) * 3
        and os.getresgid() == (identity.gid,) * 3
        and set(os.getgroups()) == set(identity.groups)
    )


def _wait_gone(thread: threading.Thread) -> None:
    """Wait until the kernel knows the thread no more.

    `join` returns when Python has done with it, a little earlier.  Were the process dumpable
    again by then, the user could trace the thread, and through it read all memory.
    """
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        time.sleep(0.0001)


def _assume(identity: Identity) -> None:
    try:
        libc.assume_identity(identity.uid, identity.gid, identity.groups)
    except OSError as error:
        what = f"run as uid {identity.uid}, gid {identity.gid}"
        raise system_error(SpawnErrorKind.IDENTITY, "", error.errno or 0, what) from error
