"""The API's description says what is served, and what the wire contract promises."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from s0d.api.openapi import document, encoded
from s0d.api.params import Number, Text
from s0d.api.route import Kind
from s0d.api.routes import routes
from s0d.model.errors import InvalidRequest
from s0d.wire.event import EventView
from tests.api.fake import FakeSupervisor
from tests.api.harness import AUTH, Served

CONTRACT = Path(__file__).parents[2] / "docs" / "wire.md"
DOCUMENT = document()
Row = tuple[str, str]


def operations() -> dict[Row, dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


def test_everything_that_is_served_is_described_and_nothing_else() -> None:
    served = {(route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)) for route in routes()}
    assert set(operations()) == served
    ids = [operation["operationId"] for operation in operations().values()]
    assert len(ids) == len(set(ids))


def test_every_reference_leads_somewhere() -> None:
    for reference in set(re.findall(r'"\$ref":"#/([^"]+)"', encoded().decode())):
        found: Any = DOCUMENT
        for part in reference.split("/"):
            found = found[part]


def test_every_schema_is_one() -> None:
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


# -- against the tables of the contract ----------------------------------------------------------

SECTIONS = {
    "## 2.": ("/api/v1/sandboxes/{sandbox_id}/sessions", "/api/v1/sessions"),
    "## 3.": ("/api/v1/sandboxes",),
    "## 4.": ("/v1/sandbox/{sandbox_id}",),
}
NAMES = {"{sid}": "{session_id}", "{id}": "{sandbox_id}"}


def tables() -> list[tuple[str, str, str, list[str]]]:
    """Section, method, suffix with its query, and the cells of every row with a method in it."""
    found, section = [], ""
    for line in CONTRACT.read_text().splitlines():
        if line.startswith("## "):
            section = line[:5]
        match = re.match(r"\| `(GET|POST|PUT|DELETE) ?([^`]*)`", line)
        if match and section in SECTIONS:
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            found.append((section, match[1], match[2].strip(), cells))
    return found


def rows() -> list[Any]:
    return [
        pytest.param(method, prefix, suffix, cells, id=f"{method} {prefix}{suffix}")
        for section, method, suffix, cells in tables()
        for prefix in SECTIONS[section]
    ]


def test_the_tables_are_found() -> None:
    assert len(tables()) == 13 + 10 + 7


@pytest.mark.parametrize(("method", "prefix", "suffix", "cells"), rows())
def test_the_contract_row_by_row(method: str, prefix: str, suffix: str, cells: list[str]) -> None:
    path, _, query = suffix.partition("?")
    for short, long in NAMES.items():
        path = path.replace(short, long)
    operation = operations()[method, prefix + path]
    answer = cells[-1]
    status = re.match(r"\d{3}", answer)
    if "SSE" in answer or "WebSocket" in answer:
        expected = "101" if "WebSocket" in answer else "200"
    else:
        assert status is not None, answer
        expected = status[0]
    assert expected in operation["responses"]
    named = {p["name"] for p in operation["parameters"]}
    assert named >= {part.partition("=")[0] for part in query.split("&") if part}
    extensions = re.findall(r"extensions? ([^)]*)\)", cells[0] + answer)
    for text in [*extensions, *re.findall(r"GET ` \(([^)]*)\)", cells[0])]:
        assert named >= {name.partition("=")[0] for name in re.findall(r"`([a-z_=A-Z…]+)`", text)}
    if "Idempotency-Key" in cells[0]:
        assert "Idempotency-Key" in named
    if len(cells) > 2 and (cells[1].startswith("`{") or cells[1].endswith("Request")):
        sent = operation["requestBody"]
        fields = properties(sent["content"]["application/json"]["schema"])
        assert set(fields) >= set(re.findall(r'[{,] ?"(\w+)"', top_level(cells[1])))
        optional = "optional" in cells[1]
        assert sent["required"] is not True or not optional
    shown = re.search(r"`(\{.*\})`", answer)
    if shown and expected in ("200", "201", "202") and "WebSocket" not in answer:
        schema = operation["responses"][expected]["content"]["application/json"]["schema"]
        fields = properties(schema)
        if prefix.startswith("/api"):
            fields = properties(fields["data"])
        extension = {"next_cursor"}
        assert set(fields) - extension == set(re.findall(r'[{,] ?"(\w+)"', top_level(shown[1])))


def top_level(text: str) -> str:
    """Of an object in the contract's short hand, its own keys only."""
    text = text.replace("`", "").strip()
    while re.search(r"(?<=.)\{[^{}]*\}", text):
        text = re.sub(r"(?<=.)\{[^{}]*\}", "", text)
    return text


def properties(schema: dict[str, Any]) -> dict[str, Any]:
    if "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return dict(schema.get("properties", {}))


def words(heading: str) -> set[str]:
    """The field names that the paragraph below a heading lists."""
    text = CONTRACT.read_text().partition(f"\n{heading}")[2].strip().partition("\n\n")[0]
    return set(re.findall(r"`([a-z_0-9]+)[` ]", text))


def schema(name: str) -> dict[str, Any]:
    return dict(DOCUMENT["components"]["schemas"][name]["properties"])


def test_session_event_and_sandbox_have_the_fields_of_the_contract() -> None:
    session = words("### Session\n") - {"earliest", "latest", "freeze"}
    assert session <= set(schema("SessionView"))
    assert words("### Event\n") <= set(schema("EventView"))
    text = CONTRACT.read_text()
    for name, struct in (("Sandbox", "SandboxView"), ("Summary", "SummaryView")):
        listed = text.partition(f"**{name}**: ")[2].partition("." if name == "Sandbox" else "\n")[0]
        fields = set(re.findall(r"`([a-z_]+)`", listed.partition(" is one of")[0])) - {"paused_"}
        assert set(schema(struct)) - {"expires_at", "hard_expires_at"} <= fields | {"status"}
    listed = text.partition("**SessionInfo**: ")[2].partition(". Integers")[0]
    assert set(schema("SessionInfo")) <= set(re.findall(r"`\{?([a-z_]+)", listed))


def test_every_error_of_the_contract_is_described() -> None:
    table = CONTRACT.read_text().partition("| status | code |")[2].partition("\n\n")[0]
    found = re.findall(r"^\| ([\d, ]+) \| ([^|]+) \|", table, re.MULTILINE)
    assert len(found) > 12
    responses = DOCUMENT["components"]["responses"]
    for statuses, codes in found:
        for status in statuses.split(", "):
            shape = responses[f"error{status}"]["content"]["application/json"]["schema"]
            known = set(shape["properties"]["error"]["properties"]["code"]["enum"])
            named = set(re.findall(r"`([a-z_]+)`", codes))
            assert known & named
            if "," not in statuses:
                assert named <= known


def test_what_needs_a_token_says_so_and_which_role() -> None:
    public = {path for (_, path), o in operations().items() if o.get("security") == []}
    assert public == {"/healthz", "/readyz", "/metadata"}
    assert operations()["DELETE", "/api/v1/sandboxes/{sandbox_id}"]["x-role"] == "admin"
    assert operations()["GET", "/metrics"]["x-role"] == "viewer"
    assert operations()["GET", "/api/v1/sessions"]["x-role"] == "viewer"


# -- served ------------------------------------------------------------------------------------


async def test_it_is_served_to_those_who_may_come_in(served: Served) -> None:
    answer = await served.ask("GET", "/openapi.json")
    assert answer.headers["content-type"] == "application/json"
    assert json.loads(answer.body) == json.loads(encoded())
    assert (await served.ask("GET", "/openapi.json", {})).status == 401


async def test_a_parameter_that_is_not_described_cannot_be_used(
    supervisor: FakeSupervisor, served: Served
) -> None:
    for route in routes():
        for param in route.params:
            assert isinstance(param, Number | Text)
    answer = await served.ask("GET", "/api/v1/sessions?after=nonsense", AUTH)
    assert answer.status == 200  # of another route: here it is unknown, and ignored


def test_parameters() -> None:
    number = Number("n", 1, 10, 5)
    assert [number.parse(text) for text in (None, "", "1", "10", "007")] == [5, 5, 1, 10, 7]
    for text in ("0", "11", "-1", "1.0", "x", "１", "1" * 17):
        with pytest.raises(InvalidRequest, match="n: must be a whole number from 1 to 10"):
            number.parse(text)
    word = Text("w", ("a", "b"))
    assert [word.parse(text) for text in (None, "", "a")] == [None, None, "a"]
    with pytest.raises(InvalidRequest, match="w: must be one of a, b"):
        word.parse("c")


async def test_events_look_as_described(supervisor: FakeSupervisor, served: Served) -> None:
    session = supervisor.default.add()
    session.append(data=b"x")
    session.append("attempt.exited", exit_code=1, reason="exited", cpu_seconds=0.5)
    answer = await served.ask("GET", f"/api/v1/sessions/{session.id}/events")
    for event in answer.data["events"]:
        assert set(event) <= set(EventView.__struct_fields__)
        msgspec.convert(event, EventView)
    assert len(answer.data["events"]) == 2


def test_streams_and_sockets() -> None:
    for route in routes():
        described = operations()[route.method, re.sub(r"<(\w+)>", r"{\1}", route.path)]
        if route.kind is Kind.EVENT_STREAM:
            assert "text/event-stream" in described["responses"]["200"]["content"]
        if route.kind is Kind.WEBSOCKET:
            assert "101" in described["responses"]


@pytest.mark.parametrize(("body", "status"), [(b"", 404), (b" \t\r\n", 400), (b"\x0c", 400)])
async def test_an_optional_body_is_absent_or_json(
    supervisor: FakeSupervisor, served: Served, body: bytes, status: int
) -> None:
    """Found by a fuzzer: white space is neither."""
    target = "/api/v1/sessions/ses-ffffffffffff/attempts"
    answer = await served.ask("POST", target, {**AUTH, "Content-Type": "application/json"}, body)
    assert answer.status == status
