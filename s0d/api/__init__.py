"""The HTTP surface: routes, streams, authentication, and the server that carries them.

What clients see is `wire.md`; what holds inside:

* **Streams are cursors.**  An SSE or WebSocket reader holds a position in the journal and nothing
  else: no queue, no lock, no data of its own.  A slow reader is not cut and holds nobody up.
* **Edge before body.**  Host, origin and authentication are checked on the head of a request
  (`gate`), before an upgrade and before a byte of its body is read.
* **Everything is validated here.**  Handlers get decoded, checked values; the inside sees no JSON.
* **Embeddable.**  `serve_api` is one task that leaves nothing behind; `make_app` gives the bare
  ASGI application.  The supervisor's tasks never run inside the web framework.
* **Every work-around for the stack stands in `workarounds`**, with the fault it answers.

=============  =====================================================================
module         holds
=============  =====================================================================
`config`       what an operator can set, with the defaults
`errors`       errors of the edge, and the status and headers of every error code
`auth`         bearer tokens, peers of a Unix socket, principals and what they may do
`token_file`   tokens that an operator makes and revokes, hashed, in a file
`failures`     wrong tokens, counted by where they come from
`peers`        does the peer of a Unix socket belong to one of our sessions
`tokens`       the handlers of tokens
`origin`       is this Host ours, is this Origin foreign (DNS rebinding, cross-site requests)
`gate`         the ASGI layer in front of the application: request id, edge checks, drain
`route`        a route as data
`routes`       the table of all routes
`watch`        every request counted, in the access log and in the audit log
`loop`         how long the loop's turns are
`metrics`      `/metrics`, for Prometheus
`params`       what a route takes beside path and body
`openapi`      `/openapi.json`, made of the table and of the types that serve
`call`         one request on its way to a handler: path, query and body resolved and checked
`bodies`       a budget for all request bodies that are in memory at once
`sandboxes`    the handlers of sandboxes
`sessions`     the handlers of supervised sessions
`duplex`       one WebSocket with a terminal behind it: its frames
`attach`       attaching to a session's terminal
`transcript`   what an attached client is shown, to the last byte
`tty`          a terminal that ends with its connection
`exec`         a command whose output is kept until it has ended
`named`        the handlers of named sessions
`page`         one page of events
`streams`      the registry by which a shutdown ends every stream at once; shared encodings
`attached`     the body of an answer that is an attachment while it is sent
`sse`          events as a `text/event-stream` response
`screen`       what a terminal shows, and keys for it
`screen_stream` a screen's changes as a `text/event-stream` response
`wait`         waiting for a phase, an exit, output, a screen, a port
`recording`    a terminal's history as an asciicast
`websocket`    events, input, signals and resizes over a WebSocket
`mcp`          `/mcp`: the tools of `s0d.mcp` over streamable HTTP
`service`      `/healthz`, `/readyz`, `/metadata`
`app`          the application made from the table
`listeners`    TCP and Unix sockets to accept from
`tls`          a certificate that can be replaced while we serve
`http2`        HTTP/2, for REST and SSE
`connection`   one accepted connection: timeouts, lingering close, forced close
`server`       `serve_api`: connection caps and the order of shutdown
`workarounds`  Hypercorn's and Quart-Trio's faults, each in one place
=============  =====================================================================
"""
