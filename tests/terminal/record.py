"""Record real programs for the golden screens: ``python -m tests.terminal.record``.

Each program runs in a terminal of its own with fixed contents to show, is typed at, and every byte
it writes until then is kept in ``tests/golden/terminal/NAME-ROWSxCOLS.bin``; beside it what tmux
shows of these bytes (``.tmux``). Recordings differ from run to run (prompts, times): make them
again only to have others, and look at the difference.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
from collections.abc import Iterator
from pathlib import Path

from tests.terminal.tmux import Server

GOLDEN = Path(__file__).parent.parent / "golden" / "terminal"
_QUIET = 0.4
"""Seconds without output after which a program waits for the next keys."""

_PROMPT = r"PS1='\[\e[1;32m\]user@host\[\e[0m\]:\[\e[34m\]\w\[\e[0m\]\$ '"
_MORE_BASH = ["echo 漢字 \x7f\x7f\r", "clear\r", "for n in 1 2 3; do echo $n; done\r", "ls li\t\t"]
_CURSES = """
import curses
def main(s):
    curses.start_color(); curses.use_default_colors()
    for n in range(1, 8):
        curses.init_pair(n, n, -1)
        s.addstr(n, 2 * n, "colour %d" % n, curses.color_pair(n) | (curses.A_BOLD if n % 2 else 0))
    w = curses.newwin(6, 20, 8, 10); w.box(); w.addstr(1, 1, "box", curses.A_REVERSE)
    s.hline(9, 0, curses.ACS_HLINE, 8); s.scrollok(True); s.refresh(); w.refresh()
    s.getch(); s.setscrreg(1, 6); s.scroll(2); s.refresh(); w.move(2, 2)
    w.addstr("漢字 é"); w.refresh()
    s.getch()
curses.wrapper(main)
"""
_PROGRESS = r"""for n in 10 35 60 85 100; do printf '\r\e[K\e[36m%3d%%\e[0m [%-20s]' $n \
"$(printf '#%.0s' $(seq $((n/5))))"; done; echo; printf 'done \e[32m\xe2\x9c\x94\e[0m\n'
printf 'one\ntwo\nthree\n\e[2A\e[Gtwo: \e[33mok\e[0m\e[2B\r'"""
_UNICODE = """printf '漢字テスト|\\n한국어|\\n👍 🔥 ok|\\ne\\xcc\\x81 n\\xcc\\x83|\\n└─┬─┘ ★\\n'
printf 'wrap: '; for n in $(seq 25); do printf '漢字'; done"""

_TMUX = "tmux -S inner -f /dev/null -u new 'bash --norc' \\; set -g status-right tmux"

PROGRAMS: dict[str, tuple[list[str], list[str]]] = {
    "bash": (
        ["bash", "--norc", "--noprofile", "-i"],
        [f"{_PROMPT}\r", "ls --color=always\r", "echo one two", "\x01\x1bf\x0b\r", *_MORE_BASH],
    ),
    "vim": (
        ["vim", "-u", "NONE", "-i", "NONE", "-n", "-c", "syntax on", "-c", "set nu", "code.py"],
        ["Go# more\x1b", "ggdd", ":vsplit\r", "/def\r", "\x05\x05\x19", ":set hlsearch\r", "vjj"],
    ),
    "vim-quit": (
        ["bash", "--norc", "-c", "echo before; vim -u NONE -i NONE -n code.py; echo after"],
        ["ihello\x1b", ":q!\r"],
    ),
    "nano": (
        ["nano", "--ignorercfiles", "--linenumbers", "code.py"],
        ["\x1b[B\x1b[B", "漢字 é", "\x0b", "\x15", "\x17line\r", "\x07", "\x18", "\x16", "\x1b3"],
    ),
    "less": (["less", "-R", "coloured.txt"], [" ", "j", "/line 7\r", "b", "G", "5k"]),
    "man": (["less", "-i", "-s", "manual.txt"], [" ", "jjj", "k"]),
    "top": (["bash", "-c", "exec top -d 60 -p $$"], ["1", "z", "x"]),
    "python": (
        [sys.executable, "-I", "-q"],
        ["1 + 1\r", "for n in range(3):\r    print('x' * n)\r\r", "1 / 0\r", "print('e\\u0301')\r"],
    ),
    "ls": (["ls", "-la", "--color=always", "--time-style=+", "."], []),
    "git-log": (
        ["git", "-c", "core.pager=cat", "log", "--graph", "--color=always", "--oneline"],
        [],
    ),
    "git-diff": (["git", "-c", "core.pager=less -R", "show", "--color=always"], ["j", "j"]),
    "curses": ([sys.executable, "-c", _CURSES], ["x"]),
    "progress": (["bash", "-c", _PROGRESS], []),
    "unicode": (["bash", "-c", _UNICODE], []),
    "tmux": (
        ["bash", "-c", _TMUX],
        ["echo hi\r", "\x02%", "seq 30\r", '\x02"', "ls\r"],
    ),
}


def main() -> None:
    GOLDEN.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as directory:
        server = Server(Path(directory))
        try:
            for name, rows, cols in _wanted(sys.argv[1:]):
                data = record(*PROGRAMS[name], rows, cols)
                stem = GOLDEN / f"{name}-{rows}x{cols}"
                stem.with_suffix(".bin").write_bytes(data)
                stem.with_suffix(".tmux").write_bytes(server.capture(data, rows, cols))
                print(stem.name, len(data))
        finally:
            server.close()


def _wanted(names: list[str]) -> Iterator[tuple[str, int, int]]:
    for name in names or PROGRAMS:
        for rows, cols in ((24, 80), (15, 47), (40, 132)):
            yield name, rows, cols


def record(argv: list[str], keys: list[str], rows: int, cols: int) -> bytes:
    """What the program wrote in a terminal of that size, until after the last keys."""
    with tempfile.TemporaryDirectory(prefix="rec") as directory:
        _furnish(Path(directory))
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(directory)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
            environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "HOME": directory}
            os.execvpe(
                argv[0],
                argv,
                environment | {"LC_ALL": "C.UTF-8", "LESSHISTFILE": "-", "HISTFILE": "/dev/null"},
            )
        fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        data = _read(master)
        for key in keys:
            os.write(master, key.encode())
            data += _read(master)
        os.close(master)
        os.kill(pid, signal.SIGHUP)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        if (inner := Path(directory) / "inner").exists():
            subprocess.run(["tmux", "-S", str(inner), "kill-server"], check=True)
        return data


def _read(master: int) -> bytes:
    data = b""
    while select.select([master], [], [], _QUIET)[0]:
        try:
            data += os.read(master, 65536)
        except OSError:  # the last one at the other end has left
            break
    return data


def _furnish(directory: Path) -> None:
    """Something to show, the same every time."""
    (directory / "code.py").write_text(
        "import sys\n\n\ndef main(arg: str) -> int:\n    '''Say \"hello\" to é and 漢字.'''\n"
        + "".join(f"    print({n}, 'a string', arg)  # number {n}\n" for n in range(40))
        + "    return 0\n"
    )
    coloured = "".join(
        f"\x1b[3{n % 8}mline {n}\x1b[0m \x1b[1mbold\x1b[0m {'.' * n}\n" for n in range(90)
    )
    (directory / "coloured.txt").write_text(coloured)
    bold = "".join(f"{char}\b{char}" for char in "NAME")
    under = "".join(f"_\b{char}" for char in "file")
    text = "".join(f"       text {n} {under} and more of it\n" for n in range(60))
    (directory / "manual.txt").write_text(f"{bold}\n{text}")
    for name in ("link", "list", "dir"):
        (directory / name).mkdir()
    (directory / "run.sh").touch(0o755)
    _commit(directory)


def _commit(directory: Path) -> None:
    who = "-c user.name=A -c user.email=a@b -c commit.gpgsign=false -c init.defaultBranch=main"
    script = f"""set -e; cd {directory}; export GIT_AUTHOR_DATE=@1700000000+0000
    export GIT_COMMITTER_DATE=@1700000000+0000; g='git {who}'; $g init -q; $g add code.py
    $g commit -qm one; $g checkout -qb side; echo x >>code.py; $g commit -qam 'two: é'
    $g checkout -q main; echo y >run.sh; $g add run.sh; $g commit -qm three
    $g merge -q --no-edit side; sed -i 's/string/STRING/' code.py; $g commit -qam four"""
    if os.system(f"({script}) >/dev/null") != 0:
        raise RuntimeError("git could not make the repository to show")


if __name__ == "__main__":
    main()
