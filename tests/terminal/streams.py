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
_SGR_PARAMS = """
0 1 2;3 4:3 7 22 31 42 91;104 38;5;200 48;2;1;2;3 38:2::9:8:7 58;2;1;2;3 38;5 49 39;49 8;9;53 999
4;38:5:3;1
"""
_SGR = st.sampled_from(["", *_SGR_PARAMS.split()]).map(lambda params: f"\x1b[{params}m")
_ODD_SEQUENCES = r"""
\e[!p \e[?4m \e[?6n \e[1;2A \e[5J \e[9K \e[>4;2m \e[<u \e[5\x20q \e[?5W \e[2\n;3H \e[1\e[m \e[1?m
\u009b2J \u0084 \u008d \u0085 \e]0;title\a \e]2;t\e\\ \e]8;;http://x\e\\ \e]52;c;aGk=\a \e]1;i\u009c
\eP1$r0m\e\\ \e_Gx\e\\ \e^pm\e\\ \eXsos\e\\ \ekname\e\\
\e[22;0t \e[22;1t \e[22;2t \e[23;0t \e[23;1t \e[23t
"""
_ODD = st.sampled_from(_ODD_SEQUENCES.replace(r"\e", r"\x1b").split()).map(
    lambda text: text.encode().decode("unicode_escape")
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

_VERTICAL = ("\n", "\x1bM", "\x1bD")
_COMMON = st.one_of(
    st.sampled_from(["a", "word ", "x" * 13, "漢字", "é", "│"]),
    # Not LF, IND and RI with the wrap pending: tmux keeps it, xterm does not.
    st.sampled_from(["\r\n"] * 3 + ["\r", "\b", "\t"] + [f"\x1b[3G{c}" for c in _VERTICAL]),
    st.tuples(_NUMBERS, st.sampled_from("@ABCDEFGJKPXST")).map(lambda at: "\x1b[{}{}".format(*at)),
    _PLACES,
    st.sampled_from(["\x1b[2;5r", "\x1b[r", "\x1b[1;3r", "\x1b7", "\x1b8"]),
    # Nor inserting then: tmux makes the room before it wraps.
    st.sampled_from(["\x1b[3G\x1b[4hab\x1b[4l", "\x1b(0", "\x1b(B"]),
    st.sampled_from(["", "0", "1", "31", "42", "38;5;99", "7"]).map(lambda n: f"\x1b[{n}m"),
)

common = st.lists(_COMMON, max_size=30).map("".join)
"""What terminals agree about, mostly."""
