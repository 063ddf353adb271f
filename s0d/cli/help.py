"""`s0d help` and `s0d completion`."""

from __future__ import annotations

from typing import Final

import click

from .errors import UsageError

TOPICS: Final = {
    "exit-codes": """\
Exit codes

  0    done; `attach`: detached
  1    an error, told in one line on standard error
  2    the command line makes no sense, or a name may be any of several sessions
  3    no such session, sandbox or file of the daemon's
  4    in conflict with what is there: it runs already, is live, the name is taken
  5    no daemon answers, or the connection broke before the answer was complete
  124  what was waited for did not come in time
  127  `run`, `attach`, `wait`: the command could not be started
  130  interrupted (Ctrl-C); 128 and the signal's number for others

`run`, `attach` and `wait` exit with the command's own code when it has ended: 128 and the
number of the signal that ended it. Several names at once: the code of the first that failed.
""",
    "json": """\
JSON

`-o json` prints the API's own objects, whose fields only ever become more. One object, or one
array where there may be several:

  session list, ps, top           array of sessions; with `usage` (ps, top), `cpu_percent` (top)
  session create, get, update,    a session
  start, stop, attempt; wait
  start, stop, restart, kill, rm  array, in the order of the names
  inspect                         a session; an array for several names
  session input, keys, signal,    the answer of the API
  resize, delete, wait, screen
  session events                  array of events; with --follow an event a line
  logs                            array, with --follow an object a line: lines (`seq`,
                                  `occurred_at`, `attempt_id`, `stream`, `line`, and
                                  `data_base64` where that is not all of it), and
                                  `{"event": …}` for what happened to the session
  sandbox list                    array of sandboxes; the others: the answer of the API
  daemon status, doctor           an object

Errors are never JSON: one line on standard error, and the exit code (s0d help exit-codes).
""",
    "environment": """\
Environment

  S0D_URL          where the daemon is: http://HOST:PORT or unix:/path; --url wins
  S0D_TOKEN        the bearer token, for TCP; --token wins
  S0D_STATE_DIR    where the local daemon keeps its sessions
  S0D_RUNTIME_DIR  where its socket is
  S0D_DETACH_KEYS  the keys that detach, as for --detach-keys
  NO_COLOR         set to anything: no colours
""",
    "names": """\
Names

Where a command takes NAME|ID it takes

  the id of a session          ses-0f2c…
  a name that one session has  web
  the beginning of one id      ses-0f2 or 0f2

An id wins over a name, a name over the beginning of an id. What may be several is refused, with
the ids that it may be (exit code 2).
""",
}


@click.command("help")
@click.argument("words", metavar="[VERB|TOPIC]", nargs=-1)
@click.pass_context
def help_(ctx: click.Context, /, words: tuple[str, ...]) -> None:
    """Explain a verb, or a topic: exit-codes, json, environment, names.

    s0d help exit-codes
    """
    if len(words) == 1 and words[0] in TOPICS:
        click.echo(TOPICS[words[0]], nl=False)
        return
    assert ctx.parent is not None
    command, path = ctx.parent.command, [ctx.parent.info_name or "s0d"]
    inner = ctx.parent
    for word in words:
        found = command.get_command(inner, word) if isinstance(command, click.Group) else None
        if found is None:
            topics = ", ".join(TOPICS)
            raise UsageError(f"{' '.join(words)}: neither a verb nor one of the topics {topics}")
        command, inner = found, click.Context(found, info_name=word, parent=inner)
        path.append(word)
    click.echo(command.get_help(inner))
    if not words:
        click.echo(f"\nTopics (s0d help TOPIC): {', '.join(TOPICS)}")


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print what has a shell complete verbs, flags and the names of sessions.

    eval "$(s0d completion bash)"
    """
    from click.shell_completion import get_completion_class

    from .main import s0d

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(s0d, {}, "s0d", "_S0D_COMPLETE").source())
