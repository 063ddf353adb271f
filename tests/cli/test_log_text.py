from __future__ import annotations

import pytest

from s0d.cli.log_text import readable


@pytest.mark.parametrize(
    ("text", "plain", "coloured"),
    [
        ("just text", "just text", "just text"),
        ("tab\there", "tab\there", "tab\there"),
        ("\x1b[1;31mred\x1b[0m.", "red.", "\x1b[1;31mred\x1b[0m.\x1b[0m"),
        ("\x1b[2J\x1b[5;7Hgone", "gone", "gone"),
        ("\x1b]0;title\x07text", "text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link", "link"),
        ("\x1bPq#0\x1b\\after", "after", "after"),
        ("10%\r99%\r100%\r", "100%", "100%"),
        ("\x07 \x08 \x00", "\\x07 \\x08 \\x00", "\\x07 \\x08 \\x00"),
        ("c1 \x9b31m", "c1 \\x9b31m", "c1 \\x9b31m"),
        ("é 漢 \\xff", "é 漢 \\xff", "é 漢 \\xff"),
    ],
)  # fmt: skip
def test_a_line_for_a_person(text: str, plain: str, coloured: str) -> None:
    assert readable(text, colour=False) == plain
    assert readable(text, colour=True) == coloured
