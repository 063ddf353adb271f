"""The daemon raises its own limit of descriptors; programs start with the one it was given."""

from __future__ import annotations

import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from s0d.supervisor import open_supervisor
from tests.support.daemon import Daemon
from tests.support.sessions import create, follow_until, output_of, shell


@contextmanager
def soft_limit(soft: int) -> Iterator[int]:
    """What is started within has this soft limit; gives the hard one."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, before[1]))
    try:
        yield before[1]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def limits_in_a_child(daemon: Daemon, *options: str) -> list[int]:
    script = "ulimit -Sn; ulimit -Hn"
    done = daemon.cli("run", "--rm", "--cwd", "/", *options, "--", "sh", "-c", script)
    assert done.returncode == 0, done
    return [int(word) for word in done.stdout.split()]


@pytest.mark.parametrize("arguments", [[], ["--no-cgroups"], ["--run-as", "daemon"]])
def test_a_child_gets_back_what_the_daemon_was_started_with(
    make_program: Callable[..., Daemon], arguments: list[str]
) -> None:
    if "--run-as" in arguments and os.geteuid() != 0:
        pytest.skip("only root may change its identity")
    daemon = make_program(*arguments)
    with soft_limit(300) as hard:
        daemon.start()
    (line,) = (
        line
        for line in Path(f"/proc/{daemon.pid}/limits").read_text().splitlines()
        if line.startswith("Max open files")
    )
    assert line.split()[3:5] == [str(hard), str(hard)], "the daemon itself has all there is"
    for options in ([], ["--pty"]):
        assert limits_in_a_child(daemon, *options) == [300, hard]


async def limits_of(short_dir: Path, nofile_soft: int | None, **limits: int) -> list[int]:
    async with open_supervisor(short_dir / "state", nofile_soft=nofile_soft) as supervisor:
        session = await create(supervisor, shell("ulimit -Sn; ulimit -Hn", limits=limits))
        events = await follow_until(session, "attempt.exited")
    return [int(word) for word in output_of(events).split()]


async def test_a_limit_of_the_session_comes_first(short_dir: Path) -> None:
    assert await limits_of(short_dir, 300, nofile=200) == [200, 200]


async def test_embedded_it_is_the_programs_own(short_dir: Path) -> None:
    assert await limits_of(short_dir, None) == list(resource.getrlimit(resource.RLIMIT_NOFILE))
