"""A daemon that a test scripts: what was asked is remembered, sessions have events."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any
from urllib.parse import parse_qs

from s0d.mcp.calls import Calls
from s0d.mcp.tools import call

SES = "ses-0123456789ab"
MAX_PAGE = 4 << 20


@dataclass
class FakeDaemon:
    """Answers by `answers[method, path]`; else looks up its one session, and pages its events."""

    events: list[dict[str, Any]] = field(default_factory=list)
    phase: str = "running"
    attempt: dict[str, Any] = field(default_factory=dict)
    answers: dict[tuple[str, str], tuple[int, Any]] = field(default_factory=dict)
    asked: list[tuple[str, str, Any]] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        self.asked.append((method, path, json.loads(body) if body else None))
        status, answer = self._answer(method, path)
        return status, answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    def write(self, *chunks: bytes, stream: str = "pty", gap: int = 0) -> None:
        """Output events; `gap` other events before each."""
        for chunk in chunks:
            event = {
                "seq": self.latest + 1 + gap,
                "stream": stream,
                "data_base64": base64.b64encode(chunk).decode(),
            }
            self.events.append(event)

    @property
    def latest(self) -> int:
        return self.events[-1]["seq"] if self.events else 3

    def session(self, name: str = "shell", id: str = SES, phase: str | None = None) -> Any:
        return {
            "id": id,
            "spec": {"name": name},
            "phase": phase or self.phase,
            "attempt": self.attempt,
            "cursor": {"earliest": 1, "latest": self.latest},
        }

    def _answer(self, method: str, path: str) -> tuple[int, Any]:
        if (method, path) in self.answers:
            return self.answers[method, path]
        target, _, query = path.partition("?")
        given = {name: values[0] for name, values in parse_qs(query).items()}
        if target == "/api/v1/status":
            return 200, success({"sandbox_id": "local"})
        if target.endswith("/sessions") and "name" in given:
            return 200, success({"sessions": [self.session(given["name"])]})
        if target.endswith("/events"):
            return 200, success(self._page(given))
        return 404, {"success": False, "error": {"code": "not_found", "message": path}}

    def _page(self, given: dict[str, str]) -> Any:
        assert given["type"] == "output"
        events = self.events
        if "tail" in given:
            events = events[-int(given["tail"]) :]
        else:
            after = int(given["after"])
            events = [e for e in events if e["seq"] > after][: int(given["limit"])]
            size = list(accumulate(len(e["data_base64"]) for e in events))
            events = events[: max(1, sum(total <= MAX_PAGE for total in size))]
        return {"events": events, "cursor": {"earliest": 1, "latest": self.latest}}


def success(data: Any) -> Any:
    return {"success": True, "data": data}


async def run(daemon: FakeDaemon, tool: str, **arguments: Any) -> Any:
    text, failed = await call(Calls(daemon), tool, arguments)
    assert not failed, text
    return json.loads(text)


async def fails(daemon: FakeDaemon, tool: str, **arguments: Any) -> Any:
    text, failed = await call(Calls(daemon), tool, arguments)
    assert failed, text
    return json.loads(text)["error"]
