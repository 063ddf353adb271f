"""What clients see: the JSON of sessions and events, and the envelope around it.

Shared by the API, which encodes, and by the command line, which reads.  Nothing here knows HTTP,
sockets or the supervisor.

=============  =====================================================================
module         holds
=============  =====================================================================
`times`        RFC 3339 times from Unix nanoseconds, fast
`sandbox`      a sandbox as clients see it, and the bodies about one
`session`      a session as clients see it
`event`        an event as JSON, as SSE frames, as WebSocket messages; whole blocks at once
`envelope`     success and failure around an answer
`requests`     the bodies of requests, decoded and checked
`terminal`     those about a terminal: keys, and waiting
`named`        named sessions: what clients send and get
`attach`       the frames of an attachment
`exec`         commands that are no sessions
`problem`      errors as problem details (RFC 9457)
`asciicast`    a terminal's history as a recording that asciinema plays
=============  =====================================================================
"""
