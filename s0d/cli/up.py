"""`s0d up` and `s0d down`: the sessions that a file declares."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from .background import ensure_daemon
from .duration import SECONDS
from .ending import ending, exit_code_of
from .errors import ApiError, CliError
from .options import Common, connection_options
from .patience import patience
from .render import notice, print_json

if TYPE_CHECKING:
    from s0d.declare.file import Declaration
    from s0d.declare.plan import Existing, Step

Json = dict[str, Any]

_FILES: Final = ("s0d.toml", "Procfile")
_SETTLED: Final = ("running", "exited", "failed", "stopped")
_INTERRUPTED: Final = 130
_DONE: Final = {
    "create": "created",
    "update": "updated",
    "start": "started",
    "keep": "as it is",
}

_file_option = click.option(
    "-f", "--file", "files", multiple=True, metavar="FILE", help="Default: s0d.toml, or Procfile."
)
_names = click.argument("names", metavar="[NAME]...", nargs=-1)


@click.command()
@connection_options
@_file_option
@click.option("-d", "--detach", is_flag=True, help="Return when all are ready.")
@click.option("--dry-run", is_flag=True, help="Only say what would be done.")
@click.option("--prune", is_flag=True, help="Remove what is declared no longer.")
@click.option(
    "--timeout", type=SECONDS, default=120, show_default=True, help="For each to be ready."
)
@_names
@click.pass_context
def up(
    ctx: click.Context,
    /,
    common: Common,
    files: tuple[str, ...],
    detach: bool,
    dry_run: bool,
    prune: bool,
    timeout: int,
    names: tuple[str, ...],
) -> None:
    """Have the sessions that s0d.toml declares: create, update, start what is not as declared.

    Each starts when all that it depends on are ready (or have ended well). Then the output of all
    is followed; Ctrl-C stops them, in reverse order. Exits with 1 where one could not be had, else
    with the first exit code that is not 0 when all have ended.

    s0d up --detach
    """
    from s0d.declare.plan import plan

    declaration, wanted = _declaration(files, names)
    ensure_daemon(common.target)
    up = _Up(common, declaration, timeout)
    steps = plan(declaration, up.existing(), wanted, prune=prune and not names, start=True)
    if dry_run:
        if common.json:
            print_json([_described(step) for step in steps])
        else:
            for step in steps:
                click.echo(str(step))
        return
    try:
        ready = up.carry_out(steps)
        if not ready or detach:
            if not ready and not detach:
                up.stop()
            if common.json and detach:
                print_json([common.client.get(id) for id in up.ids.values()])
            ctx.exit(0 if ready else 1)
        ctx.exit(_follow(common, up))
    except KeyboardInterrupt:
        notice("stopping, in reverse order; Ctrl-C again kills")
        try:
            up.stop()
        except KeyboardInterrupt:
            up.kill()
        ctx.exit(_INTERRUPTED)


@click.command()
@connection_options
@_file_option
@click.option("--remove", is_flag=True, help="Remove them, too, with their events.")
@_names
def down(common: Common, files: tuple[str, ...], remove: bool, names: tuple[str, ...]) -> None:
    """Stop the sessions that s0d.toml declares, each before what it depends on.

    s0d down --remove
    """
    declaration, _ = _declaration(files, names)
    up = _Up(common, declaration, 0)
    chosen = set(names) or None
    for one in up.existing():
        if one.name in declaration.sessions and (chosen is None or one.name in chosen):
            up.ids[one.name] = one.id
    up.stop(remove=remove)
    if common.json:
        print_json([*up.ids])


def _declaration(
    files: tuple[str, ...], names: tuple[str, ...]
) -> tuple[Declaration, set[str] | None]:
    """What is declared, and which of it is meant (None: all)."""
    from s0d.declare.file import load
    from s0d.declare.order import with_dependencies
    from s0d.model.errors import InvalidRequest

    paths = [Path(file) for file in files]
    if not paths:
        paths = [Path(name) for name in _FILES if os.path.exists(name)][:1]
    if not paths:
        raise CliError(f"there is no {' and no '.join(_FILES)} here: name one with --file")
    try:
        declaration = load(paths, os.environ)
    except InvalidRequest as error:
        raise CliError(error.message) from None
    for name in names:
        if name not in declaration.sessions:
            known = ", ".join(declaration.sessions) or "none"
            raise CliError(f"{name}: is not declared; declared are: {known}")
    wanted = with_dependencies(names, declaration.depends_on) if names else None
    return declaration, wanted


def _described(step: Step) -> Json:
    described: Json = {"name": step.name, "do": str(step.do)}
    if step.changed:
        described["changed"] = [*step.changed]
    return described


class _Up:
    """Carries a plan out; `ids` are the sessions that are there by then, in order."""

    def __init__(self, common: Common, declaration: Declaration, timeout: int) -> None:
        self.ids: dict[str, str] = {}
        self.since: dict[str, int] = {}
        """Up to where what they have written is old."""
        self._client = common.client
        self._quiet = common.json
        self._declaration = declaration
        self._timeout = timeout
        self._ready: dict[str, bool] = {}

    def existing(self) -> list[Existing]:
        from s0d.declare.plan import Existing
        from s0d.model.parse import parse_spec

        return [
            Existing(one["id"], one["spec"]["name"], one["phase"], parse_spec(one["spec"]))
            for one in self._client.list()
            if one["spec"].get("name")
        ]

    def carry_out(self, steps: list[Step]) -> bool:
        """Whether all are ready in the end."""
        for step in steps:
            if step.declared is None:
                assert step.existing is not None
                with patience(f"waiting for the processes of {step.name}"):
                    self._client.delete(step.existing.id)
                self._say(step.name, "removed")
            elif self._are_ready(step):
                self._take(step)
        ready = {step.name: self._is_ready(step.name) for step in steps if step.declared}
        return all(ready.values())

    def _are_ready(self, step: Step) -> bool:
        assert step.declared is not None
        for other in step.declared.depends_on:
            if not self._is_ready(other):
                notice(f"{step.name}: not started, since {other} is not ready")
                self._ready[step.name] = False
                return False
        return True

    def _take(self, step: Step) -> None:
        from s0d.declare.plan import Do

        assert step.declared is not None
        there = step.existing
        try:
            if there is None:
                session = self._client.create(step.declared.sent)
            else:
                before = self._client.get(there.id)
                self.since[step.name] = before["cursor"]["latest"]
                session = self._change(step, there.id) if step.do is not Do.KEEP else before
        except ApiError as error:
            notice(f"{step.name}: {error}")
            self._ready[step.name] = False
            return
        self.ids[step.name] = session["id"]
        changed = f" ({', '.join(step.changed)})" if step.changed else ""
        self._say(step.name, _DONE[step.do] + changed)

    def _change(self, step: Step, id: str) -> Json:
        from s0d.declare.plan import Do

        assert step.declared is not None
        with patience(f"waiting for the processes of {step.name}"):
            if step.do is Do.UPDATE:
                session = self._client.update(id, step.declared.sent)
                if session["phase"] not in ("stopped", "exited", "failed"):
                    return session
            return self._client.set_desired_state(id, "running")

    def _is_ready(self, name: str) -> bool:
        if name not in self._ready:
            self._ready[name] = self._wait_ready(name)
        return self._ready[name]

    def _wait_ready(self, name: str) -> bool:
        deadline = time.monotonic() + self._timeout
        with patience(f"waiting for {name} to be ready"):
            while True:
                session = self._client.get(self.ids[name])
                if session["phase"] in _SETTLED:
                    break
                left = deadline - time.monotonic()
                if left <= 0:
                    notice(f"{name}: is {session['phase']} after {self._timeout} s")
                    return False
                wanted = {"for": {"phase": [*_SETTLED]}, "timeout_ms": int(left * 1000)}
                try:
                    self._client.wait(self.ids[name], wanted)
                except ApiError as error:
                    if error.code != "wait_timeout":
                        raise
        if session["phase"] == "running":
            return True
        if session["phase"] == "exited" and exit_code_of(session) == 0:
            return True
        notice(f"{name}: {ending(session)}")
        return False

    def stop(self, *, remove: bool = False) -> None:
        """Each before what it depends on."""
        order = [name for name in self._declaration.sessions if name in self.ids]
        for name in reversed(order):
            with patience(f"waiting for the processes of {name}"):
                self._client.set_desired_state(self.ids[name], "stopped")
                if remove:
                    self._client.delete(self.ids[name])
            self._say(name, "removed" if remove else "stopped")

    def kill(self) -> None:
        for name in reversed([*self.ids]):
            self._client.kill(self.ids[name], {"signal": "KILL", "grace_ms": 0})
            self._say(name, "killed")

    def _say(self, name: str, text: str) -> None:
        if not self._quiet:
            notice(f"{name}: {text}")


def _follow(common: Common, up: _Up) -> int:
    from .together import Together

    return Together(common, up.ids, {name: up.since.get(name) for name in up.ids}).run()
