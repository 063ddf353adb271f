"""Keys, with the value that xterm's control sequences page or tmux gives for each."""

from __future__ import annotations

import pytest

from s0d.model.errors import InvalidRequest
from s0d.supervisor.keys import encode_key, encode_paste
from s0d.terminal import Modes

NORMAL = Modes()
APPLICATION = Modes(application_cursor=True)


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("ls -l", "ls -l"),
        ("", ""),
        ("é漢🙂", "é漢🙂"),
        ("Enter", "\r"),
        ("Tab", "\t"),
        ("Escape", "\x1b"),
        ("Space", " "),
        ("BSpace", "\x7f"),
        ("C-BSpace", "\b"),
        ("BTab", "\x1b[Z"),
        ("S-Tab", "\x1b[Z"),
        ("Up", "\x1b[A"),
        ("Left", "\x1b[D"),
        ("Home", "\x1b[H"),
        ("End", "\x1b[F"),
        ("S-Up", "\x1b[1;2A"),
        ("M-Left", "\x1b[1;3D"),
        ("C-Right", "\x1b[1;5C"),
        ("C-M-S-End", "\x1b[1;8F"),
        ("IC", "\x1b[2~"),
        ("Delete", "\x1b[3~"),
        ("PgUp", "\x1b[5~"),
        ("C-NPage", "\x1b[6;5~"),
        ("F1", "\x1bOP"),
        ("F4", "\x1bOS"),
        ("S-F4", "\x1b[1;2S"),
        ("F5", "\x1b[15~"),
        ("F6", "\x1b[17~"),
        ("F10", "\x1b[21~"),
        ("F12", "\x1b[24~"),
        ("C-F12", "\x1b[24;5~"),
        ("C-a", "\x01"),
        ("C-C", "\x03"),
        ("C-Space", "\0"),
        ("C-@", "\0"),
        ("C-[", "\x1b"),
        ("C-\\", "\x1c"),
        ("C-_", "\x1f"),
        ("C-?", "\x7f"),
        ("M-x", "\x1bx"),
        ("M-X", "\x1bX"),
        ("S-x", "X"),
        ("C-M-a", "\x1b\x01"),
        ("M-Enter", "\x1b\r"),
        ("M-é", "\x1bé"),
        ("S-expression", "S-expression"),  # no key: the text itself
        ("C-", "C-"),
        ("M-C-", "M-C-"),
        ("Enterprise", "Enterprise"),
    ],
)
def test_a_key_in_the_normal_modes(key: str, sent: str) -> None:
    assert encode_key(key, NORMAL) == sent


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("Up", "\x1bOA"),
        ("Home", "\x1bOH"),
        ("C-Up", "\x1b[1;5A"),
        ("F1", "\x1bOP"),
        ("F5", "\x1b[15~"),
    ],
)
def test_a_key_in_application_cursor_mode(key: str, sent: str) -> None:
    assert encode_key(key, APPLICATION) == sent


def test_enter_in_newline_mode() -> None:
    assert encode_key("Enter", Modes(newline=True)) == "\r\n"


@pytest.mark.parametrize("key", ["C-1", "C-é", "C-M-.", "C-🙂"])
def test_what_no_terminal_can_send_is_refused(key: str) -> None:
    with pytest.raises(InvalidRequest, match="keys: no terminal can send"):
        encode_key(key, NORMAL)


def test_a_paste() -> None:
    assert encode_paste("a\nb\r\nc\rd", NORMAL) == "a\rb\rc\rd"
    bracketed = Modes(bracketed_paste=True)
    assert encode_paste("a\nb", bracketed) == "\x1b[200~a\rb\x1b[201~"


def test_a_paste_cannot_end_its_own_brackets() -> None:
    bracketed = Modes(bracketed_paste=True)
    hostile = "a\x1b[20\x1b[201~1~rm -rf\n"
    assert encode_paste(hostile, bracketed) == "\x1b[200~arm -rf\r\x1b[201~"
