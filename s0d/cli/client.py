"""The calls of the sessions API, as the verbs need them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast
from urllib.parse import quote, urlencode

import msgspec

from . import http
from .errors import ApiError, CliError
from .http import Headers, Response
from .lookup import is_whole_id, pick
from .target import Target

# The daemon comments every 15 s on a silent stream: three missed ones mean a dead connection.
STREAM_TIMEOUT = 45.0

_PAGE = 200

Json = dict[str, Any]
T = TypeVar("T")


class Client:
    """One daemon and one sandbox in it (None: the daemon's default sandbox)."""

    def __init__(self, target: Target, sandbox: str | None = None) -> None:
        self.target = target
        middle = f"/sandboxes/{quote(sandbox, safe='')}" if sandbox else ""
        self._sessions = f"/api/v1{middle}/sessions"
        self._ids: dict[str, str] = {}

    def metadata(self) -> Json:
        """Who answers there; needs no token."""
        return self._call("GET", "/metadata", timeout=10.0)

    def status(self) -> Json:
        """What is in force in the daemon."""
        return self._call("GET", "/api/v1/status", timeout=10.0)

    def sandboxes(self, **matching: str | None) -> list[Json]:
        """All that match, page by page."""
        found: list[Json] = []
        while True:
            query = _query({"limit": _PAGE, "offset": len(found), **matching})
            page = self._call("GET", f"/api/v1/sandboxes{query}")
            found += page["sandboxes"]
            if not page["has_more"] or not page["sandboxes"]:
                return found

    def list(self, *, usage: bool = False) -> list[Json]:
        query = _query({"usage": "true" if usage else None})
        return cast("list[Json]", self._call("GET", self._sessions + query)["sessions"])

    def create(self, spec: Json, idempotency_key: str | None = None) -> Json:
        headers = [("Idempotency-Key", idempotency_key)] if idempotency_key else None
        return self._call("POST", self._sessions, spec, headers)

    def get(self, session: str, *, usage: bool = False) -> Json:
        return self._of(session, "GET", "?usage=true" if usage else "")

    def update(self, session: str, spec: Json) -> Json:
        return self._of(session, "PUT", body=spec)

    def set_desired_state(self, session: str, state: str) -> Json:
        return self._of(session, "PUT", "desired-state", {"state": state})

    def create_attempt(self, session: str, replace: bool) -> Json:
        return self._of(session, "POST", "attempts", {"replace_current": replace})

    def input(self, session: str, body: Json) -> Json:
        return self._of(session, "POST", "inputs", body)

    def signal(self, session: str, body: Json) -> Json:
        return self._of(session, "POST", "signals", body)

    def resize(self, session: str, body: Json) -> Json:
        return self._of(session, "PUT", "terminal", body)

    def delete(self, session: str) -> Json:
        return self._of(session, "DELETE")

    def kill(self, session: str, body: Json) -> Json:
        return self._of(session, "POST", "kill", body)

    def sandbox(
        self, method: str, id: str | None = None, action: str = "", body: Json | None = None
    ) -> Json:
        """A call about one sandbox, or, without its id, about them all."""
        parts = [part for part in (id and quote(id, safe=""), action) if part]
        return self._call(method, "/".join(("/api/v1/sandboxes", *parts)), body)

    def events(self, session: str, after: int | None, limit: int | None) -> Json:
        query = {"after": after, "limit": limit}
        return self._of(session, "GET", f"events{_query(query)}")

    def stream(self, session: str, after: int | None, last_event_id: int | None = None) -> Response:
        """The SSE stream, open; the caller closes it."""
        headers: Headers = [("Accept", "text/event-stream")]
        if last_event_id is not None:
            headers.append(("Last-Event-ID", str(last_event_id)))
        return self._open(session, f"events/stream{_query({'after': after})}", headers)

    def screen(self, session: str, scrollback: int | None) -> Json:
        return self._of(session, "GET", f"screen{_query({'scrollback': scrollback})}")

    def rendered_screen(self, session: str, form: str, scrollback: int | None) -> bytes:
        """The screen as text, ANSI or HTML."""
        query = _query({"format": form, "scrollback": scrollback})
        with self._open(session, f"screen{query}") as response:
            return response.read()

    def screen_stream(self, session: str) -> Response:
        """The screen's changes (SSE), open; the caller closes it."""
        return self._open(session, "screen/stream")

    def recording(self, session: str, form: str, inputs: bool, attempt_id: str | None) -> Response:
        """A recording, open; the caller closes it."""
        query = {"format": form, "input": "true" if inputs else None, "attempt_id": attempt_id}
        return self._open(session, f"recording{_query(query)}")

    def logs(self, session: str, query: Mapping[str, int | str | None]) -> Response:
        """Lines of output, one JSON object a line, open; the caller closes it."""
        return self._open(session, f"logs{_query(query)}")

    def keys(self, session: str, body: Json) -> Json:
        return self._of(session, "POST", "keys", body)

    def wait(self, session: str, body: Json) -> Json:
        return self._of(session, "POST", "wait", body)

    def _open(self, session: str, suffix: str, headers: Headers | None = None) -> Response:
        """An answer that is no envelope, its body still to be read."""
        return self._found(session, lambda id: self._open_at(self.path(id, suffix), headers))

    def _open_at(self, path: str, headers: Headers | None) -> Response:
        response = http.send(self.target, "GET", path, headers=headers, read_timeout=STREAM_TIMEOUT)
        if response.status != 200:
            with response:
                raise self._failure(response, response.read())
        return response

    def path(self, session: str, suffix: str = "") -> str:
        """The path of a session that is known by its id."""
        path = f"{self._sessions}/{quote(session, safe='')}"
        if not suffix or suffix.startswith("?"):
            return path + suffix
        return f"{path}/{suffix}"

    def _of(self, session: str, method: str, suffix: str = "", body: Json | None = None) -> Json:
        return self._found(session, lambda id: self._call(method, self.path(id, suffix), body))

    def _found(self, called: str, ask: Callable[[str], T]) -> T:
        """Ask about a session that may be called by its name or by the beginning of its id.

        What looks like an id is tried as one first: then there is nothing to look up.
        """
        if called in self._ids:
            return ask(self._ids[called])
        if called.startswith("ses-"):
            try:
                answer = ask(called)
            except ApiError as error:
                if error.code != "session_not_found" or is_whole_id(called):
                    raise
            else:
                self._ids[called] = called
                return answer
        self._ids[called] = pick(self.list(), called)["id"]
        return ask(self._ids[called])

    def _call(
        self,
        method: str,
        path: str,
        body: Json | None = None,
        headers: Headers | None = None,
        timeout: float | None = None,
    ) -> Json:
        data = b"" if body is None else msgspec.json.encode(body)
        with http.send(
            self.target, method, path, headers=headers, body=data, read_timeout=timeout
        ) as response:
            answer = response.read()
        if response.status >= 300:
            raise self._failure(response, answer)
        try:
            return cast(Json, msgspec.json.decode(answer)["data"])
        except (msgspec.DecodeError, KeyError, TypeError):
            raise CliError(f"{self.target.url} did not answer as s0d does") from None

    def _failure(self, response: Response, answer: bytes) -> CliError:
        error = failure_of(response.status, response.headers, answer)
        if isinstance(error, ApiError):
            error.target = self.target
        return error


def _query(parameters: Mapping[str, int | str | None]) -> str:
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def failure_of(status: int, headers: Mapping[str, str], answer: bytes) -> CliError:
    """The error of the envelope; anything else did not come from s0d."""
    try:
        error = msgspec.json.decode(answer)["error"]
        code, message = str(error["code"]), str(error["message"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return CliError(f"the answer was HTTP {status}, not one of s0d's")
    if status == 401:
        message += ": set S0D_TOKEN or --token (`s0d token` prints it on the daemon's machine)"
    wait = headers.get("retry-after", "")
    retry_after = float(wait) if wait.isdigit() else None
    return ApiError(status, code, message, error.get("details"), retry_after)
