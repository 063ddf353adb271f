"""A transient terminal: it ends with its connection (wire contract, section 4, `GET /exec`)."""

from __future__ import annotations

import trio
from quart import Websocket

from s0d.model.errors import InputBufferFull, S0dError, SessionConflict
from s0d.model.signals import parse_signal
from s0d.process.errors import InputClosed, InputFull, InputRefused
from s0d.process.pty import TerminalSize
from s0d.process.status import ExitStatus
from s0d.supervisor.exec import UNREAD_WITHIN, attended
from s0d.supervisor.launch import Launch
from s0d.wire.attach import Reason, accepted, ended_by_itself, frame
from s0d.wire.exec import TTYStart
from s0d.wire.named import Status, exit_info

from .call import Call
from .duplex import Duplex, Patience


async def attend(call: Call, websocket: Websocket) -> None:
    """Serve one terminal until its program or its client goes."""
    await websocket.accept()
    duplex = Duplex(websocket, call.streams)
    try:
        start = await duplex.start(TTYStart)
        if not isinstance(start, TTYStart):
            return await duplex.end(start)
        terminal = _Terminal(duplex, start)
        status = await call.sandbox.execs.run(start.spec(), terminal.use)
    except S0dError as error:
        return await duplex.refuse(error)
    if call.sandbox.deleting:
        return await duplex.end(Reason.DELETED)
    if status is None:
        return await duplex.end(terminal.reason)
    exit = exit_info(status.exit_code, status.signal)
    return await duplex.close(ended_by_itself(exit, terminal.status))


class _Terminal:
    """The client's side of the program."""

    def __init__(self, duplex: Duplex, start: TTYStart) -> None:
        self.reason: Reason | None = None
        self.status = Status.EXITED
        self._duplex = duplex
        self._spec = start.spec()
        self._patience = Patience()
        self._launch: Launch | None = None

    async def use(self, launch: Launch, unwanted: trio.Event) -> ExitStatus | None:
        """Run it to its end, or until the client goes, for `reason`."""
        self._launch = launch
        size = self._spec.io.terminal
        assert size
        status: ExitStatus | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._cut_late, unwanted)
            await self._duplex.tell(
                accepted(None, replayed=0, dropped=False, cols=size.cols, rows=size.rows, seq=0)
            )
            await self._duplex.tell(frame("LIVE", seq=0))
            status = await attended(launch, self._duplex.output, self._attend, unwanted)
            nursery.cancel_scope.cancel()
        if unwanted.is_set():
            self.status = Status.KILLED
        return status

    async def _cut_late(self, unwanted: trio.Event) -> None:
        """The runtime's end is held up by no client that does not read."""
        await unwanted.wait()
        await trio.sleep(UNREAD_WITHIN)
        self._duplex.cut()

    async def _attend(self) -> None:
        async with trio.open_nursery() as nursery:

            async def until_shutdown() -> None:
                self.reason = await self._duplex.until_shutdown()
                nursery.cancel_scope.cancel()

            nursery.start_soon(until_shutdown)
            self.reason = await self._duplex.take(self)
            nursery.cancel_scope.cancel()

    async def input(self, data: bytes, *, eof: bool = False) -> None:
        await self._patience.put(lambda: self._put(data, eof))

    async def _put(self, data: bytes, eof: bool) -> None:
        try:
            self._running.input.put_nowait(data, eof)
        except InputFull:
            raise InputBufferFull("the input queue is full: try again later") from None
        except (InputClosed, InputRefused) as error:
            raise SessionConflict(str(error)) from None

    async def resize(self, rows: int, cols: int) -> None:
        try:
            self._running.resize(TerminalSize(rows, cols))
        except (OSError, ValueError):
            raise SessionConflict("the terminal is gone") from None

    async def signal(self, name: str | int) -> None:
        signum = parse_signal(name)
        try:
            self._running.signal(signum)
        except ProcessLookupError:
            raise SessionConflict("the program has ended") from None

    @property
    def _running(self) -> Launch:
        assert self._launch is not None
        return self._launch
