"""The doctor and a real daemon: what is in force is what the daemon says, in its log too."""

from __future__ import annotations

import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable

import pytest

from s0d.process.detect import SWITCHED_OFF, detect
from tests.support.daemon import TOKEN, Daemon


@pytest.mark.parametrize("arguments", [[], ["--no-cgroups"]])
def test_what_is_in_force(make_daemon: Callable[..., Daemon], arguments: list[str]) -> None:
    daemon = make_daemon(*arguments)
    daemon.start()
    done = daemon.cli("doctor", "-o", "json", "--state-dir", str(daemon.state_dir))
    report = json.loads(done.stdout)
    assert done.returncode == (0 if report["ok"] else 1)
    told = report["daemon"]
    assert (told["pid"], told["uid"], told["sessions"]) == (daemon.pid, os.geteuid(), 0)
    ownership = told["ownership"]
    expected = "proc" if arguments else detect().mode
    assert ownership["mode"] == expected
    findings = {f["name"]: f for f in report["findings"]}
    assert findings["trees"]["ok"] == (expected == "cgroup")
    assert findings["state"] == {"name": "state", "ok": True, "text": str(daemon.state_dir)}
    assert findings["daemon"]["ok"]
    if arguments:
        assert ownership["missing"] == [SWITCHED_OFF]
        assert findings["trees"]["mend"] == "start `s0d serve` without --no-cgroups"
    (line,) = (li for li in daemon.log() if li["message"] == "ownership of process trees")
    assert (line["mode"], line["base"]) == (ownership["mode"], ownership.get("base", ""))
    assert line["missing"] == "; ".join(ownership["missing"])
    assert TOKEN not in done.stdout.decode()


def test_only_who_may_read_is_told(shared_daemon: Daemon) -> None:
    request = urllib.request.Request(f"{shared_daemon.url}/api/v1/status")
    with pytest.raises(urllib.error.HTTPError, match="401"):
        urllib.request.urlopen(request)
    request.add_header("Authorization", f"Bearer {TOKEN}")
    with urllib.request.urlopen(request) as answer:
        assert json.load(answer)["data"]["pid"] == shared_daemon.pid
