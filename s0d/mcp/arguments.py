"""What each tool takes: types, from which come both the checks and the schemas that a model reads.

The fields of `session_create`, `session_list`, `session_kill` and `sandbox_exec` are the named
sessions' surface's own; what they mean is checked there.  A `null` counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from s0d.model.parse import explain
from s0d.wire.terminal import TextItem

from .errors import invalid

MAX_WAIT_MS: Final = 120_000
MAX_TEXT: Final = 100_000
DEFAULT_TEXT: Final = 8_000

Name = Annotated[str, Meta(description="The session's name, as in session_list.")]
Argv = Annotated[
    list[str],
    Meta(
        description=(
            'The program and its arguments, one string each: ["python3", "-m", "http.server"]. '
            'No shell reads it; for a shell command line use ["sh", "-c", "make && ./run"].'
        )
    ),
]
Env = Annotated[dict[str, str], Meta(description="Environment variables to set.")]
Path = Annotated[str, Meta(description="Working directory, an absolute path.")]
Text = Annotated[str, Meta(description="Text to look for.")]
SandboxId = Annotated[
    str, Meta(description="Which sandbox; leave it out for the default one, which is usual.")
]
Cursor = Annotated[
    str | int,
    Meta(description="A cursor from an earlier answer: only what came after it counts."),
]
MaxBytes = Annotated[
    int,
    Meta(ge=1, le=MAX_TEXT, description=f"How much text at most; default {DEFAULT_TEXT}."),
]
StripAnsi = Annotated[
    bool,
    Meta(
        description=(
            "true (default): plain text, without colours and cursor movement. false: as written."
        )
    ),
]


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Those of one tool."""

    sandbox_id: SandboxId | UnsetType = UNSET

    @property
    def sandbox(self) -> str | None:
        return self.sandbox_id or None


class SessionCreate(Arguments, kw_only=True):
    name: Annotated[
        str,
        Meta(description='A name of your choice, ^[a-z][a-z0-9-]{0,31}$, e.g. "dev-server".'),
    ]
    cmd: Argv
    env: Env | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    cols: Annotated[int, Meta(description="Terminal width, 1 to 512; default 80.")] | UnsetType = (
        UNSET
    )
    rows: Annotated[int, Meta(description="Terminal height, 1 to 512; default 24.")] | UnsetType = (
        UNSET
    )
    replace: (
        Annotated[
            bool,
            Meta(description="Replace a session of this name that has ended. Never a live one."),
        ]
        | UnsetType
    ) = UNSET


class SessionList(Arguments, kw_only=True):
    limit: (
        Annotated[
            int,
            Meta(ge=1, le=1000, description="How many at most, live ones first; default 30."),
        ]
        | UnsetType
    ) = UNSET


class SessionKill(Arguments, kw_only=True):
    name: Name
    signal: Annotated[str, Meta(description="TERM (default), KILL, INT or HUP.")] | UnsetType = (
        UNSET
    )
    grace_ms: (
        Annotated[
            int,
            Meta(
                description=(
                    "Milliseconds until what still lives is killed for certain, 0 to 60000; "
                    "default 5000."
                )
            ),
        ]
        | UnsetType
    ) = UNSET


class SessionScreen(Arguments, kw_only=True):
    name: Name
    scrollback: (
        Annotated[
            int,
            Meta(ge=0, le=1000, description="Lines that scrolled off the top, too; default 0."),
        ]
        | UnsetType
    ) = UNSET


class SessionOutput(Arguments, kw_only=True):
    name: Name
    after: Cursor | UnsetType = UNSET
    max_bytes: MaxBytes | UnsetType = UNSET
    strip_ansi: StripAnsi | UnsetType = UNSET
    stream: (
        Annotated[
            str,
            Meta(description="Only stdout or stderr, of a session that has no terminal."),
        ]
        | UnsetType
    ) = UNSET


class SessionInput(Arguments, kw_only=True):
    name: Name
    text: (
        Annotated[str, Meta(description=r'Text to type, as it is. End a command line with "\n".')]
        | UnsetType
    ) = UNSET
    data_base64: Annotated[str, Meta(description="Bytes instead of text.")] | UnsetType = UNSET
    eof: Annotated[bool, Meta(description="End of input after it, like Ctrl-D.")] | UnsetType = (
        UNSET
    )
    input_id: (
        Annotated[
            str,
            Meta(
                description=(
                    "An id of your choice. If the answer is lost, call again with the same id and "
                    "the same content: it is not sent twice."
                )
            ),
        ]
        | UnsetType
    ) = UNSET


class SessionKeys(Arguments, kw_only=True):
    name: Name
    keys: Annotated[
        list[str | TextItem],
        Meta(
            description=(
                'Pressed in this order. A key by name ("Enter", "Tab", "Escape", "BSpace", "Up", '
                '"Down", "Left", "Right", "Home", "End", "PPage", "NPage", "F1", "C-c" for Ctrl-C, '
                '"M-x" for Alt-x), or any other string as text: ["ls -l", "Enter"]. '
                'An object is always text: {"text": "Enter"} types the word; {"paste": "..."} '
                "pastes."
            )
        ),
    ]


class SessionWait(Arguments, kw_only=True):
    name: Name
    exit: Annotated[bool, Meta(description="Until the program has ended.")] | UnsetType = UNSET
    output: Annotated[str, Meta(description="Until this text has been written.")] | UnsetType = (
        UNSET
    )
    screen: (
        Annotated[
            str,
            Meta(description="Until this text is on the screen (lines end without blanks)."),
        ]
        | UnsetType
    ) = UNSET
    port: (
        Annotated[int, Meta(description="Until something on this machine listens on the TCP port.")]
        | UnsetType
    ) = UNSET
    regex: (
        Annotated[
            bool,
            Meta(
                description=(
                    "true: output and screen are regular expressions (RE2 syntax, ^ and $ at "
                    "line ends)."
                )
            ),
        ]
        | UnsetType
    ) = UNSET
    after: (
        Annotated[
            str | int,
            Meta(description="With output: only what was written after this cursor."),
        ]
        | UnsetType
    ) = UNSET
    timeout_ms: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=MAX_WAIT_MS,
                description=f"Give up after so long; default 30000, at most {MAX_WAIT_MS}.",
            ),
        ]
        | UnsetType
    ) = UNSET


class SandboxExec(Arguments, kw_only=True):
    cmd: Argv
    env: Env | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    timeout_s: (
        Annotated[
            int,
            Meta(description="Seconds until it is ended with all that it started, 1 to 300."),
        ]
        | UnsetType
    ) = UNSET
    stdin: Annotated[str, Meta(description="Text for its standard input.")] | UnsetType = UNSET
    stdin_b64: Annotated[str, Meta(description="Bytes for it, as base64.")] | UnsetType = UNSET
    output_encoding: (
        Annotated[str, Meta(description="utf8 (default), or base64 for bytes.")] | UnsetType
    ) = UNSET
    max_bytes: MaxBytes | UnsetType = UNSET
    strip_ansi: StripAnsi | UnsetType = UNSET


T = TypeVar("T", bound=Arguments)


def parse(sent: Mapping[str, Any] | None, type: type[T]) -> T:
    """Arguments as a `type`; `ToolError` names the field that is wrong."""
    given = {name: value for name, value in (sent or {}).items() if value is not None}
    try:
        # Not strict: models write 5 as "5" now and then, and nothing else can be meant.
        return msgspec.convert(given, type, strict=False)
    except msgspec.ValidationError as error:
        raise invalid(explain(error)) from None


def schema(type: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments, with an object at its root."""
    _, found = msgspec.json.schema_components((type,), ref_template="#/$defs/{name}")
    root: dict[str, Any] = found.pop(type.__name__)
    root.pop("title", None)
    root.pop("description", None)
    properties = root["properties"]
    properties["sandbox_id"] = properties.pop("sandbox_id")  # last: it is hardly ever needed
    return {**root, "$defs": found} if found else root


def given(**fields: Any) -> dict[str, Any]:
    """A body of what was given."""
    return {name: value for name, value in fields.items() if value is not UNSET}
