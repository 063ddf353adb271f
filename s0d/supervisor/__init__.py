"""The engine: sandboxes, sessions, attempts, and what survives them.

`open_supervisor` runs everything in one nursery.  It installs no signal handler, no logging and no
event loop, and leaves no process and no open file behind when it is cancelled; process-wide things
belong to the standalone daemon (`s0d.daemon`).

==============  ======================================================================
module          owns
==============  ======================================================================
`supervisor`    the state directory's lock, start and orderly stop
`lock`          one supervisor a state directory
`registry`      the sandboxes of a state directory: opened, made, forked, deleted
`place`         their directories, and who owns them
`roots`         the root directories of sandboxes: made, copied, removed
`sandbox`       a sandbox: identity, configuration, and its side of the runtime's transitions
`runtime`       whether its processes run, stand still or are gone, and the ways between
`clock`         the runtime's clock, which stands still while it is frozen
`sleep`         what goes on while the machine sleeps
`expiry`        when a sandbox's time is up: its lease, its hard limit, quiet
`sessions`      the sessions of one sandbox: create (idempotent), look up, delete
`session`       a session: what callers see and ask of it
`commands`      what is sent to its process: input, signals, sizes
`attachment`    a client looking on
`continuity`    what the coming and going of runtimes does to a session
`actor`         the task that realizes it: wait, run an attempt, decide, back off
`exec`          commands that are no sessions: owned, ended with their caller
`notes`         files that name their trees, for the next daemon
`replay`        what a client that attaches is sent first, and what a slow one missed
`bounds`        how much of everything a supervisor bears
`storage`       what the journals of a sandbox retain together, held to a limit
`counts`        what has happened since the start, for who publishes it
`meter`         how much output a session has written
`seats`         who is attached, until one takes over
`named`         sessions by name: arbitrated, looked up, replaced
`attempt`       the nursery around one process tree: pumps, readiness, drain, proof
`recorder`      append -> apply -> publish; the only place that stamps wall time
`readiness`     matching the byte sequence that makes an attempt ready
`launch`        the seam between policy and processes
`host`          its real side: environment, spawning, ownership of the tree
`target`        whom processes run as
`recovery`      what a dead daemon left: ending its processes, folding its journals
`store`         the files of a sandbox: owner marker, session records, trash
`snapshots`     when session records are written (never on the hot path)
`change`        waiting for a condition over state
`screens`       the screens of terminals, fed from the journal while somebody looks
`feeding`       catching a screen up in slices, without what cannot show any more
`past`          what was set in output that is too far back to be drawn
`turns`         long work on the loop, in turns with everybody else
`keys`          keys as the bytes that a terminal sends for them
`patterns`      texts and regular expressions in output that arrives in pieces
`waiting`       waiting for a phase, an exit, output, a screen, a port
==============  ======================================================================

Directories (all 0700, the daemon's own)::

    STATE/lock                              held while a supervisor runs; names its holder
    STATE/sandboxes/ID/sandbox.json         the owner marker: identity, generation, configuration
    STATE/sandboxes/ID/sandbox.json.spare   room for the next marker, should the disk be full
    STATE/sandboxes/ID/sessions/SES/        one session: session.json, journal/, and damaged/ where
                                            it could not be rebuilt
    STATE/sandboxes/ID/execs/               commands that run now and are no sessions
    STATE/sandboxes/ID/trash/               deleted sessions on their way out
    STATE/roots/ID/                         the root directory of a sandbox that named none
    STATE/trash/                            deleted sandboxes on their way out
"""

from .commands import Accepted
from .sandbox import Sandbox
from .session import Session
from .supervisor import Supervisor, open_supervisor

__all__ = ["Accepted", "Sandbox", "Session", "Supervisor", "open_supervisor"]
