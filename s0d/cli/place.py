"""How far the output of a session has been shown, over several connections.

`seq` is an event up to which all output has been shown, and some bytes beyond it have been shown
too: a new connection asks for what came after `seq` and passes over as many.
"""

from __future__ import annotations


class Place:
    def __init__(self) -> None:
        self.seq: int | None = None
        """None until a first connection has shown its replay whole."""
        self._beyond = 0
        self._pass_over = 0

    @property
    def caught_up(self) -> bool:
        """Is what comes now new?"""
        return self.seq is not None and self._pass_over == 0

    def connect(self) -> None:
        """A new connection goes on from `seq`."""
        self._pass_over = self._beyond

    def fresh(self, data: bytes) -> bytes:
        """Of what comes, what has not been shown yet, and is now."""
        new = data[self._pass_over :]
        self._pass_over -= len(data) - len(new)
        self._beyond += len(new)
        return new

    def come_to(self, seq: int) -> None:
        """All output up to `seq` has been sent."""
        self.seq = seq
        self._beyond = self._pass_over

    def jump_to(self, seq: int | None) -> None:
        """What comes next comes after `seq`, whatever was before; None: begin anew."""
        self.seq = seq
        self._beyond = self._pass_over = 0
