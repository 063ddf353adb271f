"""The page's JavaScript snippets and the sandbox methods, with the SDK from npm.

The checks are in `sdk.mjs`: one node process runs them all against one daemon, and each is a test
here.  `S0D_TEST_NODE_MODULES` names the `node_modules` that holds the package.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.node import node_modules

PROGRAM = Path(__file__).with_name("sdk.mjs")
CHECKS = re.findall(r"^    async (\w+)\(\) \{$", PROGRAM.read_text(), re.MULTILINE)
TIMEOUT = 120.0


@pytest.fixture(scope="module", name="node_modules")
def the_node_modules() -> str:
    return node_modules("sandbox0")


@pytest.fixture(scope="module")
def outcomes(node_modules: str, shared_daemon: Daemon) -> dict[str, str | None]:
    """What each check came to: None, or its error."""
    ours = {
        "S0D_TEST_NODE_MODULES": node_modules,
        "S0D_URL": shared_daemon.url,
        "S0D_TOKEN": shared_daemon.token,
    }
    command = ["node", "--unhandled-rejections=strict", str(PROGRAM)]
    done = subprocess.run(
        command, env={**os.environ, **ours}, capture_output=True, text=True, timeout=TIMEOUT
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 0, done.stderr
    return {line["check"]: line.get("error") for line in lines}


@pytest.mark.parametrize("check", CHECKS)
def test_the_sdk_from_npm(check: str, outcomes: dict[str, str | None]) -> None:
    assert check in outcomes
    assert outcomes[check] is None, outcomes[check]


def test_the_readmes_quick_start(node_modules: str, shared_daemon: Daemon, tmp_path: Path) -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text()
    (snippet,) = re.findall(r"^```js\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL)
    assert "http://127.0.0.1:7707" in snippet
    program = tmp_path / "worker.mjs"
    program.write_text(snippet.replace("http://127.0.0.1:7707", shared_daemon.url))
    (tmp_path / "node_modules").symlink_to(node_modules)
    environment = {**os.environ, "S0D_TOKEN": shared_daemon.token}
    done = subprocess.run(
        ["node", str(program)], env=environment, capture_output=True, text=True, timeout=TIMEOUT
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "tick-1\ntick-2\ntick-3\ntick-4\n"


def test_the_list_of_checks_is_read_from_the_program() -> None:
    assert {"create_with_an_idempotency_key", "pause_and_resume", "fork"} <= set(CHECKS)
