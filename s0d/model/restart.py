"""The restart decision.

The n-th restart within the window waits `initial * 2**(n-1)`, at most the maximum; one more than
`max_restarts` within the window gives up.  Times are seconds on a clock that does not jump, given
by the caller: nothing here reads a clock.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from .spec import RestartPolicy, RestartSpec


class RestartIn(NamedTuple):
    """Start again after this many milliseconds."""

    delay_ms: int


class GiveUp(NamedTuple):
    """The limit of restarts within the window is reached."""


class Leave(NamedTuple):
    """The policy does not restart this end."""


_REMEMBERED: Final = 1 << 16

Decision = RestartIn | GiveUp | Leave


class RestartWindow:
    """When restarts were scheduled, as far back as the window reaches.

    Remembers the newest 65,536 of them: a limit above that within one window is no limit.
    """

    def __init__(self) -> None:
        self._scheduled: deque[float] = deque(maxlen=_REMEMBERED)

    def clear(self) -> None:
        """A manual start begins a fresh window."""
        self._scheduled.clear()

    def decide(self, spec: RestartSpec, *, failed: bool, now: float) -> Decision:
        """What to do after an end at `now`; a restart counts when it is scheduled (`count`)."""
        if spec.policy is RestartPolicy.NEVER:
            return Leave()
        if spec.policy is RestartPolicy.ON_FAILURE and not failed:
            return Leave()
        self._forget(spec, now)
        if len(self._scheduled) >= spec.max_restarts:
            return GiveUp()
        return RestartIn(_delay_ms(spec, len(self._scheduled) + 1))

    def count(self, spec: RestartSpec, now: float) -> None:
        """A restart was scheduled at `now`."""
        self._forget(spec, now)
        self._scheduled.append(now)

    def _forget(self, spec: RestartSpec, now: float) -> None:
        """Drop what the window no longer reaches: time does not run backwards."""
        while self._scheduled and now - self._scheduled[0] >= spec.window_seconds:
            self._scheduled.popleft()


def _delay_ms(spec: RestartSpec, n: int) -> int:
    # The exponent is bounded first: max_restarts may be 2**31-1, and 2**(2**31) may not be made.
    doublings = min(n - 1, spec.max_backoff_ms.bit_length())
    return min(spec.initial_backoff_ms << doublings, spec.max_backoff_ms)
