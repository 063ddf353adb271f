"""`sandbox_exec`: one command, run to its end."""

from __future__ import annotations

from typing import Final

import pybase64
from msgspec import UNSET

from .arguments import DEFAULT_TEXT, SandboxExec, given
from .calls import Calls, Json
from .errors import invalid
from .text import plain, shortened

_STREAMS: Final = ("stdout", "stderr")


async def sandbox_exec(calls: Calls, sent: SandboxExec) -> Json:
    if sent.stdin is not UNSET and sent.stdin_b64 is not UNSET:
        raise invalid("stdin: cannot go with stdin_b64")
    stdin = sent.stdin_b64
    if sent.stdin is not UNSET:
        stdin = pybase64.b64encode(sent.stdin.encode("utf-8", "replace")).decode()
    path = sent.path
    if not path and calls.path is not None and not sent.sandbox:
        path = calls.path
    body = given(
        cmd=sent.cmd,
        env=sent.env,
        path=path,
        timeout_s=sent.timeout_s,
        stdin_b64=stdin,
        output_encoding=sent.output_encoding,
    )
    answer = await calls.named(sent.sandbox, "POST", "/exec", body)
    return _small(answer, sent)


def _small(answer: Json, sent: SandboxExec) -> Json:
    """Both streams within their bound; what says nothing is left out."""
    most = sent.max_bytes or DEFAULT_TEXT
    shown: Json = {"exit_code": answer["exit_code"]}
    for name in ("signaled", "timed_out"):
        if answer[name]:
            shown[name] = True
    if answer.get("signal"):
        shown["signal"] = answer["signal"]
    base64 = answer.get("output_encoding") == "base64"
    for name in _STREAMS:
        text = answer[name]
        if base64:
            text, left_out = text[: most // 4 * 4], max(0, len(text) - most)
        else:
            if sent.strip_ansi is not False:
                text = plain(text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")
            text, left_out = shortened(text, most)
        shown[name] = text
        if left_out or answer[f"{name}_truncated"]:
            shown[f"{name}_truncated"] = True
    if base64:
        shown["output_encoding"] = "base64"
    return shown
