from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from s0d.declare.file import MARK, Declaration, load
from s0d.declare.plan import Existing, plan
from s0d.declare.variables import expand, read_env
from s0d.model.errors import InvalidRequest
from s0d.model.parse import parse_spec


def declare(directory: Path, text: str, name: str = "s0d.toml", **environ: str) -> Declaration:
    (directory / name).write_text(text)
    return load([directory / name], environ)


def test_a_whole_file(tmp_path: Path) -> None:
    declaration = declare(
        tmp_path,
        """
[daemon]
log_level = "debug"      # somebody else's

[sessions.web]
command = ["serve", "--port", "${PORT}"]
cwd = "site"
env = { MODE = "${MODE:-test}" }
restart = { policy = "always", max_restarts = 3 }
depends_on = ["db"]
pty = true

[sessions.db]
shell = "exec db --price '$$5'"
readiness = { type = "output", output = "ready" }
restart = "on_failure"
""",
        PORT="80",
    )
    assert [*declaration.sessions] == ["db", "web"]
    assert declaration.project == str(tmp_path)
    web, db = declaration.sessions["web"], declaration.sessions["db"]
    assert web.sent == {
        "name": "web",
        "command": ["serve", "--port", "80"],
        "cwd": f"{tmp_path}/site",
        "env": {"MODE": "test", MARK: str(tmp_path)},
        "io": {"mode": "pty"},
        "lifecycle": {"restart": {"policy": "always", "max_restarts": 3}},
    }
    assert web.depends_on == ("db",)
    assert db.sent["command"] == ["sh", "-c", "exec db --price '$5'"]
    assert db.spec.lifecycle.restart.policy == "on_failure"


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("[sessions.a]\n", 1, "sessions.a: command: give either command or shell"),
        ('[sessions.a]\nshell = "x"\ncommand = ["x"]\n', 3, "command: give either"),
        ('[sessions.a]\n\ncommand = "x"\n', 3, "sessions.a: command: a list, the program and its"),
        ('[sessions.a]\nshell = "x"\nrestrat = 1\n', 3, "restrat: there is no such field"),
        ('[sessions.a]\nshell="x"\nrestart = "sometimes"\n', 3, "lifecycle.restart.policy: "),
        ('[sessions.a]\nshell="x"\n[sessions.a.io]\nmode = "tape"\n', 4, "io.mode: "),
        ('[sessions.a]\nshell="x"\n[sessions.a.env]\nB = 1\n', 3, "env: Expected `str`, got `int`"),
        ('[sessions.a]\nshell="x"\ndepends_on = ["b"]\n', 3, "there is no session b"),
        ('[sessions.a]\nshell = "${NO}"\n', 2, "the variable NO is not set"),
        ('[sessions.a]\nshell = "${NO:?say which}"\n', 2, "NO is not set: say which"),
        ('[sessions."a b"]\nshell = "x"\n', 1, "a name has letters"),
        ("sessions = 1\n", 1, "must be a table"),
    ],
)
def test_errors_have_line_and_field(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        declare(tmp_path, text)
    assert caught.value.message.startswith(f"{tmp_path}/s0d.toml:{line}: ")
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[sessions.a\n", "line 1"),
        (
            '[sessions.a]\nshell="x"\ndepends_on=["b"]\n[sessions.b]\nshell="x"\ndepends_on=["a"]\n',
            "in a circle: ",
        ),
    ],
)
def test_other_errors(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        declare(tmp_path, text)


def test_several_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(f'[sessions.{name}]\nshell = "x"\n')
    files = [tmp_path / "a.toml", tmp_path / "b.toml"]
    assert set(load(files, {}, "/p").sessions) == {"a", "b"}
    with pytest.raises(InvalidRequest, match=r"declared in .*a\.toml, too"):
        load([*files, tmp_path / "a.toml"], {})
    with pytest.raises(InvalidRequest, match="No such file"):
        load([tmp_path / "none"], {})


def test_a_procfile(tmp_path: Path) -> None:
    text = "# what runs\nweb: serve -p $PORT ${HOST:-x}\n\nworker:  work --all  \n"
    declaration = declare(tmp_path, text, "Procfile")
    commands = {name: one.sent["command"][2] for name, one in declaration.sessions.items()}
    assert commands == {"web": "serve -p $PORT ${HOST:-x}", "worker": "work --all"}
    for text, line in (("web: x\nnonsense\n", 2), ("a: x\na: y\n", 2)):
        with pytest.raises(InvalidRequest, match=f"Procfile:{line}: "):
            declare(tmp_path, text, "Procfile")


def test_variables(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        '# comment\nONE=1\nexport TWO = two words # said\nQUOTED="a # b"\nEMPTY=\n'
    )
    env = read_env(tmp_path / ".env")
    assert env == {"ONE": "1", "TWO": "two words", "QUOTED": "a # b", "EMPTY": ""}
    said = expand(["${ONE}${TWO}", {"x": "${EMPTY:-e}|${EMPTY-e}|${NONE-n}"}, "$$ $x $(y)", 5], env)
    assert said == ["1two words", {"x": "e||n"}, "$ $x $(y)", 5]
    text = '[sessions.a]\nshell = "${ONE} ${TWO}"\n'
    assert declare(tmp_path, text, TWO="ours").sessions["a"].sent["command"][2] == "1 ours"
    (tmp_path / ".env").write_text("nonsense\n")
    with pytest.raises(InvalidRequest, match=r"\.env:1: "):
        declare(tmp_path, text)


def existing(name: str, sent: dict[str, Any], phase: str = "running", id: str = "") -> Existing:
    return Existing(id or f"ses-{name}", name, phase, parse_spec(sent))


def test_a_plan(tmp_path: Path) -> None:
    text = "".join(
        f'[sessions.{name}]\nshell = "x"\nrestart = "always"\n'
        for name in ("new", "same", "other", "rests")
    )
    declaration = declare(tmp_path, text)
    sent = {name: one.sent for name, one in declaration.sessions.items()}
    stopped = sent["same"] | {
        "lifecycle": {**sent["same"]["lifecycle"], "desired_state": "stopped"}
    }
    there = [
        existing("same", stopped),
        existing("other", sent["other"] | {"command": ["y"], "env": sent["other"]["env"]}),
        existing("rests", sent["rests"], "exited"),
        existing("gone", sent["same"] | {"name": "gone"}),
        existing("same", sent["same"], id="ses-second"),
        existing("foreign", {"command": ["x"], "name": "foreign"}),
        existing("new", {"command": ["x"], "name": "new"}),  # of somebody else
    ]
    steps = plan(declaration, there, prune=True, start=True)
    assert [str(step) for step in steps] == [
        "gone: remove",
        "same: remove",
        "new: create",
        "same: keep",
        "other: update (command)",
        "rests: start",
    ]
    steps = plan(declaration, there, {"same", "rests"}, prune=False, start=False)
    assert [str(step) for step in steps] == ["same: keep", "rests: keep"]
