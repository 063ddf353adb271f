"""Real programs in a terminal, driven by keys and looked at, through a real daemon."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any

import pytest
import trio

from s0d.terminal import Screen
from tests.support.client import Client, EventStream
from tests.support.daemon import Daemon

WAIT_MS = 15_000
ENV = {"PS1": "PROMPT> ", "HISTFILE": "", "INPUTRC": "/dev/null", "LC_ALL": "C.UTF-8"}
BASH = ("bash", "--norc", "--noprofile", "-i")

needs = lambda name: pytest.mark.skipif(  # noqa: E731
    shutil.which(name) is None, reason=f"{name} is not installed (.ci/run installs it as root)"
)


class Terminal:
    """One session, as an agent would drive it."""

    def __init__(self, daemon: Daemon, *command: str, rows: int = 24, cols: int = 80) -> None:
        self._client = Client(daemon.socket)
        self._ask = partial(_ask, self._client)
        io = {"mode": "pty", "terminal": {"rows": rows, "cols": cols}}
        spec = {
            "command": list(command),
            "io": io,
            "env": ENV,
            "lifecycle": {"stop_grace_period_seconds": 1},
        }
        self.id = self._ask("POST", "", spec)["id"]

    def press(self, *keys: Any) -> None:
        self._ask("POST", f"/{self.id}/keys", list(keys))

    def wait(self, **wanted: Any) -> Any:
        return self._ask("POST", f"/{self.id}/wait", {"for": wanted, "timeout_ms": WAIT_MS})

    def sees(self, regex: str) -> Any:
        try:
            return self.wait(screen={"regex": regex})
        except AssertionError:
            raise AssertionError(f"{regex!r} is not on the screen:\n{self.text()}") from None

    def screen(self, scrollback: int = 0) -> Any:
        return self._ask("GET", f"/{self.id}/screen?scrollback={scrollback}", None)

    def resize(self, rows: int, cols: int) -> None:
        self._ask("PUT", f"/{self.id}/terminal", {"rows": rows, "cols": cols})

    def text(self) -> str:
        lines = self.screen()["lines"]
        return "\n".join("".join(run["text"] for run in line) for line in lines).rstrip()

    def replayed(self, seq: int) -> Any:
        """The screen that the journal alone gives, up to `seq`, as the API shows it."""
        events = trio.run(self._client.history, self.id)
        screen = Screen(1, 1)
        for event in (e.fields for e in events if e.seq <= seq):
            if event["type"] == "attempt.starting":
                screen = Screen(event["rows"], event["cols"])
            elif event["type"] == "terminal.resized":
                screen.resize(event["rows"], event["cols"])
            elif event["type"] == "output":
                screen.feed(base64.b64decode(event["data_base64"]))
        return screen

    def delete(self) -> None:
        self._ask("DELETE", f"/{self.id}", None)


def _ask(client: Client, method: str, path: str, body: Any) -> Any:
    answer = trio.run(client.ask, method, path, body)
    return answer.data


Open = Callable[..., Terminal]


@pytest.fixture
def terminal(shared_daemon: Daemon) -> Iterator[Open]:
    """Opens terminals; each must, at the end, look as its journal says."""
    made: list[Terminal] = []

    def open_(*command: str, **size: int) -> Terminal:
        made.append(Terminal(shared_daemon, *command, **size))
        return made[-1]

    yield open_
    for each in made:
        assert_replays(each)
        each.delete()


def assert_replays(terminal: Terminal) -> None:
    shown = terminal.screen(1000)
    expected = terminal.replayed(shown["seq"]).snapshot(1000)
    lines = [[run["text"] for run in line] for line in shown["lines"]]
    assert lines == [[run.text for run in line] for line in expected.lines]
    above = [[run["text"] for run in line] for line in shown["scrollback"]]
    assert above == [[run.text for run in line] for line in expected.scrollback]
    cursor = shown["cursor"]
    assert (cursor["row"], cursor["col"]) == (expected.cursor.row, expected.cursor.col)
    assert (shown["title"], shown["alternate"]) == (expected.title, expected.alternate)


@needs("bash")
def test_bash_with_bracketed_paste(terminal: Open) -> None:
    bash = terminal(*BASH)
    bash.sees("PROMPT>$")
    assert bash.screen()["modes"]["bracketed_paste"]
    bash.press({"paste": "echo one\necho two"})
    bash.sees("two$")
    assert "one\n" not in bash.text().replace("echo one\n", "")  # pasted, not executed
    bash.press("Enter")
    bash.sees("^one\ntwo\nPROMPT>$")
    bash.press("echo thre", "BSpace", "BSpace", "C-a", "M-f", "C-k", " x", "Enter")
    bash.sees("^x\nPROMPT>$")
    bash.press("Up", "Up", "C-c")
    bash.sees(r"\^C\nPROMPT>$")


@needs("bash")
def test_a_resize_is_seen_by_both_sides(terminal: Open) -> None:
    bash = terminal(*BASH, rows=10, cols=60)
    bash.sees("PROMPT>$")
    bash.press("for i in 1 2 3 4 5 6 7 8 9; do echo row $i; done", "Enter")
    bash.sees("row 9\nPROMPT>$")
    for rows, cols in ((5, 30), (30, 100), (10, 60)):
        bash.resize(rows, cols)
        bash.press("stty size", "Enter")
        bash.sees(f"^{rows} {cols}$")
        shown = bash.screen()
        assert (shown["rows"], shown["cols"]) == (rows, cols)


@needs("vim")
def test_vim(terminal: Open, short_dir: Path) -> None:
    file = short_dir / "text"
    file.write_text("".join(f"line {n}\n" for n in range(100)))
    vim = terminal("vim", "--clean", str(file))
    vim.sees("^line 0$")
    assert vim.screen()["alternate"]
    vim.press("G", "o", "漢字 é", "Escape")
    vim.sees("^漢字 é$")
    vim.press("g", "g", "Down", "Down", "dd", "PPage", "NPage", "C-Home")
    vim.press(":w", "Enter")
    vim.sees("written")
    vim.press(":q", "Enter")
    assert vim.wait(exit=True)["exit_code"] == 0
    assert not vim.screen()["alternate"]
    lines = file.read_text().splitlines()
    assert lines[2] == "line 3"
    assert lines[-1] == "漢字 é"


@needs("less")
def test_less(terminal: Open, short_dir: Path) -> None:
    file = short_dir / "text"
    file.write_text("".join(f"line {n}\n" for n in range(500)))
    less = terminal("less", str(file))
    less.sees("^line 0$")
    less.press("Space")
    less.sees("^line 23$")
    less.press("End")
    less.sees("^line 499$")
    less.press("/", "line 250", "Enter", "g", "Down", "Down", "Up")
    less.sees("^line 1\n")
    less.press("q")
    assert less.wait(exit=True)["exit_code"] == 0


@needs("top")
def test_top(terminal: Open) -> None:
    top = terminal("top", "-d", "1", rows=20, cols=100)
    top.sees("PID USER")
    assert top.text().startswith("top - ")
    top.press("q")
    assert top.wait(exit=True)["exit_code"] == 0


@needs("htop")
def test_htop(terminal: Open) -> None:
    htop = terminal("htop", rows=24, cols=100)
    htop.sees("F10Quit")
    htop.press("F1")
    htop.sees("hide/show header meters")
    htop.press("Escape", "F10")
    assert htop.wait(exit=True)["exit_code"] == 0


@needs("nano")
def test_nano(terminal: Open, short_dir: Path) -> None:
    file = short_dir / "text"
    nano = terminal("nano", "--ignorercfiles", str(file))
    nano.sees("GNU nano")
    nano.press("hello", "Enter", "漢字")
    nano.sees("漢字")
    nano.press("C-o", "Enter")
    nano.sees("Wrote 2 lines")
    nano.press("C-x")
    assert nano.wait(exit=True)["exit_code"] == 0
    assert file.read_text() == "hello\n漢字\n"


@needs("tmux")
def test_tmux_inside(terminal: Open, short_dir: Path) -> None:
    command = ("tmux", "-S", str(short_dir / "s"), "-f", "/dev/null", "new", *BASH)
    tmux = terminal(*command)
    tmux.sees("^PROMPT>$")
    tmux.press("C-b", "%")
    tmux.sees("│")
    tmux.press("C-b", "d")
    tmux.wait(exit=True)


def test_python(terminal: Open) -> None:
    python = terminal(sys.executable, "-q", "-E", "-s")
    python.sees("^>>>$")
    python.press("print('é' * 3, '\\N{CJK UNIFIED IDEOGRAPH-6F22}')", "Enter")
    python.sees("^ééé 漢\n>>>$")
    python.press("6 * 7", "Enter")
    python.sees("^42\n")
    python.press("C-d")
    assert python.wait(exit=True)["exit_code"] == 0


CURSES = """
import curses
def main(window):
    curses.curs_set(0)
    window.keypad(True)
    window.addstr(0, 0, "ready", curses.A_REVERSE)
    while (key := window.get_wch()) != "q":
        name = curses.keyname(key).decode() if isinstance(key, int) else repr(key)
        window.addstr(2, 0, name.ljust(20))
curses.wrapper(main)
"""


CURSES_KEYS = """
Up=KEY_UP Down=KEY_DOWN Left=KEY_LEFT Right=KEY_RIGHT Home=KEY_HOME End=KEY_END PPage=KEY_PPAGE
NPage=KEY_NPAGE IC=KEY_IC DC=KEY_DC BTab=KEY_BTAB BSpace=KEY_BACKSPACE S-Left=KEY_SLEFT
S-Home=KEY_SHOME C-Right=kRIT5
"""


def test_curses_understands_every_key(terminal: Open) -> None:
    """terminfo's xterm-256color is what programs decode keys by: ours must be its sequences."""
    program = terminal(sys.executable, "-c", CURSES)
    program.sees("^ready$")
    assert program.screen()["cursor"]["visible"] is False
    names = dict(pair.split("=") for pair in CURSES_KEYS.split())
    names |= {f"F{n}": f"KEY_F\\({n}\\)" for n in range(1, 13)}
    for key, name in names.items():
        program.press(key)
        program.sees(f"^{name} *$")
    program.press("q")
    assert program.wait(exit=True)["exit_code"] == 0


def test_the_command_line(shared_daemon: Daemon, tmp_path: Path) -> None:
    command = (
        "session",
        "create",
        "--pty",
        "--",
        "sh",
        "-c",
        "stty -echo; echo up; read x; echo $x",
    )
    session = shared_daemon.json(*command)["id"]
    run = partial(shared_daemon.cli, "session")
    done = run("wait", session, "--screen", "^up$", "--regex")
    assert done.stdout.startswith(b"screen: up (event "), done.stderr
    assert run("keys", session, "hello", "Enter").stdout.startswith(b"accepted by att-")
    assert run("wait", session, "--exit").stdout.startswith(b"exit: 0 (event ")
    assert run("screen", session).stdout.split() == [b"up", b"hello"]
    file = tmp_path / "x.cast"
    assert run("export", session, "--format", "asciicast", str(file)).returncode == 0
    head, *lines = map(json.loads, file.read_text().splitlines())
    assert (head["version"], head["width"], head["height"]) == (2, 80, 24)
    assert "".join(data for _, _, data in lines) == "up\r\nhello\r\n"
    assert run("wait", session, "--phase", "running", "--timeout", "0").returncode == 124
    with subprocess.Popen(
        [sys.executable, "-m", "s0d", "session", "screen", session, "--follow", "-o", "json"],
        stdout=subprocess.PIPE,
        env=shared_daemon.client_environment,
    ) as follower:
        assert follower.stdout is not None
        first = json.loads(follower.stdout.readline())
        run("delete", session)
        assert follower.wait(20) == 0
    assert first["lines"][1][0]["text"] == "hello"


def test_following_goes_on_when_the_daemon_comes_back(daemon: Daemon) -> None:
    command = ("session", "create", "--pty", "--", "sh", "-c", "echo $S0D_ATTEMPT_ID; exec cat")
    session = daemon.json(*command)["id"]
    with subprocess.Popen(
        [sys.executable, "-m", "s0d", "session", "screen", session, "--follow", "-o", "json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=daemon.client_environment,
    ) as follower:
        assert follower.stdout is not None
        first = _followed_until(follower.stdout, "att-")
        daemon.kill()
        daemon.start()
        second = _followed_until(follower.stdout, "att-", but=first)
        assert daemon.cli("session", "keys", session, "goes on", "Enter").returncode == 0
        assert _followed_until(follower.stdout, "goes on") == second
        assert daemon.cli("session", "delete", session).returncode == 0
        assert follower.wait(20) == 0


def _followed_until(stream: IO[bytes], text: str, but: str = "") -> str:
    """Read frames until `text` is in one of another attempt than `but`; that attempt."""
    for line in stream:
        frame = json.loads(line)
        if frame["attempt_id"] != but and text in line.decode():
            return str(frame["attempt_id"])
    raise AssertionError(f"it ended without {text!r}")


# -- what others notice of it ----------------------------------------------------------------


async def echo(stream: EventStream, client: Client, session: str, text: str) -> float:
    """Seconds from an input to its echo on the event stream."""
    began = time.perf_counter()
    body = {"input_id": text, "data_base64": base64.b64encode(text.encode()).decode()}
    seen = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.ask, "POST", f"/{session}/inputs", body)
        while text.encode() not in seen:
            for event in await stream.receive() or ():
                if event.fields["type"] == "output":
                    seen += base64.b64decode(event.fields["data_base64"])
        return time.perf_counter() - began


FLOOD = (
    "import sys\n"
    "data = b''.join(b'\\x1b[%d;%dHword %d' % (n % 24 + 1, n % 70 + 1, n) for n in range(30000))\n"
    "sys.stdin.readline()\n"
    "while True: sys.stdout.buffer.write(data[:500000])\n"
)


async def test_feeding_a_flood_holds_up_nobody_elses_echo(shared_daemon: Daemon) -> None:
    """Printed are the figures; asserted is a bound that holds on a loaded machine, too.

    The flood is the worst to draw, it is looked at all the time, and all on one processor.
    """
    client = Client(shared_daemon.socket)
    spec = {"io": {"mode": "pty"}, "lifecycle": {"stop_grace_period_seconds": 0}}
    cat = {**spec, "command": ["sh", "-c", "stty raw -echo; echo up; exec cat"]}
    flood = {**spec, "command": [sys.executable, "-c", FLOOD]}
    quiet = (await client.ask("POST", "", cat)).data["id"]
    loud = (await client.ask("POST", "", flood)).data["id"]
    wait = {"for": {"screen": "up"}, "timeout_ms": WAIT_MS}
    (await client.ask("POST", f"/{quiet}/wait", wait)).data  # noqa: B018 - it must succeed
    times: dict[str, list[float]] = {"idle": [], "flood": [], "flood, looked at": []}
    with trio.fail_after(120):
        async with client.events(quiet, 0) as stream, trio.open_nursery() as nursery:
            for number, (name, taken) in enumerate(times.items()):
                if name == "flood":
                    await client.ask("POST", f"/{loud}/keys", ["Enter"])
                elif number:
                    nursery.start_soon(_look_on, client, loud)
                for n in range(40):
                    taken.append(await echo(stream, client, quiet, f"{number}-{n:04}"))
            nursery.cancel_scope.cancel()
    for session in (quiet, loud):
        await client.ask("DELETE", f"/{session}")
    middle = {}
    for name, taken in times.items():
        sorted_ms = [1e3 * t for t in sorted(taken)]
        middle[name] = sorted_ms[20]
        print(f"{name}: p50 {sorted_ms[20]:.1f} ms, p90 {sorted_ms[36]:.1f} ms")
    assert middle["flood, looked at"] < middle["flood"] + 100


BURSTS = (
    "import sys\n"
    "data = b''.join(b'\\x1b[%d;%dHword %d' % (n % 24 + 1, n % 70 + 1, n) for n in range(30000))\n"
    "for number, line in enumerate(sys.stdin):\n"
    "    sys.stdout.buffer.write(data[:450000] + b'burst %d\\n' % number)\n"
    "    sys.stdout.flush()\n"
)


async def test_drawing_a_screen_holds_up_nobody_elses_echo(shared_daemon: Daemon) -> None:
    """By 10 ms at most; measured in turn with echoes while nothing is drawn."""
    client = Client(shared_daemon.socket)
    spec = {"io": {"mode": "pty"}, "lifecycle": {"stop_grace_period_seconds": 0}}
    cat = {**spec, "command": ["sh", "-c", "stty raw -echo; echo up; exec cat"]}
    quiet = (await client.ask("POST", "", cat)).data["id"]
    bursts = {**spec, "command": [sys.executable, "-c", BURSTS]}
    drawn = (await client.ask("POST", "", bursts)).data["id"]

    async def wait(session: str, **wanted: str) -> None:
        body = {"for": wanted, "timeout_ms": WAIT_MS}
        assert (await client.ask("POST", f"/{session}/wait", body)).status == 200

    await wait(quiet, screen="up")
    idle: list[float] = []
    busy: list[float] = []
    with trio.fail_after(120):
        async with client.events(quiet, 0) as stream:
            for number in range(20):
                await client.ask("POST", f"/{drawn}/keys", ["Enter"])
                await wait(drawn, output=f"burst {number}\r\n")
                idle += [await echo(stream, client, quiet, f"{number}-{n}-i") for n in range(4)]
                looked = trio.Event()

                async def look(looked: trio.Event = looked) -> None:
                    await client.ask("GET", f"/{drawn}/screen?format=text")
                    looked.set()

                async with trio.open_nursery() as nursery:
                    nursery.start_soon(look)
                    while not looked.is_set():
                        busy.append(await echo(stream, client, quiet, f"{number}-{len(busy)}-b"))
    for session in (quiet, drawn):
        await client.ask("DELETE", f"/{session}")
    assert len(busy) > 40
    for share in (0.5, 0.9):
        alone, beside = (sorted(taken)[int(len(taken) * share)] for taken in (idle, busy))
        print(f"p{100 * share:.0f}: alone {1e3 * alone:.1f} ms, beside it {1e3 * beside:.1f} ms")
        assert beside < alone + 0.010


async def _look_on(client: Client, session: str) -> None:
    while True:
        answer = await client.ask("GET", f"/{session}/screen?format=text")
        assert answer.status == 200
