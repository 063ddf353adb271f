"""The command line: verbs that talk HTTP to a daemon.

It imports only `s0d.model`, `s0d.wire` and `s0d.declare` (and `s0d.daemon` inside functions, where
it starts one or asks where one would be), and it starts fast: every verb is imported when it is
called.

==============  =====================================================================
module          holds
==============  =====================================================================
`main`          the group of all verbs, errors and exit codes
`errors`        what can go wrong, for one line on stderr
`target`        where the daemon is: `--url`, `S0D_URL`, the local socket
`http`          one request, one answer, over a TCP or Unix socket (h11)
`client`        the calls of the sessions API
`following`     a stream followed across broken connections
`events`        events as they arrive: SSE frames
`secrecy`       a token, taken out of what others see of the command line
`options`       flags that several verbs share
`duration`      `30`, `30s`, `5m` as a flag's value
`spec`          a session specification from flags or from a file
`render`        tables and JSON
`session`       `s0d session ...`
`terminal`      its verbs about a terminal: `screen`, `wait`, `keys`, `export`
`picture`       a screen that is followed, drawn on the reader's terminal
`run`           `s0d run`: create, follow to the end, the command's exit code
`feed`          standard input of `s0d run`, forwarded
`advice`        what to do where no daemon answers
`background`    start a daemon where none answers
`mcp`           `s0d mcp`: the tools of `s0d.mcp` on standard streams
`up`            `s0d up` and `s0d down`
`together`      the output of several sessions at once
`help`          `s0d help` and `s0d completion`
`daemon`        `s0d daemon ...`: the local daemon
`ps`            `s0d ps` and `s0d top`
`manage`        `s0d start, stop, restart, kill, rm, inspect, wait`
`sandbox`       `s0d sandbox ...`
`patience`      a word for a person who waits longer than a second
`logs`          `s0d logs`: output as lines, filtered by the daemon, followed by sequence
`log_text`      how a line of a log is printed
`colour`        whether to print colours
`attach`        `s0d attach`: the verb
`attachment`    staying attached over as many connections as it takes
`plan`          how to attach, and how that ended
`place`         how far output has been shown, over several connections
`link`          one WebSocket to a session's terminal
`outbox`        what was typed and is not known to have arrived
`tty`           a person's terminal, made raw and given back
`overlay`       a few words of ours over a session's screen
`detach`        the keys that detach
`ending`        how a session ended, in words and as an exit code
`lookup`        sessions by id, beginning of an id, or name
`serve`         `s0d serve`
`config`        `s0d config ...`: what the daemon would be told, and by whom
`token`         `s0d token ...`: reads and changes the daemon's own files
==============  =====================================================================
"""
