"""Another user's programs are that user's in everything, and we stay who we are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from s0d.process import libc
from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.identity import look_up
from s0d.process.request import Identity, ResourceLimits

from .conftest import MakeTree, Run, Start

NOBODY = Identity(65534, 65534, (65534, 100))
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="only root may change its identity")


def identities() -> list[str]:
    """Of every thread of ours."""
    wanted = ("Uid:", "Gid:", "Groups:")
    found = []
    for status in Path("/proc/self/task").glob("*/status"):
        lines = status.read_text().splitlines()
        found.append("".join(line for line in lines if line.startswith(wanted)))
    return found


@root_only
@pytest.mark.parametrize("limits", [ResourceLimits(), ResourceLimits(nofile=99, core=0)])
async def test_all_ids_and_nothing_of_root(run: Run, limits: ResourceLimits) -> None:
    before = set(identities())
    result = await run("/bin/cat", "/proc/self/status", run_as=NOBODY, limits=limits)
    lines = dict(line.split(":\t") for line in result.stdout.decode().splitlines() if ":\t" in line)
    assert lines["Uid"].split() == ["65534"] * 4
    assert lines["Gid"].split() == ["65534"] * 4
    assert lines["Groups"].split() == ["100", "65534"]
    assert {lines[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")} == {"0" * 16}
    assert set(identities()) == before


@root_only
async def test_the_terminal_is_the_users(run: Run) -> None:
    script = "stat -c '%u %a' $(tty); echo again > $(tty)"
    result = await run("/bin/sh", "-c", script, run_as=NOBODY, terminal=True)
    owner, again = result.stdout.decode().splitlines()
    assert owner.startswith("65534 6")
    assert again == "again"


@root_only
async def test_the_pipes_can_be_reopened_by_name(run: Run) -> None:
    script = "echo out > /dev/stdout; echo err > /dev/stderr"
    result = await run("/bin/sh", "-c", script, run_as=NOBODY)
    assert (result.status.exit_code, result.stdout, result.stderr) == (0, b"out\n", b"err\n")


@root_only
@pytest.mark.parametrize(
    ("cwd", "program", "kind", "path"),
    [
        ("{dir}", "/bin/true", SpawnErrorKind.CWD_DENIED, "{dir}"),
        ("/", "{dir}/tool", SpawnErrorKind.ACCESS_DENIED, "{dir}/tool"),
    ],
)
async def test_its_rights_are_the_users(
    start: Start, public_dir: Path, cwd: str, program: str, kind: SpawnErrorKind, path: str
) -> None:
    (public_dir / "tool").write_text("#!/bin/sh\n")
    public_dir.chmod(0o700)
    with pytest.raises(SpawnError) as caught:
        await start(program.format(dir=public_dir), cwd=cwd.format(dir=public_dir), run_as=NOBODY)
    assert (caught.value.kind, caught.value.path) == (kind, path.format(dir=public_dir))


@root_only
async def test_owned_like_any_other(start: Start, make_tree: MakeTree) -> None:
    script = "trap '' TERM; setsid sleep 1000 & echo ready; wait"
    running = await start("/bin/sh", "-c", script, run_as=NOBODY, make=make_tree)
    await running.output(b"ready")
    members = running.tree.members()
    assert len(members) == 2
    assert {os.stat(f"/proc/{pid}").st_uid for pid in members} == {65534}
    report = await running.tree.end(0.1)
    assert (report.survivors, report.killed) == ((), True)
    assert (await running.process.wait()).signal == "SIGKILL"


@root_only
async def test_no_thread_is_left_and_we_can_still_be_traced(run: Run) -> None:
    threads = set(threading.enumerate())
    dumpable = libc.prctl(libc.PR_GET_DUMPABLE)
    await run("/bin/true", run_as=NOBODY)
    assert set(threading.enumerate()) == threads
    assert libc.prctl(libc.PR_GET_DUMPABLE) == dumpable


@root_only
async def test_works_where_the_daemon_is_not_dumpable(run: Run, make_tree: MakeTree) -> None:
    before = libc.prctl(libc.PR_GET_DUMPABLE)
    libc.prctl(libc.PR_SET_DUMPABLE, 0)
    try:
        for terminal in (False, True):
            for identity in (None, NOBODY):
                result = await run(
                    "/usr/bin/id", "-u", run_as=identity, make=make_tree, terminal=terminal
                )
                assert result.stdout.split() == [b"65534" if identity else b"0"]
        assert libc.prctl(libc.PR_GET_DUMPABLE) == 0
    finally:
        libc.prctl(libc.PR_SET_DUMPABLE, before)


async def test_our_own_identity_needs_no_right(run: Run) -> None:
    own = Identity(os.getuid(), os.getgid(), tuple(os.getgroups()))
    result = await run("/usr/bin/id", "-u", run_as=own)
    assert result.stdout.split() == [str(os.getuid()).encode()]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
async def test_without_the_right_it_is_refused(start: Start) -> None:
    with pytest.raises(SpawnError) as caught:
        await start("/bin/true", run_as=Identity(1, 1))
    assert (caught.value.kind, caught.value.errno) == (SpawnErrorKind.IDENTITY, 1)


def test_look_up_by_name_and_number() -> None:
    identity, entry = look_up("root")
    assert (identity.uid, identity.gid, entry.name, entry.home) == (0, 0, "root", "/root")
    assert 0 in identity.groups
    assert look_up("0") == (identity, entry)
    with pytest.raises(KeyError):
        look_up("no-such-user-here")
