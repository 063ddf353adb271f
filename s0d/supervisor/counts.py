"""What has happened since the start, counted where it is recorded; for whoever publishes it.

Numbers that grow, and how many clients look on: what else there is is asked of the sandboxes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from s0d.model import event as ev
from s0d.model.histogram import Histogram


class Counts:
    """Events by type, exits by reason, bytes of output, and how long spawns took (seconds)."""

    def __init__(self) -> None:
        self.events: Counter[str] = Counter()
        self.exits: Counter[str] = Counter()
        self.restarts = 0
        self.output_bytes = 0
        self.spawn = Histogram()
        self.spawn_errors = 0
        self.attached = 0  # now, of all sessions

    def control(self, type: str, fields: Mapping[str, Any]) -> None:
        """An event that is not output was recorded."""
        self.events[type] += 1
        if type == ev.ATTEMPT_EXITED:
            self.exits[fields.get("reason", "")] += 1
        elif type == ev.SESSION_BACKOFF:
            self.restarts += 1

    def output(self, events: int, size: int) -> None:
        self.events[ev.OUTPUT] += events
        self.output_bytes += size
