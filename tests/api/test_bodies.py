"""The budget for request bodies in memory."""

from __future__ import annotations

from pathlib import Path

import trio

from tests.api.fake import FakeSupervisor
from tests.api.harness import JSON, request, serving

SPEC = b'{"command": ["true"]}'
SESSIONS = "/api/v1/sessions"


async def test_bodies_share_a_budget_and_give_it_back(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    async with serving(supervisor, short_dir, max_bodies=1000) as served:
        held = await served.connect()
        await held.send(request("POST", SESSIONS, {**JSON, "Content-Length": "990"}) + SPEC * 45)
        await trio.testing.wait_all_tasks_blocked(0.01)
        refused = await served.ask("POST", SESSIONS, JSON, SPEC * 3)
        assert (refused.status, refused.code) == (429, "limit_exceeded")
        assert refused.headers["retry-after"] == "1"
        await held.send(b" " * 45)
        assert (await held.answer()).status == 400
        for _ in range(100):  # each of them fits only if those before gave back what they took
            assert (await served.ask("POST", SESSIONS, JSON, SPEC)).status == 201


async def test_body_of_a_client_that_left_is_given_back(
    supervisor: FakeSupervisor, short_dir: Path
) -> None:
    async with serving(supervisor, short_dir, max_bodies=1000) as served:
        for _ in range(3):
            wire = await served.connect()
            begun = request("POST", SESSIONS, {**JSON, "Content-Length": "990"}) + SPEC * 45
            await wire.send(begun)
            await trio.testing.wait_all_tasks_blocked(0.01)
            await wire.stream.aclose()
            await trio.testing.wait_all_tasks_blocked(0.01)
        assert (await served.ask("POST", SESSIONS, JSON, SPEC)).status == 201
