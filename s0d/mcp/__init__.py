"""Sessions as tools for a language model (the Model Context Protocol; wire contract, section 5).

A package of its own, and not a part of `s0d.api` or `s0d.cli`, because both serve it: the daemon
at `/mcp`, `s0d mcp` on its standard streams.  Neither may import the other; the tools are the same.

* **A tool is a client.**  It talks to the daemon by `calls.Daemon`: one method, a request and its
  answer.  `s0d mcp` sends it over HTTP, `/mcp` hands it to the application in the same process
  with the caller's own principal.  So whatever a token may not do over HTTP it may not do here, and
  what wakes a sandbox, counts against a limit or is durable there is so here.
* **Results are small.**  Every text has a bound and says when something was left out; output is
  read on with a cursor.
* **Errors say what to do next**, with the code of the wire contract.
* **The `mcp` package is an extra** (`s0d[mcp]`), imported by `server` and `transports` alone; it
  takes half a second and 35 MB, so those two are imported by whoever serves, when they serve.

============  ======================================================================
module        holds
============  ======================================================================
`arguments`   what each tool takes, as types; their JSON schemas
`calls`       the daemon as the tools see it; answers decoded, failures raised
`errors`      what a tool fails with, and the advice that goes with each code
`text`        bytes of a terminal as text: escape sequences removed, where to cut
`output`      what a session wrote, page by page
`sessions`    the other tools of sessions
`execution`   one command, run to its end
`tools`       the table of all tools, with their descriptions
`server`      the table served by the `mcp` package
`transports`  standard streams, and one HTTP request
============  ======================================================================
"""
