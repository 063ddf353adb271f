"""Clients that ask for everything at once, until the daemon is gone.

Each is a task that ends when its connection does (`Gone`): what a dead daemon had already sent is
read to the end, for the client has seen it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any, Final

import trio

from tests.support.client import Answer, Client, Event, Gone, Refused, WebSocket, new_name

from .kinds import ONCE, WEIGHTS, make_spec
from .known import Creation, Input, Known, KnownSession

FEWEST, MOST = 4, 8
_OPERATORS: Final = 5
_WATCHERS: Final = 4
_BUSY: Final = (409, 429)  # not running, being deleted, full: nothing has happened


class Workload:
    """All clients of one life of the daemon.

    `over` is set when that has ended, `ending` before an orderly end begins: then it may answer
    that it is shutting down, and what was asked for has not happened.
    """

    def __init__(self, client: Client, known: Known, rng: random.Random) -> None:
        self._client = client
        self._known = known
        self._rng = rng
        self.over = False
        self.ending = False
        self._operations: dict[Callable[[], Awaitable[None]], int] = {
            self._create: 3,
            self._delete: 2,
            self._input: 8,
            self._signal: 2,
            self._resize: 2,
            self._stop: 1,
            self._start: 1,
            self._update: 1,
            self._attempt: 1,
        }

    async def run(self) -> None:
        """Until the daemon is gone."""
        async with trio.open_nursery() as nursery:
            for _ in range(_OPERATORS):
                nursery.start_soon(self._until_gone, self._operate)
            for _ in range(_WATCHERS):
                nursery.start_soon(self._until_gone, self._watch)

    async def _until_gone(self, part: Callable[[], Awaitable[None]]) -> None:
        try:
            while not self.over:
                await part()
                await trio.lowlevel.checkpoint()
        except Gone:
            return

    async def _operate(self) -> None:
        number = len(self._known.sessions) + len(self._known.creating)
        if number < FEWEST:
            await self._create()
        elif number > MOST:
            await self._delete()
        else:
            operations, weights = zip(*self._operations.items(), strict=True)
            await self._rng.choices(operations, weights)[0]()

    async def _ask(
        self, method: str, path: str, body: Any = None, key: str | None = None
    ) -> Answer:
        answer = await self._client.ask(method, path, body, key)
        if self.ending and answer.status == 503:
            raise Gone("it is shutting down")
        return answer

    # -- sessions ----------------------------------------------------------------------------

    def _kind(self) -> str:
        kinds = [s.kind for s in self._known.sessions.values()]
        kinds += [c.kind for c in self._known.creating.values()]
        weights = {k: w for k, w in WEIGHTS.items() if k not in ONCE or k not in kinds}
        return self._rng.choices(list(weights), list(weights.values()))[0]

    async def _create(self) -> None:
        key = new_name("key") if self._rng.random() < 0.7 else None
        kind, name = self._kind(), new_name("session")
        spec = make_spec(self._rng, kind, name)
        if self._known.freed_keys and self._rng.random() < 0.3:
            key, _ = self._known.freed_keys.popitem()  # a delete frees its key
        self._known.creating[name] = Creation(kind, spec, key)
        answer = await self._ask("POST", "", spec, key)
        assert answer.status == 201, answer
        self._known.created(answer.data["id"], name).latest = answer.data["cursor"]["latest"]

    async def _change(
        self, ask: Callable[[KnownSession], Awaitable[None]], *kinds: str
    ) -> KnownSession | None:
        """Change a session's lifecycle; one change at a time, so that it is known which held."""
        session = self._known.pick(self._rng, *kinds)
        if session is None:
            return None
        session.busy = True
        await ask(session)  # `Gone` leaves it busy: nobody can change it any more
        session.busy = False
        return session

    async def _delete(self) -> None:
        async def ask(session: KnownSession) -> None:
            session.deleting = True
            answer = await self._ask("DELETE", f"/{session.id}")
            assert answer.status == 200, answer
            self._known.gone(session)

        await self._change(ask)

    async def _want(self, session: KnownSession, state: str) -> None:
        session.desired = None
        path = f"/{session.id}/desired-state"
        answer = await self._ask("PUT", path, {"state": state})
        assert answer.status == 200, answer
        assert answer.data["spec"]["lifecycle"]["desired_state"] == state
        if state == "stopped":
            assert answer.data["phase"] == "stopped", answer
        self._note(session, answer)
        session.desired = state
        self._known.count(state)

    async def _stop(self) -> None:
        await self._change(lambda session: self._want(session, "stopped"))

    async def _start(self) -> None:
        await self._change(lambda session: self._want(session, "running"))

    async def _attempt(self) -> None:
        async def ask(session: KnownSession) -> None:
            session.desired = None
            path = f"/{session.id}/attempts"
            answer = await self._ask("POST", path, {"replace_current": True})
            assert answer.status == 201, answer
            self._note(session, answer)
            session.desired = "running"
            self._known.count("attempts")

        await self._change(ask)

    async def _update(self) -> None:
        async def ask(session: KnownSession) -> None:
            name = new_name("renamed")
            state = session.desired
            spec = {**session.spec, "name": name}
            spec["lifecycle"] = {**spec["lifecycle"], "desired_state": state or "running"}
            session.names.add(name)
            session.desired = None
            answer = await self._ask("PUT", f"/{session.id}", spec)
            assert answer.status == 200, answer
            self._note(session, answer)
            session.names, session.name, session.desired = {name}, name, state or "running"
            self._known.count("updates")

        await self._change(ask)

    def _note(self, session: KnownSession, answer: Answer) -> None:
        session.latest = max(session.latest, answer.data["cursor"]["latest"])

    # -- commands to the process -------------------------------------------------------------

    def _new_input(self, session: KnownSession) -> Input:
        data = self._rng.randbytes(self._rng.choice((1, 20, 20, 3000)))
        made = Input(new_name("input"), data)
        session.inputs[made.id] = made
        return made

    async def _input(self) -> None:
        session = self._known.pick(self._rng, "echo")
        if session is None:
            return
        made = self._new_input(session)
        answer = await self._ask("POST", f"/{session.id}/inputs", made.body)
        if answer.status == 202:
            assert answer.data["duplicate"] is False
            made.acked, made.attempt = True, answer.data["attempt_id"]
            self._known.count("inputs")
        else:
            self._refused(session, answer)
            del session.inputs[made.id]

    async def _signal(self) -> None:
        session = self._known.pick(self._rng)
        if session is None:
            return
        answer = await self._ask("POST", f"/{session.id}/signals", {"signal": "CONT"})
        if answer.status == 202:
            session.signals += 1
            self._known.count("signals")
        else:
            self._refused(session, answer)

    async def _resize(self) -> None:
        session = self._known.pick(self._rng, "terminal")
        if session is None:
            return
        size = {"rows": self._rng.randint(1, 99), "cols": self._rng.randint(1, 99)}
        answer = await self._ask("PUT", f"/{session.id}/terminal", size)
        if answer.status == 200:
            session.resizes += 1
            self._known.count("resizes")
        else:
            self._refused(session, answer)

    @property
    def _refusals(self) -> tuple[str, ...]:
        return ("session_conflict", "input_buffer_full", *(("unavailable",) * self.ending))

    def _refused(self, session: KnownSession, answer: Answer) -> None:
        assert answer.status in _BUSY or (answer.status == 404 and session.deleting), answer

    # -- looking on --------------------------------------------------------------------------

    async def _watch(self) -> None:
        session = self._known.pick(self._rng)
        if session is None:
            return
        after = self._rng.choice((None, session.latest))
        if session.kind == "flood":
            after = None  # anything else may be expired by now
        look = self._websocket if self._rng.random() < 0.5 else self._stream
        with trio.move_on_after(self._rng.uniform(0, 0.2)):
            await look(session, after)

    async def _stream(self, session: KnownSession, after: int | None) -> None:
        try:
            async with self._client.events(session.id, after) as stream:
                watch = _Watch(session, after)
                while (block := await stream.receive()) is not None:
                    for event in block:
                        watch.saw(event)
                        self._known.count("events over SSE")
        except Refused as error:
            self._not_granted(session, error)

    def _not_granted(self, session: KnownSession, error: Refused) -> None:
        if self.ending and error.status == 503:
            raise Gone("it is shutting down")
        assert session.deleting, error
        assert error.status in (404, 409)

    async def _websocket(self, session: KnownSession, after: int | None) -> None:
        try:
            async with self._client.websocket(session.id, after) as websocket:
                asked: list[Input] = []
                async with trio.open_nursery() as nursery:
                    if session.kind == "echo":
                        nursery.start_soon(self._type, session, websocket, asked)
                    await self._read(session, after, websocket, asked)
                    nursery.cancel_scope.cancel()
        except* Gone:
            raise Gone from None
        except* Refused as group:
            for error in group.exceptions:
                assert isinstance(error, Refused)
                self._not_granted(session, error)

    async def _type(self, session: KnownSession, websocket: WebSocket, asked: list[Input]) -> None:
        try:
            for _ in range(self._rng.randint(1, 20)):
                made = self._new_input(session)
                asked.append(made)
                await websocket.send({"type": "input", "request_id": made.id, **made.body})
        except Gone:
            return  # the reader ends when it has read everything

    async def _read(
        self,
        session: KnownSession,
        after: int | None,
        websocket: WebSocket,
        asked: list[Input],
    ) -> None:
        watch = _Watch(session, after)
        while (messages := await websocket.receive()) is not None:
            (message,) = messages
            if isinstance(message, Event):
                watch.saw(message)
                self._known.count("events over WebSocket")
                continue
            made = asked.pop(0)  # answers come in the order of the requests
            assert message["request_id"] == made.id, message
            if message["type"] == "ack":
                made.acked, made.attempt = True, watch.accepted.get(made.id)
                self._known.count("inputs")
            else:
                code = message["code"]
                gone = code == "session_not_found" and session.deleting
                assert gone or code in self._refusals, message
                del session.inputs[made.id]


class _Watch:
    """One reader's place: every number once, in order, none left out without a word."""

    def __init__(self, session: KnownSession, after: int | None) -> None:
        self._session = session
        self._next = None if after is None else after + 1
        if after is None and session.whole:
            self._next = 1
        self.accepted: dict[str, str] = {}

    def saw(self, event: Event) -> None:
        first = event.fields["first"] if event.fields["type"] == "journal.gap" else event.seq
        assert self._next in (None, first), f"{self._next} was due, and {event.raw!r} came"
        self._next = event.seq + 1
        self._session.saw(event)
        if event.fields["type"] == "input.accepted":
            self.accepted[event.fields["input_id"]] = event.fields["attempt_id"]
