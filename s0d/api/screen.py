"""What a session's terminal shows, and keys for it (extensions of the wire contract)."""

from __future__ import annotations

import uuid
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType
from quart import Response

from s0d.model.errors import InvalidRequest
from s0d.supervisor.keys import encode_key, encode_paste
from s0d.supervisor.screens import SCROLLBACK, View
from s0d.terminal import Cursor, Modes, Run
from s0d.wire.envelope import success, to_json
from s0d.wire.terminal import KeysBody, TextItem

from .call import Call
from .params import Number, Text
from .sessions import InputAccepted

_TYPES: Final = {
    "json": "application/json",
    "text": "text/plain; charset=utf-8",
    "ansi": "text/plain; charset=utf-8",
    "html": "text/html; charset=utf-8",
}
MEDIA: Final = tuple(dict.fromkeys(t.partition(";")[0] for t in _TYPES.values()))[1:]
FORMAT: Final = Text("format", tuple(_TYPES))
LINES_ABOVE: Final = Number("scrollback", 0, SCROLLBACK, 0)
IF_NONE_MATCH: Final = Text("If-None-Match", header=True)
PARAMS: Final = (FORMAT, LINES_ABOVE, IF_NONE_MATCH)

# What a browser shows of it runs nothing and loads nothing, whatever a program wrote.
_HTML_POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

Line = tuple[Run, ...]


class ScreenView(msgspec.Struct, kw_only=True):
    """A screen after event `seq`, the newest that changed it.

    `lines` are the `rows` lines from the top, `scrollback` those above, oldest first; a line is
    its runs of one style, without the blanks at its end.  `history_cut` says that output was
    skipped, or is no longer retained, which they would have shown.  The stream's later frames have
    `changed` in place of `lines`: the lines that differ, by row.
    """

    session_id: str
    attempt_id: str
    seq: int
    rows: int
    cols: int
    lines: tuple[Line, ...] | UnsetType = UNSET
    changed: dict[int, Line] | UnsetType = UNSET
    cursor: Cursor
    title: str
    modes: Modes
    margins: tuple[int, int]
    alternate: bool
    scrollback: tuple[Line, ...] | UnsetType = UNSET
    scrollback_lines: int
    history_cut: bool


async def get_screen(call: Call) -> Response:
    """The screen, or 304 where `If-None-Match` holds its ETag."""
    form = call.text(FORMAT) or "json"
    scrollback = call.number(LINES_ABOVE) or 0
    session = call.session
    with call.sandbox.screens.looking(session) as screen:
        await screen.refresh()
        tag = _etag(screen.attempt_id, screen.seq)
        if _matches(call.text(IF_NONE_MATCH), tag):
            return Response(b"", 304, headers={"etag": tag})
        view = await screen.look(scrollback)
    headers = {
        "etag": _etag(view.attempt_id, view.seq),
        "cache-control": "no-cache",
        "x-content-type-options": "nosniff",
    }
    if form == "html":
        headers["content-security-policy"] = _HTML_POLICY
    if form == "json":
        whole = view_screen(session.id, view, scrollback=scrollback)
        # The named sessions' surface has no envelope.
        body = to_json(whole) if call.problem else success(whole)
    else:
        body = str(getattr(view.snapshot, form)()).encode("utf-8", "replace")
    return Response(body, 200, headers=headers, content_type=_TYPES[form])


def view_screen(session_id: str, view: View, *, scrollback: int = 0) -> ScreenView:
    """`view` as clients see it; with the lines above where they were asked for."""
    snapshot = view.snapshot
    shown = _around(session_id, view)
    shown.lines = snapshot.lines
    if scrollback:
        shown.scrollback = snapshot.scrollback
    return shown


def view_changes(session_id: str, view: View, since: View) -> ScreenView:
    """What of `view` differs from an earlier one of the same attempt and size."""
    shown = _around(session_id, view)
    rows = view.snapshot.changed(since.snapshot)
    shown.changed = {row: view.snapshot.lines[row] for row in rows}
    return shown


def _around(session_id: str, view: View) -> ScreenView:
    snapshot = view.snapshot
    return ScreenView(
        session_id=session_id,
        attempt_id=view.attempt_id,
        seq=view.seq,
        rows=snapshot.rows,
        cols=snapshot.cols,
        cursor=snapshot.cursor,
        title=snapshot.title,
        modes=snapshot.modes,
        margins=snapshot.margins,
        alternate=snapshot.alternate,
        scrollback_lines=snapshot.scrollback_lines,
        history_cut=snapshot.history_cut,
    )


def _etag(attempt_id: str, seq: int) -> str:
    return f'"{attempt_id}.{seq}"'


def _matches(header: str | None, tag: str) -> bool:
    """RFC 9110, section 13.1.2: weak comparison."""
    if header is None:
        return False
    tags = [each.strip().removeprefix("W/") for each in header.split(",")]
    return tag in tags or "*" in tags


async def write_keys(call: Call) -> InputAccepted:
    """Encode the keys by the terminal's modes as of now; an input like any other."""
    body: KeysBody = call.body
    session = call.session
    with call.sandbox.screens.looking(session) as screen:
        modes = (await screen.look()).snapshot.modes
    data = encode_items(body.items(), modes)
    input_id = body.input_id or f"keys-{uuid.uuid4()}"
    accepted = await session.input(input_id, data, attempt_id=body.expected_attempt_id)
    return InputAccepted(input_id, accepted.attempt_id, accepted.duplicate)


def encode_items(items: list[str | TextItem], modes: Modes) -> bytes:
    """The bytes for keys, texts and pastes; `InvalidRequest` for what no terminal can send."""
    try:
        data = "".join([_encode(item, modes) for item in items]).encode()
    except UnicodeEncodeError:
        raise InvalidRequest("keys: must be valid Unicode") from None
    if not data:
        raise InvalidRequest("keys: must not be empty")
    return data


def _encode(item: str | TextItem, modes: Modes) -> str:
    if isinstance(item, str):
        return encode_key(item, modes)
    if item.paste is not None:
        return encode_paste(item.paste, modes)
    return item.text or ""
