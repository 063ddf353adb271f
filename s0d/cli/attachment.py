"""Staying attached to a session over as many connections as it takes.

Output: see `Place`.  What a first connection replays is held back until it is complete; one that
breaks before that has shown nothing.  Input: see `Outbox`.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Final

import trio

from .errors import ApiError, CliError, ConnectionLost, Unreachable
from .following import FIRST_PAUSE, LONGEST_PAUSE, PATIENCE
from .link import Link, open_link
from .outbox import Outbox
from .overlay import Overlay
from .place import Place
from .plan import End, Plan

Json = dict[str, Any]

_SILENCE: Final = 15.0
_TOLD_AFTER: Final = 1.0
_PARTING: Final = 1.0
"""Seconds that what was typed before the keys that detach has to arrive."""
_READ: Final = 64 << 10


class _Repaint(Exception):
    """The connection is to be replaced by one that paints the screen."""


class Attachment:
    """`run` returns when it is over; nothing of it is left then."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._tty = plan.tty
        self._overlay = Overlay(plan.tty)
        self._outbox = Outbox()
        self._role = plan.role
        self._replay = plan.replay
        self._place = Place()
        self._admitted = False
        self._input_refused = False
        self._connected_before = False
        self._lost_at: float | None = None
        self._told_lost = False
        self._last_output = 0.0
        self._must_repaint = False
        self._writing = trio.CancelScope()
        self._resized = trio.Event()
        self._end: End | None = None
        self._scope = trio.CancelScope()

    async def run(self) -> End:
        with self._scope:
            async with trio.open_nursery() as nursery:
                await nursery.start(self._take_signals)
                nursery.start_soon(self._stay)
                if self._plan.reads:
                    nursery.start_soon(self._read)
        assert self._end is not None
        return self._end

    def _finish(self, end: End) -> None:
        self._end = self._end or end
        self._writing.shield = False
        self._scope.cancel()

    # -- connections ---------------------------------------------------------------------------

    async def _stay(self) -> None:
        pause = FIRST_PAUSE
        while True:
            try:
                async with open_link(self._plan.target, self._plan.path) as link:
                    await self._use(link)
            except _Repaint:
                self._place.jump_to(None)
                continue
            except (Unreachable, ConnectionLost) as error:
                if self._lost(error):
                    return self._finish(End("error", error=error))
            except ApiError as error:
                if not self._refused(error):
                    return self._finish(End("error", error=error))
            except (CliError, OSError) as error:
                return self._finish(End("error", error=error))
            if self._admitted:
                pause, self._admitted = FIRST_PAUSE, False
            await trio.sleep(pause)  # nothing to wait for: the daemon may not even be running
            pause = min(2 * pause, LONGEST_PAUSE)

    def _lost(self, error: CliError) -> bool:
        """A connection that was there has broken, or none can be made: is that the end?"""
        if not self._connected_before and isinstance(error, Unreachable):
            return True
        now = trio.current_time()
        if self._lost_at is None:
            self._lost_at = now
        if now - self._lost_at > _TOLD_AFTER and not self._told_lost:
            self._told_lost = True
            if self._tty is None:
                self._plan.notice("lost the daemon, trying to reconnect")
            else:
                self._overlay.show("lost the daemon, trying to reconnect")
        return now - self._lost_at > PATIENCE

    def _refused(self, error: ApiError) -> bool:
        """Is a refusal worth another try?"""
        if error.code == "event_cursor_expired" and self._place.seq is not None:
            if self._tty is None:
                self._plan.notice("fell behind: some output is no longer retained")
            self._place.jump_to(None)
            return True
        if error.code == "session_conflict" and self._replay == "screen":
            self._replay = "history"  # it has no screen yet, or none any more
            return True
        if error.code == "session_not_found" and self._connected_before:
            self._finish(End("DELETED"))
            return True
        return error.status in (429, 503) and not self._lost(error)

    async def _use(self, link: Link) -> None:
        self._admitted = False
        await link.tell(self._start())
        failed: list[Exception] = []
        async with trio.open_nursery() as nursery:

            async def carry(part: Callable[[], Coroutine[Any, Any, None]]) -> None:
                # Errors are carried past the nursery, which would wrap them.
                try:
                    await part()
                except Exception as error:
                    failed.append(error)
                nursery.cancel_scope.cancel()

            for part in (self._receive, self._send, self._tell_size):
                nursery.start_soon(carry, partial(part, link))
            nursery.start_soon(carry, self._wait_repaint)
        if failed:
            raise failed[0]

    def _start(self) -> Json:
        start: Json = {
            "type": "START",
            "role": self._role,
            "attempts": True,
            "input_id": self._outbox.id,
            "input_from": self._outbox.rewind(),
        }
        if self._place.seq is None:
            start["replay"] = self._replay
        else:
            start["after"] = self._place.seq
        self._place.connect()
        if self._tty is not None:
            start["rows"], start["cols"] = self._tty.size()
        return start

    # -- what comes ----------------------------------------------------------------------------

    async def _receive(self, link: Link) -> None:
        held: list[bytes] | None = [] if self._place.seq is None else None
        while True:
            message = await self._next(link)
            if isinstance(message, bytes):
                if held is not None:
                    held.append(message)
                else:
                    await self._output(message)
            elif message["type"] == "LIVE":
                if held is not None:
                    await self._paint(b"".join(held))
                    held = None
                self._place.come_to(message["seq"])
                self._show_hint()
            elif await self._control(message, live=held is None):
                return

    async def _next(self, link: Link) -> Json | bytes:
        """What comes next; after a silence the daemon has to prove that it is there."""
        asked = False
        while True:
            with trio.move_on_after(_SILENCE):
                return await link.receive()
            if asked:
                raise ConnectionLost("the daemon does not answer any more")
            asked = True
            await link.tell({"type": "PING"})

    async def _control(self, frame: Json, *, live: bool) -> bool:
        """Whether it was the last."""
        kind = frame["type"]
        if kind == "ACCEPTED":
            self._admit()
        elif kind == "SEQ" and live:
            self._place.come_to(frame["seq"])
        elif kind == "INPUT":
            data = self._outbox.arrived(frame["number"])
            self._input_refused = data is not None and not frame["accepted"]
        elif kind == "ATTEMPT":
            await self._new_attempt(frame, live)
        elif kind == "OUTPUT_DROPPED":
            self._place.jump_to(frame["seq"] - 1 if live else None)
            if self._tty is None:
                self._plan.notice(f"{frame.get('dropped_bytes') or 'some'} bytes were not retained")
        elif kind == "EXIT":
            self._finish(End("exit", frame))
            return True
        elif kind == "ENDED":
            if frame["reason"] == "SHUTDOWN":
                raise ConnectionLost("the daemon is shutting down")
            self._finish(End(frame["reason"]))
            return True
        elif kind == "ERROR":
            await self._told_error(frame)
        return False

    def _admit(self) -> None:
        self._admitted = self._connected_before = True
        if self._told_lost:
            self._overlay.touched()
        self._lost_at, self._told_lost = None, False
        if self._role == "takeover":
            self._role = "interactive"  # once is enough

    async def _told_error(self, frame: Json) -> None:
        if not self._admitted:
            raise ApiError(_OF_START.get(frame["code"], 400), frame["code"], frame["message"])
        if not self._input_refused:
            return  # a size, or the end of input, that comes too late
        if self._tty is not None:
            await self._write(b"\a")
        else:
            self._plan.notice(f"input was refused: {frame['message']}")

    async def _new_attempt(self, frame: Json, live: bool) -> None:
        """What the former one has left of the terminal is not the new one's."""
        if live and self._tty is not None and self._place.caught_up:
            await self._write(self._tty.reset())

    async def _paint(self, data: bytes) -> None:
        """Show what a connection without a past begins with."""
        if self._tty is not None:
            data = self._tty.clean() + data
            self._overlay.cleared()
        await self._show(data)

    async def _output(self, data: bytes) -> None:
        fresh = self._place.fresh(data)
        if fresh:
            await self._show(fresh)

    async def _show(self, data: bytes) -> None:
        if self._tty is not None:
            self._tty.seen(data)
        self._last_output = trio.current_time()
        await self._write(data)

    async def _write(self, data: bytes) -> None:
        """Whole, or not begun: a write that is cancelled would leave open how much was written."""
        if data:
            with trio.CancelScope(shield=self._end is None) as self._writing:
                await trio.to_thread.run_sync(_write_all, data, abandon_on_cancel=True)

    # -- what goes -----------------------------------------------------------------------------

    async def _read(self) -> None:
        while True:
            await self._outbox.wait_room()
            data = await _read_some(0)
            if self._tty is None:
                self._outbox.put(data or None)
                if not data:
                    return
            elif not data:  # the terminal is gone
                self._finish(End("signal", signum=signal.SIGHUP))
            else:
                self._overlay.touched()
                await self._type(data)

    async def _type(self, data: bytes) -> None:
        data, detach = self._plan.keys.feed(data)
        if data and self._plan.role != "viewer":
            self._outbox.put(data)
        if detach:
            with trio.move_on_after(_PARTING):
                await self._outbox.wait_empty()
            self._finish(End("detached"))

    async def _send(self, link: Link) -> None:
        while True:
            data = await self._outbox.take()
            if data is None:
                await link.tell({"type": "EOF"})
            else:
                await link.send(data)

    async def _tell_size(self, link: Link) -> None:
        while True:
            await self._resized.wait()
            self._resized = trio.Event()
            if self._tty is not None and self._plan.role != "viewer":
                rows, cols = self._tty.size()
                await link.tell({"type": "RESIZE", "rows": rows, "cols": cols})

    # -- the terminal --------------------------------------------------------------------------

    def _show_hint(self) -> None:
        if self._plan.hint and not self._overlay.hinted:
            self._overlay.hinted = True
            self._overlay.show(self._plan.hint)

    async def _wait_repaint(self) -> None:
        """Until the screen has to be painted: over a text of ours, once nothing is lost by it."""
        while True:
            if self._must_repaint or (self._overlay.is_due() and self._is_painted_safely()):
                self._must_repaint = False
                raise _Repaint
            await self._overlay.wait()

    def _is_painted_safely(self) -> bool:
        """Would no line be lost that scrolls by?"""
        assert self._tty is not None
        quiet = trio.current_time() - self._last_output > _CALM
        return self._place.caught_up and (self._tty.alternate or quiet)

    async def _take_signals(self, task_status: trio.TaskStatus[None]) -> None:
        taken = [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
        if self._tty is not None:
            taken += [signal.SIGQUIT, signal.SIGTSTP, signal.SIGWINCH]
        with trio.open_signal_receiver(*taken) as signals:
            task_status.started()
            async for signum in signals:
                if signum == signal.SIGWINCH:
                    self._resized.set()
                elif signum == signal.SIGTSTP:
                    self._stand_by()
                else:
                    self._finish(End("signal", signum=signum))

    def _stand_by(self) -> None:
        """Give the terminal back while we are stopped; then paint the screen anew."""
        assert self._tty is not None
        self._tty.give_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        self._tty.make_raw()
        self._resized.set()
        self._must_repaint = True
        self._overlay.wake()


# Refusals of a START, with the status each would have as an answer.
_OF_START: Final = {
    "session_not_found": 404,
    "sandbox_not_found": 404,
    "event_cursor_expired": 410,
    "unavailable": 503,
    "session_conflict": 409,
    "sandbox_conflict": 409,
    "limit_exceeded": 429,
}
_CALM: Final = 0.3


def _write_all(data: bytes) -> None:
    left = memoryview(data)
    while left:
        left = left[os.write(1, left) :]


async def _read_some(fd: int) -> bytes:
    """What there is to read; empty at the end."""
    try:
        await trio.lowlevel.wait_readable(fd)
    except PermissionError:  # a file, which is always readable
        await trio.lowlevel.checkpoint()
    try:
        return os.read(fd, _READ)
    except OSError:  # the terminal is gone: so is whoever typed
        return b""
