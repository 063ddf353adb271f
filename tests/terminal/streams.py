"""Strategies for what programs, and fuzzers, write to a terminal."""

from __future__ import annotations

from hypothesis import strategies as st

_NUMBERS = st.sampled_from(["", "0", "1", "2", "3", "4", "5", "7", "12", "40", "999", "70000"])
_PARAMS = st.lists(_NUMBERS, max_size=3).map(";".join)
_TEXT = st.sampled_from(
    [
        *("a", "b", "hello", "x" * 25, " ", "  trailing  ", "~`#qx", "0123456789"),
        *(
            "é",
            "e\u0301",
            "字",
            "漢字テスト",
            "👨\u200d👩\u200d👧",
            "\u200d",
            "\u0301",
            "❤\ufe0f",
            "🔥",
        ),
        *("☝🏽", "🇩🇪", "│─┼", "\xad", "\ufffd", "\u2028"),
    ]
)
_CONTROLS = st.sampled_from(list("\r\n\b\t\v\f\x0e\x0f\x07\x00\x18\x1a\x7f") + ["\r\n"] * 6)
_ESCAPES = st.sampled_from(
    [
        f"\x1b{tail}"
        for tail in [*"78=>DEHMNOcno", "#8", "(0", "(B", ")0", "*A", "+0", "%G", "(", "x"]
    ]
)
_FUNCTIONS = st.tuples(_PARAMS, st.sampled_from("@ABCDEFGHIJKLMPSTXZ^`abdefgrsu")).map(
    lambda pair: f"\x1b[{pair[0]}{pair[1]}"
)
_PLACES = st.tuples(st.integers(1, 8), st.integers(1, 22)).map(lambda at: "\x1b[{};{}H".format(*at))
_MODES = st.tuples(
    st.sampled_from(
        ["4", "20", *(f"?{mode}" for mode in (1, 3, 5, 6, 7, 12, 25, 45, 47, 66, 1000, 1003, 1004))]
        + [f"?{mode}" for mode in (1006, 1007, 1047, 1048, 1049, 2004, "1;6", "1049;7", "r")]
    ),
    st.sampled_from("hl"),
).map(lambda pair: f"\x1b[{pair[0]}{pair[1]}")
_SGR = st.sampled_from(
    [
        "",
        "0",
        "1",
        "2;3",
        "4:3",
        "7",
        "22",
        "31",
        "42",
        "91;104",
        "38;5;200",
        "48;2;1;2;3",
        "38:2::9:8:7",
    ]
    + ["58;2;1;2;3", "38;5", "49", "39;49", "8;9;53", "999", "4;38:5:3;1"]
).map(lambda params: f"\x1b[{params}m")
_ODD = st.sampled_from(
    ["\x1b[!p", "\x1b[?4m", "\x1b[?6n", "\x1b[1;2A", "\x1b[5J", "\x1b[9K", "\x1b[>4;2m", "\x1b[<u"]
    + [
        "\x1b[5 q",
        "\x1b[?5W",
        "\x1b[2\n;3H",
        "\x1b[1\x1b[m",
        "\x1b[1?m",
        "\x9b2J",
        "\x84",
        "\x8d",
        "\x85",
    ]
    + [
        "\x1b]0;title\x07",
        "\x1b]2;t\x1b\\",
        "\x1b]8;;http://x\x1b\\",
        "\x1b]52;c;aGk=\x07",
        "\x1b]1;i\x9c",
    ]
    + ["\x1bP1$r0m\x1b\\", "\x1b_Gx\x1b\\", "\x1b^pm\x1b\\", "\x1bXsos\x1b\\", "\x1bkname\x1b\\"]
)

fragments = st.one_of(
    _TEXT, _TEXT, _CONTROLS, _ESCAPES, _FUNCTIONS, _PLACES, _MODES, _SGR, _SGR, _ODD
).map(str.encode) | st.binary(max_size=4)
"""A piece of output: text, a control, a sequence, or bytes without a meaning."""

streams = st.lists(fragments, max_size=40).map(b"".join)
"""Output of any kind."""

lines = st.lists(
    st.one_of(
        _TEXT.map(str.encode),
        _SGR.map(str.encode),
        st.sampled_from([b"\r\n", b"\r\n", b"\n", b"\x1b[K", b"\t", b"\b", b"\r", b"\xff"]),
    ),
    max_size=60,
).map(b"".join)
"""Output that only ever goes down."""
