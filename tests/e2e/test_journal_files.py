"""`s0d journal` beside a real daemon, and after one that was killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.daemon import Daemon


def s0d(daemon: Daemon, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "s0d", *map(str, arguments)]
    environment = daemon.client_environment
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)


def verified(daemon: Daemon, *flags: str) -> tuple[int, list[dict[str, Any]]]:
    done = s0d(daemon, "journal", "verify", "-o", "json", *flags, daemon.state_dir)
    assert done.stderr == ""
    return done.returncode, json.loads(done.stdout)


def test_the_life_of_a_journal(daemon: Daemon) -> None:
    done = s0d(daemon, "run", "--", "sh", "-c", "echo hello; echo bye >&2")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    (made,) = json.loads(s0d(daemon, "session", "list", "-o", "json").stdout)
    events = json.loads(s0d(daemon, "session", "events", made["id"], "-o", "json").stdout)
    code, (found,) = verified(daemon)
    assert (code, found["status"], found["session_id"]) == (0, "sound", made["id"])
    assert found["last"] == made["cursor"]["latest"]
    path = found["path"]
    dumped = s0d(daemon, "journal", "dump", path).stdout.splitlines()
    assert [json.loads(line) for line in dumped] == events
    refused = s0d(daemon, "journal", "verify", "--repair", path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.endswith(f"is in use by process {daemon.pid}\n")
    daemon.kill()
    with open(f"{path}/00000000000000000001.seg", "ab") as file:
        file.write(b"torn")
    code, (found,) = verified(daemon, "--repair")
    assert (code, found["status"], found["clean"]) == (1, "repaired", False)
    assert verified(daemon)[0] == 0
    assert [kept.read_bytes() for kept in Path(path).glob("*.kept")] == [b"torn"]
    daemon.start()
    (again,) = json.loads(s0d(daemon, "session", "list", "-o", "json").stdout)
    assert (again["id"], again["phase"]) == (made["id"], "exited")
    later = json.loads(s0d(daemon, "session", "events", made["id"], "-o", "json").stdout)
    assert later[: len(events)] == events
    assert verified(daemon)[0] == 0
