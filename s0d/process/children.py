"""Which children are attempts: theirs is a status that nobody else may take."""

from __future__ import annotations

import threading


class ChildRegistry:
    """The pids whose status belongs to a `Process`.

    Entered by the spawner's thread before anyone is told of the pid, left when it was reaped;
    read by the reaper.  One registry serves one daemon.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pids: set[int] = set()

    def add(self, pid: int) -> None:
        with self._lock:
            self._pids.add(pid)

    def discard(self, pid: int) -> None:
        with self._lock:
            self._pids.discard(pid)

    def __contains__(self, pid: int) -> bool:
        with self._lock:
            return pid in self._pids

    def __len__(self) -> int:
        with self._lock:
            return len(self._pids)
