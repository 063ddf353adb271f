r"""Control functions, one row each: what is written, and the screen that the standards promise.

A screen is given as its rows without the blanks at the end; ``at`` is the cursor (row, column) from
0. The sources: "ECMA-48" (5th edition, section of the function), "DEC STD 070", "ctlseqs" (XTerm
Control Sequences), and, where they leave it open, the terminal whose way was taken.
"""

from __future__ import annotations

import pytest

from s0d.terminal import Run, Screen

ROWS, COLS = 5, 10
FULL = "1\r\n2\r\n3\r\n4\r\n5"


def shown(data: str | bytes, rows: int = ROWS, cols: int = COLS) -> Screen:
    screen = Screen(rows, cols)
    screen.feed(data.encode() if isinstance(data, str) else data)
    return screen


def rows_of(screen: Screen) -> list[str]:
    """The rows without those at the end that are empty."""
    lines = screen.text().split("\n")[:-1]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def place(screen: Screen) -> tuple[int, int]:
    cursor = screen.snapshot().cursor
    return cursor.row, cursor.col


CASES = {
    # Moving: ECMA-48 8.3.16 to 8.3.22 (CHA, CHT, CUB, CUD, CUF, CUP, CUU), 8.3.158 (VPA)
    "CUP": ("\x1b[3;4Hx", ["", "", "   x"], (2, 4)),
    "CUP without parameters is home": ("ab\x1b[Hx", ["xb"], (0, 1)),
    "CUP with one parameter is column 1": ("ab\x1b[2Hx", ["ab", "x"], (1, 1)),
    "CUP of zero is one": ("\x1b[0;0Hx", ["x"], (0, 1)),
    "CUP beyond the screen stops at its edge": (
        "\x1b[99;99Hx",
        ["", "", "", "", " " * 9 + "x"],
        (4, 9),
    ),
    "CUP with a surplus parameter": ("\x1b[2;3;4Hx", ["", "  x"], (1, 3)),
    "HVP": ("\x1b[2;2fx", ["", " x"], (1, 2)),
    "CUU, CUD, CUF, CUB": ("\x1b[3;5H\x1b[A\x1b[2C\x1b[B\x1b[3Dx", ["", "", "   x"], (2, 4)),
    "CUU with a surplus parameter (pyte raises)": ("\x1b[3;1H\x1b[1;2Ax", ["", "x"], (1, 1)),
    "CNL and CPL go to column 1": ("abc\x1b[2Ex\x1b[Fy", ["abc", "y", "x"], (1, 1)),
    "CHA, HPA, HPR, VPA, VPR": (
        "\x1b[4Ga\x1b[2`b\x1b[2ac\x1b[3dd\x1b[ee",
        [" b ac", "", "     d", "      e"],
        (3, 7),
    ),
    "BS stops at column 0": ("a\b\b\bx", ["x"], (0, 1)),
    "CR, LF, VT, FF": ("a\rb\nc\vd\fe", ["b", " c", "  d", "   e"], (3, 4)),
    "NEL is CR and LF (ctlseqs)": ("ab\x1bEx", ["ab", "x"], (1, 1)),
    "IND keeps the column (ctlseqs)": ("ab\x1bDx", ["ab", "  x"], (1, 3)),
    "RI": ("\r\nab\x1bMx", ["  x", "ab"], (0, 3)),
    # Tab stops: ECMA-48 8.3.60 (HT), 8.3.7 (CBT), 8.3.154 (TBC)
    "HT every eight columns": ("a\tx", ["a       x"], (0, 9)),
    "HT without a stop goes to the last column": ("\t\t\tx", [" " * 9 + "x"], (0, 9)),
    "HTS and TBC 3": ("\x1b[3g\x1b[4G\x1bH\r\tx\ty", ["   x     y"], (0, 9)),
    "TBC 0 clears the stop here": ("\x1b[9G\x1b[g\r\tx", [" " * 9 + "x"], (0, 9)),
    "CHT and CBT": ("\x1b[3g\x1b[3G\x1bH\x1b[6G\x1bH\r\x1b[2Ix\x1b[2Zy", ["  y  x"], (0, 3)),
    "DECST8C (DEC STD 070)": ("\x1b[3g\x1b[?5W\tx", [" " * 8 + "x"], (0, 9)),
    # Autowrap: DEC STD 070 (DECAWM); the wrap waits for the next character
    "the last column fills without wrapping": ("0123456789", ["0123456789"], (0, 9)),
    "the next character wraps": ("0123456789x", ["0123456789", "x"], (1, 1)),
    "CR after the last column stays in the row": ("0123456789\rx", ["x123456789"], (0, 1)),
    "CUB after the last column counts from it": ("0123456789\x1b[Dx", ["01234567x9"], (0, 9)),
    "EL with the wrap pending erases nothing (VTE, tmux)": (
        "0123456789\x1b[Kx",
        ["0123456789", "x"],
        (1, 1),
    ),
    "HT keeps the wrap pending (xterm, tmux)": ("0123456789\tx", ["0123456789", "x"], (1, 1)),
    "without DECAWM the last column is overwritten": (
        "\x1b[?7l0123456789abc",
        ["012345678c"],
        (0, 9),
    ),
    "DECAWM on again": ("\x1b[?7l0123456789\x1b[?7hab", ["012345678a", "b"], (1, 1)),
    "reverse wraparound (ctlseqs, mode 45)": ("\x1b[?45hab\r\n\bx", ["ab       x"], (0, 9)),
    # Erasing: ECMA-48 8.3.39 (ED), 8.3.41 (EL), 8.3.38 (ECH)
    "EL 0": ("abcdef\x1b[4G\x1b[K", ["abc"], (0, 3)),
    "EL 1 includes the cursor": ("abcdef\x1b[4G\x1b[1K", ["    ef"], (0, 3)),
    "EL 2": ("abcdef\x1b[4G\x1b[2K", [], (0, 3)),
    "EL 9 is nothing (pyte raises)": ("abc\x1b[9K", ["abc"], (0, 3)),
    "ED 0": (FULL + "\x1b[3;1H\x1b[J", ["1", "2"], (2, 0)),
    "ED 1": (FULL + "\x1b[3;1H\x1b[1J", ["", "", "", "4", "5"], (2, 0)),
    "ED 2 leaves the cursor": (FULL + "\x1b[3;1H\x1b[2J", [], (2, 0)),
    "ED 5 is nothing (pyte raises)": ("abc\x1b[5J", ["abc"], (0, 3)),
    "ECH": ("abcdef\x1b[2G\x1b[3X", ["a   ef"], (0, 1)),
    "DECSED and DECSEL without protection": ("ab\r\ncd\x1b[?2K\x1b[H\x1b[?1J", [" b"], (0, 0)),
    # Editing: ECMA-48 8.3.64 (ICH), 8.3.26 (DCH), 8.3.67 (IL), 8.3.32 (DL), 8.3.103 (REP)
    "ICH": ("abcdef\x1b[3G\x1b[2@", ["ab  cdef"], (0, 2)),
    "ICH pushes out at the right": ("0123456789\x1b[1G\x1b[3@", ["   0123456"], (0, 0)),
    "DCH": ("abcdef\x1b[2G\x1b[3P", ["aef"], (0, 1)),
    "IL": (FULL + "\x1b[2;2H\x1b[2L", ["1", "", "", "2", "3"], (1, 0)),
    "DL": (FULL + "\x1b[2;2H\x1b[2M", ["1", "4", "5"], (1, 0)),
    "REP": ("ab\x1b[3b", ["abbbb"], (0, 5)),
    "REP wraps": ("ab\x1b[10b", ["a" + "b" * 9, "bb"], (1, 2)),
    "REP after a control is nothing (ECMA-48: undefined; tmux)": ("ab\r\n\x1b[3b", ["ab"], (1, 0)),
    "IRM": ("abc\r\x1b[4hxy\x1b[4lz", ["xyzbc"], (0, 3)),
    "LNM": ("\x1b[20hab\nc", ["ab", "c"], (1, 1)),
    # Scrolling: DEC STD 070 (DECSTBM, DECOM), ECMA-48 8.3.113 (SD), 8.3.147 (SU)
    "LF at the bottom scrolls": (FULL + "\r\n6", ["2", "3", "4", "5", "6"], (4, 1)),
    "DECSTBM homes the cursor": ("ab\x1b[2;4r", ["ab"], (0, 0)),
    "CSI r alone homes it too": ("\x1b[2;4r\x1b[3;3H\x1b[rx", ["x"], (0, 1)),
    "DECSTBM 1;1 is ignored (pyte raises)": ("ab\x1b[1;1rx", ["abx"], (0, 3)),
    "DECSTBM with the bottom before the top is ignored": ("ab\x1b[4;2rx", ["abx"], (0, 3)),
    "the region scrolls, the rest stays": (
        FULL + "\x1b[2;4r\x1b[4;1H\n\rx",
        ["1", "3", "4", "x", "5"],
        (3, 1),
    ),
    "LF below the region does not scroll": (
        FULL + "\x1b[2;3r\x1b[5;1H\nx",
        ["1", "2", "3", "4", "x"],
        (4, 1),
    ),
    "RI at the top margin": (FULL + "\x1b[2;4r\x1b[2;1H\x1bMx", ["1", "x", "2", "3", "5"], (1, 1)),
    "CUU stops at the top margin": ("\x1b[2;4r\x1b[3;1H\x1b[9Ax", ["", "x"], (1, 1)),
    "CUU from above the margin goes to the edge": ("\x1b[3;4r\x1b[2;1H\x1b[9Ax", ["x"], (0, 1)),
    "CUD stops at the bottom margin": ("\x1b[2;4r\x1b[9Bx", ["", "", "", "x"], (3, 1)),
    "CUD from below the margin goes to the edge": (
        "\x1b[1;2r\x1b[4;1H\x1b[9Bx",
        ["", "", "", "", "x"],
        (4, 1),
    ),
    "SU": (FULL + "\x1b[2S", ["3", "4", "5"], (4, 1)),
    "SU in a region": (FULL + "\x1b[2;4r\x1b[S", ["1", "3", "4", "", "5"], (0, 0)),
    "SD": (FULL + "\x1b[2T", ["", "", "1", "2", "3"], (4, 1)),
    "SD with five parameters is mouse tracking": (
        FULL + "\x1b[1;1;1;1;1T",
        ["1", "2", "3", "4", "5"],
        (4, 1),
    ),
    "DECOM: rows count from the margin": ("\x1b[2;4r\x1b[?6hx\x1b[2;2Hy", ["", "x", " y"], (2, 2)),
    "DECOM: the region cannot be left": ("\x1b[2;4r\x1b[?6h\x1b[9;1Hx", ["", "", "", "x"], (3, 1)),
    "DECOM without margins (pyte raises)": ("\x1b[?6h\x1b[3dx", ["", "", "x"], (2, 1)),
    "DECOM off homes": ("\x1b[2;4r\x1b[?6h\x1b[?6lx", ["x"], (0, 1)),
    "IL outside the region is nothing": (
        FULL + "\x1b[2;3r\x1b[5;1H\x1b[L",
        ["1", "2", "3", "4", "5"],
        (4, 0),
    ),
    # Saving: DEC STD 070 (DECSC, DECRC); ctlseqs (SCOSC, SCORC, 1048)
    "DECSC and DECRC": ("ab\x1b7\x1b[4;4H\x1b8x", ["abx"], (0, 3)),
    "DECRC can be had again": ("ab\x1b7\r\n\x1b8\r\n\x1b8x", ["abx"], (0, 3)),
    "DECRC with nothing saved is home": ("ab\r\n\x1b8x", ["xb"], (0, 1)),
    "SCOSC and SCORC": ("ab\x1b[s\x1b[4;4H\x1b[ux", ["abx"], (0, 3)),
    "mode 1048": ("ab\x1b[?1048h\r\n\x1b[?1048lx", ["abx"], (0, 3)),
    "DECRC restores the pending wrap": ("0123456789\x1b7\x1b[H\x1b8x", ["0123456789", "x"], (1, 1)),
    "DECRC restores the character set": ("\x1b(0\x1b7\x1b(B\x1b8q", ["─"], (0, 1)),
    # Alternate screens: ctlseqs, modes 47, 1047, 1049
    "47 shows another screen": ("ab\x1b[?47hc", ["  c"], (0, 3)),
    "47 and back": ("ab\x1b[?47hc\x1b[?47ld", ["ab d"], (0, 4)),
    "47 keeps what was there": ("\x1b[?47hab\x1b[?47l\x1b[?47h", ["ab"], (0, 2)),
    "1047 clears on leaving": ("\x1b[?1047hab\x1b[?1047l\x1b[?47h", [], (0, 2)),
    "1049 clears on entering": ("\x1b[?47hab\x1b[?47l\x1b[?1049h", [], (0, 2)),
    "1049 brings the cursor back": ("ab\x1b[?1049h\x1b[4;4Hx\x1b[?1049lc", ["abc"], (0, 3)),
    "each screen has its own saved cursor": (
        "ab\x1b7\x1b[?47h\x1b[3;3H\x1b7\x1b[?47l\x1b8c",
        ["abc"],
        (0, 3),
    ),
    # Resets
    "RIS": ("ab\x1b[2;4r\x1b[?6h\x1b(0\x1b[1m\x1b[?25l\x1bcq", ["q"], (0, 1)),
    "DECSTR keeps text and cursor": ("ab\x1b[4h\x1b(0\x1b[!pq", ["abq"], (0, 3)),
    "DECALN": ("\x1b[2;3r\x1b#8", ["E" * 10] * 5, (0, 0)),
    # Character sets: ECMA-35, VT220 (DEC Special Graphics), ctlseqs
    "line drawing in G0": ("\x1b(0lqk\x1b(Bx", ["┌─┐x"], (0, 4)),
    "line drawing in G1 by SO and SI": ("\x1b)0\x0eqx\x0fqx", ["─│qx"], (0, 4)),
    "SS2 is for one character": ("\x1b*0\x1bNqq", ["─q"], (0, 2)),
    "LS2 and LS3": ("\x1b*0\x1b+A\x1bnq\x1bo#\x0f#", ["─£#"], (0, 3)),
    "a designation that is unknown is ASCII": ("\x1b(0\x1b(<q", ["q"], (0, 1)),
    "UTF-8 selection is swallowed": ("\x1b%Gé\x1b%@é", ["éé"], (0, 2)),
    # Wide, combining, joined (widths of wcwidth; joining as in tmux)
    "wide characters take two columns": ("漢字x", ["漢字x"], (0, 5)),
    "a wide one that does not fit wraps": ("012345678漢", ["012345678", "漢"], (1, 2)),
    "writing on the right half blanks the left": ("漢\x1b[2Gx", [" x"], (0, 2)),
    "writing on the left half blanks the right": ("漢字\x1b[1Gx", ["x 字"], (0, 1)),
    "erasing half of it blanks the other": ("漢字\x1b[2G\x1b[X", ["  字"], (0, 1)),
    "deleting half of it": ("漢字x\x1b[2G\x1b[P", [" 字x"], (0, 1)),
    "inserting in the middle of it": ("漢x\x1b[2G\x1b[@", ["   x"], (0, 1)),
    "pushing half of it out": ("01234567漢\x1b[1G\x1b[@", [" 01234567"], (0, 0)),
    "a wide one over two halves": ("漢字\x1b[2G語", [" 語"], (0, 3)),
    "a combining mark joins the character before": ("e\u0301x", ["e\u0301x"], (0, 2)),
    "a mark on the last column": ("012345678e\u0301x", ["012345678e\u0301", "x"], (1, 1)),
    "a mark with nothing before it is dropped": ("\u0301x", ["x"], (0, 1)),
    "a mark on a wide character": ("漢\u0301x", ["漢\u0301x"], (0, 3)),
    "emoji": ("🔥x", ["🔥x"], (0, 3)),
    "a variation selector does not widen, and drops nothing": ("❤\ufe0fx", ["❤\ufe0fx"], (0, 2)),
    "zero-width joiner": ("👨\u200d👩\u200d👧x", ["👨\u200d👩\u200d👧x"], (0, 3)),
    "what joins leaves both halves whole": ("👨\u200d\b👧", ["👨\u200d👧"], (0, 1)),
    "also where it is narrow": ("漢\u200d\b│", ["漢\u200d│"], (0, 1)),
    "a joiner after ASCII joins nothing": ("a\u200dbx", ["a\u200dbx"], (0, 3)),
    "nor does it join what is not ASCII": ("a\u200déx", ["a\u200déx"], (0, 3)),
    # Strings: ECMA-48 5.6, 8.3.27 (DCS), 8.3.89 (OSC), 8.3.2 (APC), 8.3.94 (PM), 8.3.128 (SOS)
    "DCS": ("a\x1bP1$r0m\x1b\\b", ["ab"], (0, 2)),
    "sixel": ('a\x1bPq"1;1;2;2#0;2;0;0;0#0~~$-\x1b\\b', ["ab"], (0, 2)),
    "APC": ("a\x1b_Gf=24;AAAA\x1b\\b", ["ab"], (0, 2)),
    "PM": ("a\x1b^text\x1b\\b", ["ab"], (0, 2)),
    "SOS": ("a\x1bXtext\x1b\\b", ["ab"], (0, 2)),
    "screen's title": ("a\x1bkname\x1b\\b", ["ab"], (0, 2)),
    "OSC 8 links show their text": (
        "\x1b]8;;http://x/\x1b\\link\x1b]8;;\x1b\\x",
        ["linkx"],
        (0, 5),
    ),
    "OSC ended by C1 ST": ("\x1b]0;t\x9cx", ["x"], (0, 1)),
    "OSC ended by another sequence": ("\x1b]0;t\x1b[2Cx", ["  x"], (0, 3)),
    "OSC cancelled": ("\x1b]0;t\x18x", ["x"], (0, 1)),
    # Sequences in general: ECMA-48 5.4; vt100.net's parser for what is malformed
    "unknown ones show nothing": ("a\x1b[5;6;7$zb\x1b[=3zc\x1b%5d\x1b[99v", ["abcd"], (0, 4)),
    "kitty's keyboard protocol (pyte leaks)": ("\x1b[>1u\x1b[<u\x1b[?u\x1b[=5;1ux", ["x"], (0, 1)),
    "DSR and DA with private markers (pyte raises)": ("\x1b[?6n\x1b[>c\x1b[=cx", ["x"], (0, 1)),
    "a private parameter that is none (pyte raises)": ("\x1b[?rx", ["x"], (0, 1)),
    "a marker in the wrong place": ("\x1b[1?Cx", ["x"], (0, 1)),
    "controls inside are executed": ("ab\x1b[\b2\rCx", ["abx"], (0, 3)),
    "CAN cancels": ("\x1b[2\x18Cx", ["Cx"], (0, 2)),
    "ESC starts anew": ("\x1b[2\x1b[3Cx", ["   x"], (0, 4)),
    "DEL and NUL are nothing": ("a\x7f\x00b", ["ab"], (0, 2)),
    "C1 controls in UTF-8 (ctlseqs)": ("ab\x9b1Gx\x85y", ["xb", "y"], (1, 1)),
    "huge parameters": ("\x1b[99999999999999999999;5Hx", ["", "", "", "", "    x"], (4, 5)),
    "colons where there should be none": ("\x1b[1:2Hx", ["x"], (0, 1)),
    "CSI ? 4 m, which vim sends (pyte raises)": ("\x1b[?4mx", ["x"], (0, 1)),
}


@pytest.mark.parametrize(("data", "rows", "at"), CASES.values(), ids=CASES.keys())
def test_a_control_function_shows_what_the_standards_say(
    data: str, rows: list[str], at: tuple[int, int]
) -> None:
    screen = shown(data)
    assert rows_of(screen) == rows
    assert place(screen) == at


@pytest.mark.parametrize(
    ("data", "rows"),
    [
        (b"a\xffb", ["a\ufffdb"]),
        (b"a\xe2\x82", ["a"]),  # incomplete: it may still come
        (b"a\xe2\x82b", ["a\ufffdb"]),
        (b"a\xc0\xafb", ["a\ufffd\ufffdb"]),  # overlong
        (b"a\xed\xa0\x80b", ["a\ufffd\ufffd\ufffdb"]),  # a surrogate
        (b"a\x9b1mb", ["a\ufffd1mb"]),  # a bare C1 byte is no C1 control in UTF-8
    ],
)
def test_invalid_utf8_shows_replacement_characters(data: bytes, rows: list[str]) -> None:
    assert rows_of(shown(data)) == rows


SGR = {
    # ECMA-48 8.3.117
    "1": {"bold": True},
    "2": {"faint": True},
    "3": {"italic": True},
    "4": {"underline": True},
    "5": {"blink": True},
    "6": {"blink": True},
    "7": {"reverse": True},
    "8": {"conceal": True},
    "9": {"strike": True},
    "21": {"underline": True},
    "53": {"overline": True},
    "1;2;22": {},
    "3;23": {},
    "4;24": {},
    "5;25": {},
    "7;27": {},
    "8;28": {},
    "9;29": {},
    "53;55": {},
    "1;31;0": {},
    "1;31;": {},
    "31": {"fg": 1},
    "42": {"bg": 2},
    "31;39": {},
    "42;49": {},
    # ctlseqs: bright colours, palette, true colour
    "91": {"fg": 9},
    "107": {"bg": 15},
    "38;5;200": {"fg": 200},
    "48;5;17": {"bg": 17},
    "38;2;1;2;3": {"fg": "#010203"},
    "48;2;255;0;16": {"bg": "#ff0010"},
    # ISO 8613-6: colons
    "38:5:200": {"fg": 200},
    "38:2:1:2:3": {"fg": "#010203"},
    "38:2::1:2:3": {"fg": "#010203"},
    "38:2:0:1:2:3:0:0": {"fg": "#010203"},
    "48:2::1:2:3;1": {"bg": "#010203", "bold": True},
    # underline styles and colours
    "4:3": {"underline": True},
    "4;4:0": {},
    "58;2;1;2;3": {},
    "58;5;1;3": {"italic": True},
    "58:2::1:2:3;3": {"italic": True},
    "59": {},
    # nothing that is malformed does harm
    "999": {},
    "38": {},
    "38;5": {"fg": 0},
    "38;5;999": {},
    "38;2;1": {"fg": "#010000"},
    "38;9;1": {"bold": True},
    "38:5": {},
    "38:2:1": {},
    "1;;3": {"italic": True},
    "1:2": {},
}


@pytest.mark.parametrize(("params", "style"), SGR.items(), ids=SGR.keys())
def test_sgr_sets_the_style(params: str, style: dict[str, object]) -> None:
    line = shown(f"\x1b[{params}mx").snapshot().lines[0]
    assert line == (Run("x", 1, **style),)  # type: ignore[arg-type]


def test_private_m_is_no_sgr() -> None:
    assert shown("\x1b[>4;2m\x1b[?1mx").snapshot().lines[0] == (Run("x", 1),)


def test_erasing_keeps_the_background_and_nothing_else() -> None:
    lines = shown("\x1b[1;4;31;42m\x1b[2Kab\x1b[m\r\n").snapshot().lines
    assert lines[0] == (
        Run("ab", 2, fg=1, bg=2, bold=True, underline=True),
        Run(" " * 8, 8, bg=2),
    )


def test_scrolling_brings_rows_of_the_present_background() -> None:
    lines = shown(FULL + "\x1b[44m\r\n").snapshot().lines
    assert lines[4] == (Run(" " * 10, 10, bg=4),)


def test_blanks_with_a_style_are_kept_and_plain_ones_at_the_end_are_not() -> None:
    assert shown("a\x1b[7m  \x1b[m  ").snapshot().lines[0] == (
        Run("a", 1),
        Run("  ", 2, reverse=True),
    )


def test_only_the_primary_screen_feeds_the_scrollback() -> None:
    screen = shown("".join(f"{n}\r\n" for n in range(8)))
    assert screen.text(scrollback=2).split("\n")[:2] == ["2", "3"]
    assert screen.snapshot().scrollback_lines == 4
    screen.feed(b"\x1b[?1049h" + b"x\r\n" * 20)
    assert screen.snapshot(100).scrollback == ()
    screen.feed(b"\x1b[?1049l")
    assert screen.snapshot().scrollback_lines == 4


def test_a_region_from_the_first_row_feeds_the_scrollback_and_another_does_not() -> None:
    assert shown(FULL + "\x1b[1;3r\x1b[3;1H\n\n").snapshot().scrollback_lines == 2
    assert shown(FULL + "\x1b[2;3r\x1b[3;1H\n\n").snapshot().scrollback_lines == 0
    assert shown(FULL + "\x1b[H\x1b[2M").snapshot().scrollback_lines == 0


def test_the_scrollback_is_bounded_and_erased_by_ed_3_and_ris() -> None:
    screen = Screen(2, 10, scrollback=3)
    screen.feed(b"".join(b"%d\r\n" % n for n in range(50)))
    assert screen.text(scrollback=100).split() == ["46", "47", "48", "49"]
    screen.feed(b"\x1b[3J")
    assert screen.snapshot().scrollback_lines == 0
    screen.feed(b"a\r\nb\r\nc\x1bc")
    assert screen.text(scrollback=100).split() == []


def test_the_scrollback_keeps_styles_wide_characters_and_marks() -> None:
    screen = shown("\x1b[31m漢e\u0301\x1b[mx\r\n" + "\r\n" * ROWS)
    assert screen.snapshot(100).scrollback[0] == (Run("漢e\u0301", 3, fg=1), Run("x", 1))
