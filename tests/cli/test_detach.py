from __future__ import annotations

import pytest

from s0d.cli.detach import DEFAULT_KEYS, DetachKeys, describe
from s0d.cli.errors import UsageError


def typed(keys: DetachKeys, *pieces: bytes) -> tuple[bytes, bool]:
    passed = b""
    for piece in pieces:
        some, detach = keys.feed(piece)
        passed += some
        if detach:
            return passed, True
    return passed, False


@pytest.mark.parametrize(
    ("pieces", "passed", "detach"),
    [
        ([b"abc"], b"abc", False),
        ([b"\x1dd"], b"", True),
        ([b"\x1d", b"d"], b"", True),
        ([b"ls\r\x1ddrest"], b"ls\r", True),
        ([b"\x1d"], b"", False),
        ([b"\x1d", b"x"], b"\x1dx", False),
        ([b"\x1d\x1dx"], b"\x1d\x1dx", False),
        ([b"\x1d\x1dd"], b"\x1d", True),
        ([b"d\x1d", b"\x1d", b"d"], b"d\x1d", True),
        ([b"\x1b[93;5ud"], b"", True),  # as kitty's protocol has Ctrl-]
        ([b"\x1b[27;5;93~", b"d"], b"", True),  # and xterm's modifyOtherKeys
        ([b"\x1b", b"[A\x1b[93;6u"], b"\x1b[A\x1b[93;6u", False),
    ],
)
def test_the_default(pieces: list[bytes], passed: bytes, detach: bool) -> None:
    assert typed(DetachKeys(DEFAULT_KEYS), *pieces) == (passed, detach)


@pytest.mark.parametrize(
    ("text", "keys", "words"),
    [
        ("C-] d", b"\x1dd", "Ctrl-] d"),
        ("^p ^q", b"\x10\x11", "Ctrl-p Ctrl-q"),
        ("C-a", b"\x01", "Ctrl-a"),
        ("C-\\", b"\x1c", "Ctrl-\\"),
        ("Escape q", b"\x1bq", "Escape q"),
        ("~ .", b"~.", "~ ."),
        ("^", b"^", "^"),
    ],
)
def test_others(text: str, keys: bytes, words: str) -> None:
    assert describe(text) == words
    assert typed(DetachKeys(text), b"a" + keys + b"b") == (b"a", True)
    for cut in range(len(keys)):
        assert typed(DetachKeys(text), keys[:cut], keys[cut:]) == (b"", True)


@pytest.mark.parametrize("text", ["", "none"])
def test_none(text: str) -> None:
    assert typed(DetachKeys(text), b"\x1dd") == (b"\x1dd", False)


@pytest.mark.parametrize("text", ["C-", "C-xx", "dd", "C-] detach", "C-1", "\x1b"])
def test_nonsense(text: str) -> None:
    with pytest.raises(UsageError, match="as in 'C-] d'"):
        DetachKeys(text)
