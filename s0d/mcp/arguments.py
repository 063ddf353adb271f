"""What each tool takes: types, from which come both the checks and the schemas that a model reads.

The fields of `session_create`, `session_list`, `session_kill` and `sandbox_exec` are the named
sessions' surface's own; what they mean is checked there.  A `null` counts as absent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from s0d.model.parse import explain

from .errors import invalid

MAX_WAIT_MS: Final = 120_000
MAX_TEXT: Final = 100_000
DEFAULT_TEXT: Final = 8_000

# -- what several tools take ---------------------------------------------------------------------

SandboxId = Annotated[
    str, Meta(description="Which sandbox; leave it out for the default one, which is usual.")
]
Name = Annotated[str, Meta(description="The session's name, as in session_list.")]
Argv = Annotated[
    list[str],
    Meta(
        description='The program and its arguments, one string each: ["python3", "-m", '
        '"http.server"]. No shell reads it; for a shell command line use ["sh", "-c", "make; ls"].'
    ),
]
Env = Annotated[dict[str, str], Meta(description="Environment variables to set.")]
Path = Annotated[str, Meta(description="Working directory, an absolute path.")]
Cursor = Annotated[
    str | int, Meta(description="A cursor from an earlier answer: only what came after it counts.")
]
MaxBytes = Annotated[
    int, Meta(ge=1, le=MAX_TEXT, description=f"How much text at most; default {DEFAULT_TEXT}.")
]
StripAnsi = Annotated[
    bool,
    Meta(description="true (default): no escape sequences (colours, cursor). false: as written."),
]

# -- what one takes ------------------------------------------------------------------------------

NewName = Annotated[
    str, Meta(description='A name of your choice, ^[a-z][a-z0-9-]{0,31}$, e.g. "dev-server".')
]
Cols = Annotated[int, Meta(description="Terminal width, 1 to 512; default 80.")]
Rows = Annotated[int, Meta(description="Terminal height, 1 to 512; default 24.")]
Replace = Annotated[
    bool, Meta(description="Replace a session of this name that has ended. Never a live one.")
]
Limit = Annotated[
    int, Meta(ge=1, le=1000, description="How many at most, live ones first; default 30.")
]
KillSignal = Annotated[
    Literal["TERM", "KILL", "INT", "HUP"], Meta(description="What is sent first; default TERM.")
]
GraceMs = Annotated[
    int,
    Meta(description="Milliseconds until SIGKILL for what still lives, 0 to 60000; default 5000."),
]
Scrollback = Annotated[
    int, Meta(ge=0, le=1000, description="Lines that scrolled off the top, too; default 0.")
]
Stream = Annotated[
    Literal["stdout", "stderr", "pty"],
    Meta(
        description="Only this one. Only sessions without a terminal tell stdout and stderr apart."
    ),
]
Typed = Annotated[str, Meta(description=r'Text to type, exactly so. End a command line with "\n".')]
Base64 = Annotated[str, Meta(description="Bytes instead of text.")]
Eof = Annotated[bool, Meta(description="End of input after it, like Ctrl-D.")]
InputId = Annotated[
    str,
    Meta(
        description="An id of your choice. If the answer is lost, call again with the same id and "
        "the same content: it is not sent twice."
    ),
]


class Item(msgspec.Struct, omit_defaults=True):
    """What `s0d.wire.terminal.TextItem` is, without `null`."""

    text: str | UnsetType = UNSET
    paste: str | UnsetType = UNSET


Keys = Annotated[
    list[str | Item],
    Meta(
        description='Pressed in this order. A key by its name ("Enter", "Tab", "Escape", "BSpace", '
        '"Up", "Down", "Left", "Right", "Home", "End", "PPage", "NPage", "F1", "C-c" for Ctrl-C, '
        '"M-x" for Alt-x); any other string is text: ["ls -l", "Enter"]. {"text": "Enter"} types '
        'the word; {"paste": "..."} pastes.'
    ),
]
Exit = Annotated[bool, Meta(description="Until the program has ended.")]
Output = Annotated[str, Meta(description="Until this text has been written.")]
Screen = Annotated[
    str, Meta(description="Until this text is on the screen. Its lines end without blanks.")
]
Port = Annotated[int, Meta(description="Until something on this machine listens on this TCP port.")]
IsRegex = Annotated[
    bool,
    Meta(description="true: output and screen are regular expressions (RE2; ^ and $ at lines)."),
]
After = Annotated[
    str | int, Meta(description="With output: only what was written after this cursor.")
]
TimeoutMs = Annotated[
    int,
    Meta(
        ge=0,
        le=MAX_WAIT_MS,
        description=f"When to give up; default 30000, at most {MAX_WAIT_MS}.",
    ),
]
TimeoutS = Annotated[
    int,
    Meta(description="Seconds until it and all that it started are ended, 1 to 300; default 60."),
]
Stdin = Annotated[str, Meta(description="Text for its standard input.")]
StdinB64 = Annotated[str, Meta(description="Bytes for its standard input, as base64.")]
Encoding = Annotated[
    Literal["utf8", "base64"], Meta(description="How the output is given; default utf8.")
]

# -- the tools' arguments ------------------------------------------------------------------------


class Arguments(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """Those of every tool."""

    sandbox_id: SandboxId | UnsetType = UNSET

    @property
    def sandbox(self) -> str | None:
        return self.sandbox_id or None


class SessionCreate(Arguments, kw_only=True):
    name: NewName
    cmd: Argv
    env: Env | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    cols: Cols | UnsetType = UNSET
    rows: Rows | UnsetType = UNSET
    replace: Replace | UnsetType = UNSET


class SessionList(Arguments, kw_only=True):
    limit: Limit | UnsetType = UNSET


class SessionKill(Arguments, kw_only=True):
    name: Name
    signal: KillSignal | UnsetType = UNSET
    grace_ms: GraceMs | UnsetType = UNSET


class SessionScreen(Arguments, kw_only=True):
    name: Name
    scrollback: Scrollback | UnsetType = UNSET


class SessionOutput(Arguments, kw_only=True):
    name: Name
    after: Cursor | UnsetType = UNSET
    max_bytes: MaxBytes | UnsetType = UNSET
    strip_ansi: StripAnsi | UnsetType = UNSET
    stream: Stream | UnsetType = UNSET


class SessionInput(Arguments, kw_only=True):
    name: Name
    text: Typed | UnsetType = UNSET
    data_base64: Base64 | UnsetType = UNSET
    eof: Eof | UnsetType = UNSET
    input_id: InputId | UnsetType = UNSET


class SessionKeys(Arguments, kw_only=True):
    name: Name
    keys: Keys


class SessionWait(Arguments, kw_only=True):
    name: Name
    exit: Exit | UnsetType = UNSET
    output: Output | UnsetType = UNSET
    screen: Screen | UnsetType = UNSET
    port: Port | UnsetType = UNSET
    regex: IsRegex | UnsetType = UNSET
    after: After | UnsetType = UNSET
    timeout_ms: TimeoutMs | UnsetType = UNSET


class SandboxExec(Arguments, kw_only=True):
    cmd: Argv
    env: Env | UnsetType = UNSET
    path: Path | UnsetType = UNSET
    timeout_s: TimeoutS | UnsetType = UNSET
    stdin: Stdin | UnsetType = UNSET
    stdin_b64: StdinB64 | UnsetType = UNSET
    output_encoding: Encoding | UnsetType = UNSET
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
    except UnicodeEncodeError:
        raise invalid("the arguments must be valid Unicode") from None


def schema(type: type[Arguments]) -> dict[str, Any]:
    """The JSON schema of a tool's arguments: one object, without references, which not every
    client follows."""
    _, found = msgspec.json.schema_components((type,), ref_template="{name}")
    root: dict[str, Any] = _inlined(found[type.__name__], found)
    properties = root["properties"]
    properties["sandbox_id"] = properties.pop("sandbox_id")  # last: it is hardly ever needed
    return root


def _inlined(part: Any, found: Mapping[str, Any]) -> Any:
    if isinstance(part, list):
        return [_inlined(each, found) for each in part]
    if not isinstance(part, dict):
        return part
    if "$ref" in part:
        return _inlined(found[part["$ref"]], found)
    if "properties" in part:  # a type's name and docstring are for whoever reads the code
        part = {name: value for name, value in part.items() if name not in ("title", "description")}
    if "enum" in part:
        part = {**part, "type": "string"}
    return {name: _inlined(value, found) for name, value in part.items()}


def given(**fields: Any) -> dict[str, Any]:
    """A body of what was given."""
    return {name: value for name, value in fields.items() if value is not UNSET}
