"""Processes: started exactly as asked, owned to the last descendant, ended with proof.

Knows nothing of sessions or restarts.  What it promises:

- A program starts from a clean state: the environment it was given and nothing else, default
  signal dispositions, empty mask, descriptors 0, 1, 2, its own session; its terminal, cgroup and
  limits in force at its first instruction.  No Python runs between fork and exec.
- A program that cannot be started is a `SpawnError` that names the path at fault.
- A process that was started always has an owner, also when whoever asked was cancelled.
- When `Tree.end` has returned without survivors, no process of the attempt lives.  No process is
  signalled that cannot be proved to be the attempt's.

=================  =================================================================
module             holds
=================  =================================================================
`request`          what a spawn is asked for
`environment`      the environment a session's program starts with
`spawner`          the thread that starts processes, and the way there and back
`launch`           one spawn: checks, descriptors, posix_spawn, registration
`program`          finding program and directory; explaining what is wrong with them
`gate`             holding a child between fork and exec: cgroup, limits
`latch`            the FIFOs of the gate: what a child is held by
`identity`         starting a program as another user
`process`          a started process: status, signals, descriptors
`status`           how a process ended
`children`         which children are attempts; nobody else may reap those
`reaper`           reaping adopted orphans in the standalone daemon
`pty`, `line`      pseudo-terminals; the state of a terminal's input line
`output`, `input`  pumps: read what is written, write what was accepted
`tree`             what an owned tree can do
`cgroup_tree`      the tree as a cgroup
`cgroup`           cgroup files, limits, the daemon's own part of the hierarchy
`proc_tree`        the tree as found in /proc; `attribution`, `scanner`, `proc` serve it
`leader`           a leader that outlives its tree
`detect`           which of the two this machine allows, and what is missing
`rlimits`          resource limits of a child at the gate
`patience`         ending processes while descriptors are short
`descriptors`, `libc`, `errors`
=================  =================================================================
"""
