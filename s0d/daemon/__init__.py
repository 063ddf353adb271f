"""The daemon: configuration, supervisor and API, wired.

This is the composition root.  `serve` is what an embedder calls: it touches nothing of the
process.  `standalone` is what `s0d serve` runs, and the only place that does process-wide things:
signals, umask, logging, limits, reaping of orphans.

==============  =====================================================================
module          holds
==============  =====================================================================
`paths`         where state and socket lie by default, and listen addresses
`journals`      journals as files, for `s0d journal`: found, checked, mended, printed
`token`         the bearer token: environment, systemd credential, or a file made once
`settings`      file, environment and flags, and which of them a value comes from
`config`        everything that can be configured, resolved
`serve`         supervisor and API in one nursery
`standalone`    the process around it: signals, readiness, exit code
`force`         what a second signal does
`confinement`   umask, no core dumps of secrets, descriptor limit
`notify`        readiness, status, life and reload told to systemd or to whoever started us
`activation`    sockets that systemd has opened for us
`logs`          one line an event, as text or JSON
==============  =====================================================================
"""
