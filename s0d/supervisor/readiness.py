"""Readiness: when an attempt moves from `starting` to `running`.

Output is matched on bytes, across chunk borders, per stream, anew for each attempt.
"""

from __future__ import annotations


class OutputMatcher:
    """Finds a byte sequence in streams that arrive in pieces.

    Keeps at most `len(pattern) - 1` bytes a stream, and nothing once it has matched.
    """

    def __init__(self, pattern: bytes) -> None:
        self._pattern = pattern
        self._tails: dict[str, bytes] = {}
        self.matched = False

    def feed(self, stream: str, chunk: bytes) -> bool:
        """Look at the next piece of `stream`; True once the pattern has been seen."""
        if self.matched:
            return True
        text = self._tails.get(stream, b"") + chunk
        if self._pattern in text:
            self.matched = True
            self._tails.clear()
        elif len(self._pattern) > 1:
            self._tails[stream] = text[-(len(self._pattern) - 1) :]
        return self.matched
