"""Sessions that a file declares, and what has to be done to have them.

Pure: files are read, nothing else is touched.  `s0d up` carries a plan out over HTTP, the daemon
does so in its own process for what its configuration declares.  It imports `s0d.model` only.

==============  =====================================================================
module          holds
==============  =====================================================================
`file`          `s0d.toml`: the tables of sessions, checked, errors with line and field
`variables`     `${VAR}` and `.env`
`places`        the line of a file in which something is written
`procfile`      a Procfile as such a file
`order`         who waits for whom
`plan`          what is there, what is declared: create, update, keep, remove
==============  =====================================================================
"""
