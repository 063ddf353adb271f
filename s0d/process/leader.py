"""The leader of a tree that was ended: it must have ended too."""

from __future__ import annotations

import trio

from s0d.process import proc
from s0d.process.proc_tree import ProcTree, record_of
from s0d.process.process import Process
from s0d.process.tree import EndReport

PATIENCE = 1.0
"""Seconds: a cgroup may be empty a moment before the kernel tells of the end of the last in it."""


async def end_stray(process: Process, attempt_id: str) -> EndReport | None:
    """End a leader that lives on outside of its tree, and what /proc shows to be its own.

    None where it has ended, as it should: whoever starts it puts it into the tree first.  But a
    promise about the end cannot rest on one about the start, and one that moves itself out of its
    cgroup (root's can) is nobody's otherwise.
    """
    with trio.move_on_after(PATIENCE):
        await process.wait()
        return None
    stat = proc.read_stat(process.pid)
    if stat is None or not stat.alive:
        return None  # a debugger has its status
    return await ProcTree(record_of(process, attempt_id)).end(0)
