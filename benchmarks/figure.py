"""One figure, and how the figures of several runs become one."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from .daemon import Daemon


@dataclass(frozen=True)
class Figure:
    """`value` in `unit`; `raw`, the baseline's, in the same."""

    name: str
    value: float
    unit: str
    raw: float | None = None
    cpu: float | None = None
    """Seconds of the daemon's CPU time."""

    @property
    def ratio(self) -> float | None:
        """Of the baseline: 1 is as good as it, 2 twice as good."""
        if not self.raw or not self.value:
            return None
        return self.value / self.raw if self.unit.endswith("/s") else self.raw / self.value


class Span:
    """What a `with timed(daemon)` has taken: seconds, and the daemon's seconds of CPU time."""

    seconds = 0.0
    cpu = 0.0


@contextmanager
def timed(daemon: Daemon) -> Iterator[Span]:
    """Time what stands inside."""
    span, cpu, began = Span(), daemon.cpu, time.perf_counter()
    yield span
    span.seconds, span.cpu = time.perf_counter() - began, daemon.cpu - cpu


def percentile(times: Sequence[float], share: int) -> float:
    """The time that `share` percent stay below, in milliseconds."""
    return sorted(times)[min(len(times) - 1, len(times) * share // 100)] * 1e3


def median(runs: list[Figure]) -> Figure:
    """The figure of several runs; the ratio is the median's to the median's."""
    first = runs[0]

    def middle(values: list[float | None]) -> float | None:
        known = [value for value in values if value is not None]
        return statistics.median(known) if known else None

    return Figure(
        first.name,
        statistics.median(run.value for run in runs),
        first.unit,
        middle([run.raw for run in runs]),
        middle([run.cpu for run in runs]),
    )
