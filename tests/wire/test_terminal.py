"""The bodies of `keys` and `wait`: what they mean, and what is refused with which words."""

from __future__ import annotations

import json
from typing import Any

import pytest

from s0d.model.errors import InvalidRequest
from s0d.model.session import Phase
from s0d.wire.requests import decode
from s0d.wire.terminal import (
    MAX_KEYS,
    KeysBody,
    RegexItem,
    TextItem,
    WaitBody,
    decode_keys,
)


def keys(value: Any) -> KeysBody:
    body = decode_keys(value if isinstance(value, bytes) else json.dumps(value).encode())
    body.check()
    return body


def wait(value: Any) -> WaitBody:
    body = decode(json.dumps(value).encode(), WaitBody)
    body.check()
    return body


def test_keys_in_each_form() -> None:
    assert keys(["ls", "Enter"]).items() == ["ls", "Enter"]
    assert keys({"keys": ["C-c"], "input_id": "i"}).input_id == "i"
    assert keys({"paste": "a", "unknown": 1}).items() == [TextItem(paste="a")]
    assert keys([{"text": "Enter"}, {"paste": ""}]).items() == [
        TextItem(text="Enter"),
        TextItem(paste=""),
    ]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([], "keys: must be from 1"),
        ({}, "keys: must be from 1"),
        (["x"] * (MAX_KEYS + 1), "keys: must be from 1"),
        ([{}], r"keys\[0\]: needs either text or paste"),
        (["a", {"text": "a", "paste": "b"}], r"keys\[1\]: needs either text or paste"),
        ({"keys": ["a"], "input_id": " "}, "input_id: must not be empty"),
        ({"keys": ["a"], "input_id": "x" * 256}, "input_id: at most 255 bytes"),
        ([1], "keys|Expected|str"),
        (b'["a"],"x":1', "malformed"),
        (b"", "truncated"),
    ],
)
def test_keys_that_are_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        keys(value)


def test_a_wait_in_each_form() -> None:
    assert wait({"for": {"phase": "exited"}}).wanted.phases == [Phase.EXITED]
    assert wait({"for": {"phase": ["exited", "failed"]}}).wanted.phases == [
        Phase.EXITED,
        Phase.FAILED,
    ]
    assert wait({"for": {"output": "x", "stream": "pty", "after": 0}}).wanted.output == "x"
    assert wait({"for": {"screen": {"regex": "x"}}}).wanted.screen == RegexItem("x")
    assert wait({"for": {"exit": True, "port": 80}, "timeout_ms": 0}).seconds == 0.25
    assert wait({"for": {"exit": True}, "timeout_ms": 1500}).seconds == 1.5
    assert wait({"for": {"exit": True}}).seconds == 30


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({}, "for"),
        ({"for": {}}, "for: needs one of"),
        ({"for": {"fase": "exited"}}, "for: needs one of"),
        ({"for": {"exit": False, "phase": []}}, "for: needs one of"),
        ({"for": {"phase": "nope"}}, "for.phase"),
        ({"for": {"exit": True, "stream": "pty"}}, "for: stream and after go with output"),
        ({"for": {"output": "x", "stream": "tty"}}, "for.stream: must be one of"),
        ({"for": {"output": "x", "after": -1}}, "for.after"),
        ({"for": {"port": 65536}}, "for.port: must be from 1 to 65535"),
        ({"for": {"exit": True}, "timeout_ms": -1}, "timeout_ms: must be from 0"),
        ({"for": {"exit": True}, "timeout_ms": 2**31}, "timeout_ms: must be from 0"),
    ],
)
def test_a_wait_that_is_refused(value: Any, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        wait(value)
