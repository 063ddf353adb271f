"""What the machine allows, and why not more."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

import pytest

from s0d.process import detect
from s0d.process.detect import CgroupHome, own_cgroup

HYBRID = (
    "31 1 0:27 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"
    "32 31 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 {root} /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n"
)


def fake(directory: Path, mountinfo: str, own: str) -> str:
    (directory / "mountinfo").write_text(mountinfo)
    (directory / "cgroup").write_text(f"4:memory:/elsewhere\n0::{own}\n")
    return str(directory)


@pytest.mark.parametrize(
    ("root", "own", "expected"),
    [
        ("/", "/", "/sys/fs/cgroup/unified"),
        ("/", "/system.slice/s0d.service", "/sys/fs/cgroup/unified/system.slice/s0d.service"),
        ("/docker/1", "/docker/1/a", "/sys/fs/cgroup/unified/a"),
        ("/", "/s0d.service/s0d-daemon", "/sys/fs/cgroup/unified/s0d.service"),
    ],
)
def test_where_we_are(tmp_path: Path, root: str, own: str, expected: str) -> None:
    assert own_cgroup(fake(tmp_path, HYBRID.format(root=root), own)) == expected


def test_where_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake(tmp_path, HYBRID.splitlines()[0], "/")
    assert own_cgroup(path) is None
    monkeypatch.setattr(detect, "own_cgroup", lambda: None)
    found = detect.detect()
    assert (found.mode, found.base) == ("proc", None)
    assert "no cgroup v2 is mounted" in found.missing[0]


def test_a_place_where_none_can_be_made_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "own_cgroup", lambda: f"{tmp_path}/gone")
    found = detect.detect()
    assert found.mode == "proc"
    assert f"{tmp_path}/gone" in found.missing[0]
    assert "Delegate=yes" in found.missing[0]


def test_a_kernel_without_cgroup_kill_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "own_cgroup", lambda: str(tmp_path))  # no cgroup file system
    found = detect.detect()
    assert found.mode == "proc"
    assert "cgroup.kill" in found.missing[0]
    assert list(tmp_path.iterdir()) == []


def test_this_machine() -> None:
    before = set(os.listdir(own_cgroup() or "/"))
    found = detect.detect()
    assert set(os.listdir(own_cgroup() or "/")) == before
    if found.mode == "proc":
        assert found.missing
        return
    assert found.base == own_cgroup()
    home = CgroupHome.open(str(found.base), f"s0d-test-{secrets.token_hex(4)}")
    again = CgroupHome.open(str(found.base), Path(home.path).name)
    assert (again.path, again.leftovers()) == (home.path, [])
    home.close()
    assert not Path(home.path).exists()
