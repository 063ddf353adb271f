"""The command as a whole: exit codes, one line an error, and what is not imported."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import s0d as package
from s0d.cli.errors import one_line
from s0d.cli.main import main
from tests.cli.conftest import Done
from tests.cli.fake import FakeServer, success

Run = Callable[..., Done]


def python(code: str, **env: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env={**os.environ, **env},
    )
    return done.stdout


@pytest.mark.parametrize("command", [("-m", "s0d"), ("-m", "s0d.__main__")])
def test_version(command: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, *command, "--version"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, f"s0d {package.__version__}\n")


def test_version_imports_next_to_nothing() -> None:
    code = (
        "import sys; sys.argv[1:] = ['--version']; before = set(sys.modules)\n"
        "from s0d.__main__ import main; main()\n"
        "print(sorted(set(sys.modules) - before))"
    )
    assert python(code).splitlines()[1] == "['__future__', 's0d', 's0d.__main__']"


@pytest.mark.parametrize("verb", ["'session', 'list'", "'ps'"])
def test_a_verb_does_not_import_the_server(fake: FakeServer, verb: str) -> None:
    fake.script(success({"sessions": []}))
    code = (
        "import sys\nfrom s0d.cli.main import main\n"
        f"assert main([{verb}]) == 0\n"
        "heavy = {'trio', 'quart', 'hypercorn', 'httpx', 'yaml', 'asyncio', 'http.client'}\n"
        "print(heavy & set(sys.modules))"
    )
    assert python(code, S0D_URL=fake.url).splitlines()[-1] == "set()"


def test_importing_the_package_is_cheap_and_its_entries_come_on_use() -> None:
    code = "import sys, s0d; print('trio' in sys.modules); s0d.serve; print('trio' in sys.modules)"
    assert python(code).split() == ["False", "True"]
    with pytest.raises(AttributeError):
        package.nonsense  # noqa: B018


@pytest.mark.parametrize("verb", [[], ["run"], ["serve"], ["token"], ["session"]])
def test_help(verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*verb, "--help"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"Usage: {' '.join(['s0d', *verb])}")
    assert "s0d " in out.partition("\n")[2]  # an example


@pytest.mark.parametrize(
    "arguments",
    [["nonsense"], ["--nonsense"], ["run"], ["session", "list", "-o", "xml"], ["token", "x"]],
)
def test_usage_errors(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("s0d: ")
    assert err.count("\n") == 1


def test_nobody_there(
    short_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("S0D_URL", raising=False)
    monkeypatch.setenv("S0D_RUNTIME_DIR", str(short_dir))
    monkeypatch.setattr("s0d.cli.advice.tcp_answers", lambda: False)
    assert main(["session", "list"]) == 5
    err = capsys.readouterr().err
    assert err.startswith(f"s0d: no daemon answers on unix:{short_dir}/s0d.sock: No such file")
    assert "start one with `s0d serve`" in err
    monkeypatch.setattr("s0d.cli.advice.tcp_answers", lambda: True)
    assert main(["session", "list"]) == 5
    assert "use it with --url http://127.0.0.1:7707" in capsys.readouterr().err
    assert main(["session", "list", "--url", f"unix:{short_dir}/x"]) == 5
    assert capsys.readouterr().err.endswith("No such file or directory\n")


def test_a_reader_that_leaves(fake: FakeServer) -> None:
    session = {
        "id": "ses-1",
        "spec": {"command": ["x" * 50]},
        "phase": "exited",
        "restart_count": 0,
    }
    fake.answer = lambda request: success({"sessions": [session] * 5000})
    done = subprocess.run(
        [f"{sys.executable} -m s0d session list | head -1; echo ${{PIPESTATUS[0]}}"],
        shell=True,
        executable="/bin/bash",
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "S0D_URL": fake.url},
    )
    assert done.stdout.splitlines()[1:] == ["1"]
    assert done.stderr == ""


def test_one_line() -> None:
    assert one_line("a\nb\x1b[0m\x9b\u2028é") == "a\\nb\\x1b[0m\\x9b\\u2028é"


def test_closed_standard_descriptors_are_no_place_for_sockets() -> None:
    code = """
import os, stat
from s0d.cli.main import main
main(["--version"])
null = os.stat(os.devnull).st_rdev
ok = [os.fstat(fd).st_rdev == null and os.get_inheritable(fd) for fd in (0, 1, 2)]
os.write(9, repr(ok).encode())
"""
    closing = 'exec "$0" -c "$1" 9>&1 0<&- 1>&- 2>&-'
    done = subprocess.run(
        ["sh", "-c", closing, sys.executable, code], capture_output=True, text=True, timeout=60
    )
    assert done.stdout == "[True, True, True]"


def test_output_that_cannot_be_written_is_one_line(fake: FakeServer) -> None:
    fake.script(success({"sessions": []}))
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "s0d",
                "--url",
                fake.url,
                "session",
                "list",
            ],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert (done.returncode, done.stderr) == (1, "s0d: [Errno 28] No space left on device\n")
