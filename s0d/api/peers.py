"""Does the peer of a Unix socket belong to one of our sessions?

Sessions that run as the daemon's own user would otherwise be trusted by their user id.  A process
is a session's by its cgroup, by the attempt id in its environment, or by an ancestor that leads
an attempt.  With cgroups or another user (`run_as`) that is a boundary; without either a hostile
program of the same user can hide from it, as it can do all that the daemon can.
"""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import trio

from s0d.process import proc

from .auth import Peer

if TYPE_CHECKING:
    from s0d.supervisor import Supervisor

_SO_PEERPIDFD: Final = 77  # Linux 6.5
_MARKER: Final = "S0D_ATTEMPT_ID"
_DEPTH: Final = 64  # of ancestors

OF_A_SESSION: Final = "processes of a session are not trusted by their user"
GONE: Final = "the process that connected has gone"


def examined(peer: Peer, sock: trio.socket.SocketType, supervisor: Supervisor) -> Peer:
    """`peer`, with the sandbox whose session it belongs to, or the doubt that there is about it."""
    if peer.pid <= 0:  # of a pid namespace outside of ours: no child of ours can be there
        return peer
    pidfd = _pidfd_of(sock)
    try:
        sandbox = _sandbox_of(peer.pid, supervisor)
        if pidfd is not None and _has_ended(pidfd):
            return peer._replace(doubt=GONE)  # and its pid may be another's by now
    except ProcessLookupError:
        return peer._replace(doubt=GONE)
    finally:
        if pidfd is not None:
            os.close(pidfd)
    return peer if sandbox is None else peer._replace(doubt=OF_A_SESSION, sandbox=sandbox)


def _sandbox_of(pid: int, supervisor: Supervisor) -> str | None:
    """Whose session's process it is: "" for one of ours that cannot be told, None for a stranger.

    Raises `ProcessLookupError` for a process that has gone.
    """
    stat = proc.read_stat(pid)
    if stat is None:
        raise ProcessLookupError(pid)
    attempt = _attempt_by_cgroup(pid, supervisor.ownership.base)
    proved = attempt is not None
    if attempt is None:
        # Not waited for: a process that execs all the time would hold up the loop.
        attempt = proc.environment_value(pid, _MARKER, patient=False)
    line = frozenset(_line(stat))
    for sandbox in supervisor.sandboxes.values():
        for session in sandbox.sessions():
            running = session.record.unfinished
            if running is not None and (
                running.id == attempt or (not proved and running.pid in line)
            ):
                return sandbox.id
        if not proved and not line.isdisjoint(sandbox.execs.pids()):
            return sandbox.id
    return "" if proved else None


def _attempt_by_cgroup(pid: int, home: str | None) -> str | None:
    """The attempt in whose cgroup the process is; the name of `home` is that of our state."""
    if home is None:
        return None
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
            paths = [line.rstrip("\n").partition("::")[2] for line in file]
    except FileNotFoundError:
        raise ProcessLookupError(pid) from None
    for path in paths:
        _, found, below = path.partition(f"/{os.path.basename(home)}/")
        if found:
            return below.partition("/")[0]
    return None


def _line(stat: proc.ProcStat) -> Iterator[int]:
    """The process, the leaders of its session and group, and its ancestors."""
    yield from (stat.pid, stat.sid, stat.pgid)
    parent: proc.ProcStat | None = stat
    for _ in range(_DEPTH):
        if parent is None or parent.ppid <= 1:
            return
        yield parent.ppid
        parent = proc.read_stat(parent.ppid)


def _pidfd_of(sock: trio.socket.SocketType) -> int | None:
    try:
        return sock.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError:
        return None  # an older kernel, or the process has been reaped


def _has_ended(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))
