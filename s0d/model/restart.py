"""The restart decision.

The n-th restart within the window waits `initial * 2**(n-1)`, at most the maximum; one more than
`max_restarts` within the window gives up.  Times are seconds on a clock that does not jump, given
by the caller: nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from .spec import RestartPolicy, RestartSpec


class RestartIn(NamedTuple):
    """Start again after this many milliseconds."""

    delay_ms: int


class GiveUp(NamedTuple):
    """The limit of restarts within the window is reached."""


class Leave(NamedTuple):
    """The policy does not restart this end."""


Decision = RestartIn | GiveUp | Leave


class RestartWindow:
    """When restarts were scheduled, as far back as the window reaches."""

    def __init__(self) -> None:
        self._scheduled: deque[float] = deque()

    def clear(self) -> None:
        """A manual start begins a fresh window."""
        self._scheduled.clear()

    def shift(self, seconds: float) -> None:
        """Move every restart later: the clock stood still that long (a frozen sandbox)."""
        self._scheduled = deque(at + seconds for at in self._scheduled)

    def decide(self, spec: RestartSpec, *, failed: bool, now: float) -> Decision:
        """What to do after an end at `now`; a restart that is decided on is counted."""
        if spec.policy is RestartPolicy.NEVER:
            return Leave()
        if spec.policy is RestartPolicy.ON_FAILURE and not failed:
            return Leave()
        while self._scheduled and now - self._scheduled[0] >= spec.window_seconds:
            self._scheduled.popleft()
        if len(self._scheduled) >= spec.max_restarts:
            return GiveUp()
        self._scheduled.append(now)
        return RestartIn(_delay_ms(spec, len(self._scheduled)))


def _delay_ms(spec: RestartSpec, n: int) -> int:
    # The exponent is bounded first: max_restarts may be 2**31-1, and 2**(2**31) may not be made.
    doublings = min(n - 1, spec.max_backoff_ms.bit_length())
    return min(spec.initial_backoff_ms << doublings, spec.max_backoff_ms)
