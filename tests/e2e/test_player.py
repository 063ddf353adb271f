"""Recordings in asciinema's own player (npm's `asciinema-player`, under node)."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.daemon import Daemon
from tests.support.node import node_modules

PROGRAM = Path(__file__).with_name("player.mjs")
TIMEOUT = 60.0


SCRIPT = r"""stty -echo; printf 'name? '; read x; printf 'gr\303\274\303\237 %s\n' "$x" """


@pytest.mark.parametrize("form", ["asciicast-v2", "asciicast-v3"])
@pytest.mark.parametrize("retained", [True, False])
def test_a_recording_plays(
    form: str, retained: bool, shared_daemon: Daemon, tmp_path: Path
) -> None:
    modules = node_modules("asciinema-player")
    spec = {
        "command": ["sh", "-c", SCRIPT],
        "io": {"mode": "pty"},
        "event_retention": {"input": retained},
    }
    headers = {"authorization": f"Bearer {shared_daemon.token}"}
    base = f"{shared_daemon.url}/api/v1/sessions"
    with httpx.Client(headers=headers, timeout=TIMEOUT, trust_env=False) as client:

        def post(path: str, body: Any) -> Any:
            return client.post(base + path, json=body).raise_for_status().json()["data"]

        session = f"/{post('', spec)['id']}"
        post(f"{session}/wait", {"for": {"screen": "name?"}})
        client.put(f"{base}{session}/terminal", json={"rows": 30, "cols": 100}).raise_for_status()
        post(f"{session}/keys", {"keys": ["Ada", "Enter"]})
        post(f"{session}/wait", {"for": {"exit": True}})
        query = {"format": form, "input": "true"}
        recording = client.get(f"{base}{session}/recording", params=query).raise_for_status()
    cast = tmp_path / "demo.cast"
    cast.write_bytes(recording.content)
    given = play(modules, cast)
    written = "".join(text for kind, data in given if kind == "output" for text in data)
    assert written == "name? grüß Ada\r\n"
    assert ["resize", {"cols": 100, "rows": 30}] in given
    typed = [data["data"] for kind, data in given if kind == "input"]
    markers = [data["label"] for kind, data in given if kind == "marker"]
    assert (typed, markers) == ((["Ada\r"], []) if retained else ([], ["input: 4 bytes"]))


def play(modules: str, cast: Path) -> Any:
    command = ["node", str(PROGRAM), modules, str(cast)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)
