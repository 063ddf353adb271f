"""The nouns of s0d and the rules that hold between them.

What a session, an attempt and an event *are*, which specification is valid, what phase follows
which event, and when an attempt is started again.  Everything here is a value or a pure function:
no I/O, no clock, no Trio.  That is the promise of this layer, and it is what lets live operation
and recovery share one `lifecycle.apply`, and lets policy be tested without a process.

=============  =====================================================================
module         holds
=============  =====================================================================
`errors`       what can go wrong, by whose fault it is; each error carries its wire code
`ids`          the form of every identifier, made and checked in one place
`spec`         the session specification in its normal form
`parse`        from what a client sends to a specification: defaults, bounds, errors
`signals`      signal names and numbers as clients write them
`event`        what an event is, and the names of all event types
`histogram`    how long things took, counted by bound
`session`      the record of a session: what the fold of its events amounts to
`lifecycle`    the table (phase, event) -> phase, and `apply(record, event)`
`restart`      the restart decision: policy, window, backoff
`sandbox`      the record of a sandbox: identity, generation, environment
=============  =====================================================================
"""
