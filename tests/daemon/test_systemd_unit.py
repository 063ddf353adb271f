"""The units in `contrib/systemd/`: systemd understands them, and they say what the daemon needs."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "contrib/systemd"
SERVICES = ("s0d.service", "s0d@.service")
ANALYZE = shutil.which("systemd-analyze")

needs_analyze = pytest.mark.skipif(ANALYZE is None, reason="no systemd-analyze here")


def parsed(name: str) -> dict[str, dict[str, str]]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNITS / name)
    return {section: dict(parser[section]) for section in parser.sections()}


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The units, with the program where it is here."""
    command = Path(sys.executable).parent / "s0d"
    for unit in UNITS.iterdir():
        text = unit.read_text().replace("/usr/local/bin/s0d", str(command))
        (tmp_path / unit.name.replace("@.", "@build.")).write_text(text)
    return tmp_path


@needs_analyze
@pytest.mark.parametrize(
    "name", ["s0d.service", "s0d@build.service", "s0d.socket", "s0d-tcp.socket"]
)
def test_systemd_understands_it(installed: Path, name: str) -> None:
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(installed / name)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert [line for line in done.stderr.splitlines() if "s0d" in line] == []
    assert done.returncode == 0, done.stderr


@needs_analyze
@pytest.mark.parametrize("name", ["s0d.service", "s0d@build.service"])
def test_its_exposure_is_no_more_than_it_was(installed: Path, name: str) -> None:
    """Of ten.  What runs any program for its users is exposed; this is to stay as it is."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=85", str(installed / name)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if "offline" in done.stderr and done.returncode:
        pytest.skip("this systemd-analyze cannot look at files")
    assert done.returncode == 0, done.stdout[-500:] + done.stderr


@pytest.mark.parametrize("name", SERVICES)
def test_it_says_what_the_daemon_needs(name: str) -> None:
    service = parsed(name)["Service"]
    instance = "s0d-%i" if "@" in name else "s0d"
    wanted = {
        "Type": "notify",
        "WatchdogSec": "60s",
        "Delegate": "yes",
        "KillMode": "mixed",
        "OOMPolicy": "continue",
        "StateDirectory": instance,
        "StateDirectoryMode": "0700",  # systemd's own default, 0755, would be refused
        "RuntimeDirectory": instance,
        "RuntimeDirectoryMode": "0700",
        "ExecReload": "/bin/kill -HUP $MAINPID",
    }
    assert {key: service.get(key) for key in wanted} == wanted


def test_both_services_are_hardened_alike() -> None:
    one, many = (parsed(name)["Service"] for name in SERVICES)
    own = {"ExecStart", "StateDirectory", "RuntimeDirectory", "RuntimeDirectoryPreserve"}
    assert {k: v for k, v in one.items() if k not in own} == {
        k: v for k, v in many.items() if k not in own
    }


@needs_analyze
def test_every_line_of_hardening_is_there_or_has_a_reason(installed: Path) -> None:
    """What systemd-analyze asks about, and the unit neither says nor gives a reason for."""
    done = subprocess.run(
        [
            "systemd-analyze",
            "security",
            "--offline=true",
            "--json=short",
            str(installed / "s0d.service"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if done.returncode:
        pytest.skip("this systemd-analyze cannot look at files")
    text = (UNITS / "s0d.service").read_text()
    asked = set(re.findall(r'"name":"([A-Za-z]+)=', done.stdout))
    if not asked:
        pytest.skip("this systemd-analyze gives no names")
    assert {name for name in asked if f"{name}=" not in text} == set()


def test_sockets_are_known_by_name() -> None:
    for name, known in (("s0d.socket", "unix"), ("s0d-tcp.socket", "tcp")):
        section = parsed(name)["Socket"]
        assert section["FileDescriptorName"] == known
        assert section["Service"] == "s0d.service"
    assert parsed("s0d.socket")["Socket"]["SocketMode"] == "0600"
    assert parsed("s0d.service")["Service"]["RuntimeDirectoryPreserve"] == "yes"


@pytest.mark.parametrize(
    ("program", "file"),
    [("systemd-sysusers", "sysusers.conf"), ("systemd-tmpfiles", "tmpfiles.conf")],
)
def test_snippets(tmp_path: Path, program: str, file: str) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"no {program} here")
    (tmp_path / "etc").mkdir()
    order = ["systemd-sysusers", f"--root={tmp_path}", str(UNITS / "sysusers.conf")]
    done = subprocess.run(order, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "s0d-session:" in (tmp_path / "etc/passwd").read_text()
    if file == "tmpfiles.conf":
        order = ["systemd-tmpfiles", "--create", f"--root={tmp_path}", str(UNITS / file)]
        done = subprocess.run(order, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        assert (tmp_path / "etc/s0d").stat().st_mode & 0o777 == 0o750
