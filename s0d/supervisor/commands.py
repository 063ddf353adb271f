"""What is sent to a session's process: input, signals, sizes.

Each is recorded and handed over in one stretch of code (`accept_…`), so that the order of
acceptance is that of arrival; what is missing then is only that its record is on disk.  It needs
the runtime: who calls `accept_…` holds it `awake`.
"""

from __future__ import annotations

import hashlib
from typing import Final, NamedTuple

from s0d.journal import Journal
from s0d.model import event as ev
from s0d.model.errors import InputBufferFull, InvalidRequest, SessionConflict
from s0d.model.event import draft
from s0d.model.session import Phase, Receipt, SessionRecord
from s0d.model.signals import signal_name
from s0d.model.spec import IOMode
from s0d.process.errors import InputClosed, InputFull, InputRefused
from s0d.process.pty import TerminalSize

from .actor import Actor
from .attempt import Attempt
from .launch import Host, Launch

_TYPED: Final = 64 << 10
"""Bytes of one input that are retained where inputs are."""


class Accepted(NamedTuple):
    """A command that was recorded as event `seq`, by which attempt; not durable yet."""

    seq: int
    attempt_id: str
    duplicate: bool = False


class Commands:
    """Those of one session."""

    def __init__(self, record: SessionRecord, journal: Journal, host: Host, actor: Actor) -> None:
        self._record = record
        self._journal = journal
        self._host = host
        self._actor = actor
        self._recorder = actor.recorder

    async def input(
        self, input_id: str, data: bytes, *, eof: bool = False, attempt_id: str | None = None
    ) -> Accepted:
        """Put `data` (and end of file) into the attempt's input queue, once for each `input_id`."""
        accepted = self.known_input(input_id, data, eof, attempt_id)
        if accepted is None:
            async with self._host.awake():
                accepted = self.accept_input(input_id, data, eof, attempt_id)
        await self._recorder.wait_durable(accepted.seq)
        return accepted

    async def signal(self, signum: int, *, attempt_id: str | None = None) -> Accepted:
        """Signal the attempt's process group (a PTY's foreground group for INT, QUIT, TSTP)."""
        async with self._host.awake():
            accepted = self.accept_signal(signum, attempt_id)
        await self._recorder.wait_durable(accepted.seq)
        return accepted

    async def resize(self, rows: int, cols: int, *, attempt_id: str | None = None) -> Accepted:
        """Resize the attempt's terminal."""
        async with self._host.awake():
            accepted = self.accept_resize(rows, cols, attempt_id)
        await self._recorder.wait_durable(accepted.seq)
        return accepted

    def known_input(
        self, input_id: str, data: bytes, eof: bool, attempt_id: str | None = None
    ) -> Accepted | None:
        """What a repeated input is answered with, for which no runtime is needed; None for a new
        one.  Raises `SessionConflict` for other content."""
        receipt = self._record.receipts.get(input_id)
        if receipt is None:
            return None
        self._actor.check_present()
        return self._repeated(receipt, _digest(input_id, data, eof), attempt_id)

    def accept_input(
        self, input_id: str, data: bytes, eof: bool, attempt_id: str | None = None
    ) -> Accepted:
        """`input`, up to the point where only durability is missing: order is decided here."""
        self._actor.check_present()
        known = self.known_input(input_id, data, eof, attempt_id)
        if known is not None:
            return known
        digest = _digest(input_id, data, eof)
        attempt, launch = self._accepting(attempt_id)
        try:
            launch.input.check(len(data), eof)
        except InputFull:
            raise InputBufferFull("the input queue is full: try again later") from None
        except (InputClosed, InputRefused) as error:
            raise SessionConflict(str(error)) from None
        seq = self._actor.command(
            draft(
                ev.INPUT_ACCEPTED,
                input_id=input_id,
                bytes=len(data),
                eof=eof or None,
                digest=digest,
                typed=data if self._retains(data) else None,
            )
        )
        launch.input.put_nowait(data, eof)
        return Accepted(seq, attempt.id)

    def _retains(self, data: bytes) -> bool:
        """What is larger was not typed, and could be more than a record may measure."""
        return bool(self._record.spec.event_retention.input) and len(data) <= _TYPED

    def accept_signal(self, signum: int, attempt_id: str | None = None) -> Accepted:
        """`signal`, up to the point where only durability is missing."""
        attempt, launch = self._accepting(attempt_id)
        try:
            launch.signal(signum)
        except ProcessLookupError:  # it has ended, and its end is not recorded yet
            raise SessionConflict("the session is not running: its process has ended") from None
        name = signal_name(signum)
        seq = self._actor.command(draft(ev.SIGNAL_SENT, signal=name, reason=name))
        return Accepted(seq, attempt.id)

    def accept_resize(self, rows: int, cols: int, attempt_id: str | None = None) -> Accepted:
        """`resize`, up to the point where only durability is missing."""
        if self._record.spec.io.mode is not IOMode.PTY:
            raise SessionConflict("the session has pipes, not a terminal: it cannot be resized")
        attempt, launch = self._accepting(attempt_id)
        try:
            launch.resize(TerminalSize(rows, cols))
        except (OSError, ValueError):
            raise SessionConflict("the session is not running: its terminal is gone") from None
        seq = self._actor.command(draft(ev.TERMINAL_RESIZED, rows=rows, cols=cols))
        return Accepted(seq, attempt.id)

    def _accepting(self, attempt_id: str | None) -> tuple[Attempt, Launch]:
        """The attempt that input, signals and resizes go to."""
        self._actor.check_present()
        attempt = self._actor.attempt
        if attempt is None or attempt.launch is None or not attempt.accepts:
            ending = " and its attempt is ending" if self._record.phase is Phase.RUNNING else ""
            raise SessionConflict(
                f"the session is not running (phase {self._record.phase}{ending})"
            )
        if attempt_id is not None and attempt_id != attempt.id:
            raise SessionConflict("expected_attempt_id: another attempt is current")
        return attempt, attempt.launch

    def _repeated(self, receipt: Receipt, digest: str, attempt_id: str | None) -> Accepted:
        if receipt.digest != digest:
            raise SessionConflict("input_id: already used for other content")
        if attempt_id is not None and attempt_id != receipt.attempt_id:
            raise SessionConflict("input_id: already accepted by another attempt")
        return Accepted(self._journal.latest, receipt.attempt_id, duplicate=True)


def _digest(input_id: str, data: bytes, eof: bool) -> str:
    """Tells a repeated input from a changed one; checks what every caller must give."""
    if not input_id:
        raise InvalidRequest("input_id: must not be empty")
    if not data and not eof:
        raise InvalidRequest("data_base64: an input needs bytes, or eof")
    person = b"s0d-eof" if eof else b"s0d"
    return hashlib.blake2b(data, digest_size=16, person=person).hexdigest()
