"""The unit in `contrib/systemd/`: systemd understands it, and it says what the daemon needs."""

from __future__ import annotations

import configparser
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNIT = Path(__file__).parents[2] / "contrib/systemd/s0d.service"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_understands_it(tmp_path: Path) -> None:
    command = Path(sys.executable).parent / "s0d"
    text = UNIT.read_text()
    assert "ExecStart=/usr/local/bin/s0d serve" in text
    unit = tmp_path / "s0d.service"
    unit.write_text(text.replace("/usr/local/bin/s0d", str(command)))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line for line in done.stderr.splitlines() if "s0d" in line] == []
    assert done.returncode == 0, done.stderr


def test_it_says_what_the_daemon_needs() -> None:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    service = dict(parser["Service"])
    wanted = {
        "Type": "notify",
        "Delegate": "yes",
        "KillMode": "mixed",
        "StateDirectory": "s0d",
        "StateDirectoryMode": "0700",  # systemd's own default, 0755, would be refused
        "RuntimeDirectory": "s0d",
        "RuntimeDirectoryMode": "0700",
    }
    assert {name: service.get(name) for name in wanted} == wanted
