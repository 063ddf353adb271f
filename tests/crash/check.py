"""What must hold after each start: every promise, against everything that the clients know."""

from __future__ import annotations

from typing import Any

from tests.support.client import Client

from .history import check_history
from .known import Known, KnownSession


class Check:
    """Compares a daemon that has just started with what the clients know."""

    def __init__(self, client: Client, known: Known) -> None:
        self._client = client
        self._known = known

    async def run(self) -> None:
        await self._settle_sessions()
        for session in self._known.sessions.values():
            await self._check_session(session)
        await self._retry_creates()
        await self._check_keys()

    # -- creates and deletes -----------------------------------------------------------------

    async def _settle_sessions(self) -> None:
        """Every acknowledged create is there, every acknowledged delete is not; what was open
        is decided by what is there."""
        answer = await self._client.ask("GET")
        assert answer.status == 200, answer
        found = {session["id"]: session for session in answer.data["sessions"]}
        assert not found.keys() & self._known.deleted, "a deleted session is back"
        for session in list(self._known.sessions.values()):
            if session.id not in found:
                assert session.deleting, f"session {session.id} ({session.kind}) is lost"
                self._known.gone(session)
        for session_id in found.keys() - self._known.sessions.keys():
            name = found[session_id]["spec"]["name"]
            assert name in self._known.creating, f"nobody asked for {found[session_id]}"
            self._known.created(session_id, name)
        generations = {session["runtime_generation"] for session in found.values()}
        assert len(generations) <= 1, generations
        for generation in generations:
            assert generation > self._known.generation, "a new runtime has a new generation"
            self._known.generation = generation

    async def _retry_creates(self) -> None:
        """What is not there was not made; a client with a key finds out by asking again."""
        for name, creation in list(self._known.creating.items()):
            if creation.key is None:
                del self._known.creating[name]
                continue
            answer = await self._client.ask("POST", "", creation.spec, creation.key)
            assert answer.status == 201, answer
            self._known.created(answer.data["id"], name)

    async def _check_keys(self) -> None:
        for session in self._known.sessions.values():
            if session.key is not None:
                answer = await self._client.ask("POST", "", session.spec, session.key)
                assert (answer.status, answer.data["id"]) == (200, session.id)
        if self._known.deleted:
            gone = max(self._known.deleted)
            for method, path in (("GET", ""), ("GET", "/events"), ("DELETE", "")):
                answer = await self._client.ask(method, f"/{gone}{path}")
                assert answer.status == 404, answer

    # -- one session -------------------------------------------------------------------------

    async def _check_session(self, session: KnownSession) -> None:
        session.busy = session.deleting = False
        answer = await self._client.ask("GET", f"/{session.id}")
        assert answer.status == 200, answer
        view = answer.data
        assert view["cursor"]["latest"] >= session.latest, "a client has seen more"
        assert view["spec"]["name"] in session.names
        session.name = view["spec"]["name"]
        session.names = {session.name}
        self._check_state(session, view)
        events = await self._client.history(session.id)
        for event in events:
            session.saw(event)
        check_history(session, events)
        await self._check_inputs(session)

    def _check_state(self, session: KnownSession, view: dict[str, Any]) -> None:
        """Desired state as acknowledged, with the recovery policy applied to it."""
        desired, phase = view["spec"]["lifecycle"]["desired_state"], view["phase"]
        at_rest = ("stopped", "exited", "failed")
        if session.desired == "stopped":
            assert (desired, phase) == ("stopped", "stopped"), view
        elif session.desired == "running" and session.recovers:
            assert desired == "running", view
            assert phase not in ("stopped", "suspended"), view
        elif not session.recovers:
            assert phase in at_rest, view
        assert phase != "failed", view
        session.desired = desired

    async def _check_inputs(self, session: KnownSession) -> None:
        for made in list(session.inputs.values()):
            answer = await self._client.ask("POST", f"/{session.id}/inputs", made.body)
            if made.acked:
                assert answer.status == 202, (made, answer)
                assert answer.data["duplicate"] is True, (made, answer)
                assert made.attempt in (None, answer.data["attempt_id"]), (made, answer)
                made.attempt = answer.data["attempt_id"]
            elif answer.status == 202:
                made.acked, made.attempt = True, answer.data["attempt_id"]
            else:
                assert answer.status in (409, 429), answer
                del session.inputs[made.id]
