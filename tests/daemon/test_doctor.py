"""What the doctor finds, and what it tells to do about it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from s0d.daemon.doctor import Finding, examine
from s0d.process.detect import SWITCHED_OFF

CGROUP: dict[str, Any] = {
    "mode": "cgroup",
    "base": "/sys/fs/cgroup/s0d",
    "controllers": ["cpu", "memory", "pids"],
    "missing": [],
}


def look(tmp_path: Path, in_force: dict[str, Any], **environ: str) -> dict[str, list[Finding]]:
    """The findings by name; state and runtime directory are below `tmp_path`."""
    places = {"S0D_STATE_DIR": f"{tmp_path}/state", "S0D_RUNTIME_DIR": f"{tmp_path}/run"}
    found: dict[str, list[Finding]] = {}
    for finding in examine({**places, **environ}, os.geteuid(), None, in_force):
        found.setdefault(finding.name, []).append(finding)
    return found


def test_all_is_well(tmp_path: Path) -> None:
    found = look(tmp_path, CGROUP)
    assert list(found) == ["trees", "limits", "descriptors", "state", "runtime"]
    assert all(one.well for some in found.values() for one in some)
    (limits,) = found["limits"]
    assert limits.text == "enforced: memory_max_bytes, pids_max, cpu_max, nofile, core"
    assert "/sys/fs/cgroup/s0d" in found["trees"][0].text


def test_a_missing_controller(tmp_path: Path) -> None:
    enforced, refused = look(tmp_path, CGROUP | {"controllers": ["pids"]})["limits"]
    assert enforced.text == "enforced: pids_max, nofile, core"
    assert refused.text.endswith(": memory_max_bytes, cpu_max")
    assert "Delegate=yes" in refused.mend


@pytest.mark.parametrize(
    ("missing", "way"),
    [
        (SWITCHED_OFF, "--no-cgroups"),
        ("no cgroup v2 is mounted (Linux 5.14 or newer)", "unified_cgroup_hierarchy=1"),
        ("the kernel has no cgroup.kill (Linux 5.14 or newer)", "Linux 5.14"),
        ("/x: no cgroup can be made there: Permission denied", "Delegate=yes"),
    ],
)
def test_the_way_to_cgroups(tmp_path: Path, missing: str, way: str) -> None:
    found = look(tmp_path, {"mode": "proc", "controllers": [], "missing": [missing]})
    (trees,) = found["trees"]
    assert missing in trees.text
    assert way in trees.mend
    assert [one.well for one in found["limits"]] == [True, False]


def test_without_a_daemon_the_machine_itself_is_asked(tmp_path: Path) -> None:
    trees = examine({}, os.geteuid(), tmp_path, None)[0]
    assert trees.name == "trees"
    assert ("is a cgroup below" in trees.text) == trees.well


def test_directories_that_others_could_write_to(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    assert look(tmp_path, CGROUP)["state"] == [Finding("state", str(state))]
    state.chmod(0o750)
    assert look(tmp_path, CGROUP)["state"][0].mend == f"chmod 700 {state}"
    state.rmdir()
    state.write_text("")
    assert look(tmp_path, CGROUP)["state"][0].text == f"{state} is not a directory"
    (tmp_path / "run").symlink_to(tmp_path)
    assert look(tmp_path, CGROUP)["runtime"][0].text == f"{tmp_path}/run is not a directory"


def test_a_directory_of_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    places = {"S0D_STATE_DIR": f"{tmp_path}/state", "S0D_RUNTIME_DIR": f"{tmp_path}/run"}
    uid = os.geteuid() + 1
    (state,) = (f for f in examine(places, uid, None, CGROUP) if f.name == "state")
    assert state.mend == f"chown {uid} {tmp_path}/state"


def test_directories_that_are_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(tmp_path, CGROUP)["state"][0].text == f"{tmp_path}/state will be made"
    given = examine({}, os.geteuid(), tmp_path / "a" / "b", CGROUP)
    assert f"{tmp_path}/a/b will be made" in [finding.text for finding in given]
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere
    (state,) = look(tmp_path, CGROUP)["state"]
    assert state.text == f"{tmp_path}/state cannot be made: {tmp_path} is not writable"
    assert not state.well
