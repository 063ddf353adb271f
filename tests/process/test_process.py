# ruff: noqa: ASYNC222  (small files, in tests)
"""How a process ended, and who gets a signal."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import trio

from s0d.model.signals import signal_name
from s0d.process import proc
from s0d.process.pty import TerminalSize
from s0d.process.request import SpawnRequest
from s0d.process.spawner import Spawner
from s0d.process.status import ExitStatus

from .conftest import PATIENCE, Run, Start


@pytest.mark.parametrize("code", [0, 1, 127, 255])
async def test_exit_code(run: Run, code: int) -> None:
    assert (await run("/bin/sh", "-c", f"exit {code}")).status == ExitStatus(code)


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGUSR1", "SIGPIPE"])
async def test_ended_by_a_signal(run: Run, name: str) -> None:
    number = getattr(signal, name)
    result = await run("/bin/sh", "-c", f"kill -{number} $$")
    assert result.status == ExitStatus(128 + number, name)


async def test_core_dumped_is_told(run: Run, public_dir: Path) -> None:
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    public_dir.chmod(0o777)
    script = "ulimit -c unlimited; kill -SEGV $$"
    result = await run("/bin/sh", "-c", script, cwd=str(public_dir))
    cores = list(public_dir.iterdir())
    assert (result.status.exit_code, result.status.signal) == (139, "SIGSEGV")
    if not pattern.startswith(("|", "/")):
        assert result.status.core_dumped == bool(cores)


def test_names_of_signals() -> None:
    assert signal_name(15) == "SIGTERM"
    assert signal_name(signal.SIGRTMIN) == "SIGRTMIN"
    assert signal_name(signal.SIGRTMIN + 3) == "SIGRTMIN+3"


async def test_any_number_of_tasks_may_wait(start: Start) -> None:
    running = await start("/bin/sleep", "100")
    found: list[ExitStatus] = []

    async def wait() -> None:
        found.append(await running.process.wait())

    with trio.fail_after(PATIENCE):
        async with trio.open_nursery() as nursery:
            cancelled = trio.CancelScope()

            async def first() -> None:
                with cancelled:
                    await wait()

            nursery.start_soon(first)
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(wait)
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            cancelled.cancel()
            running.process.signal(signal.SIGTERM)
    assert found == [ExitStatus(143, "SIGTERM")] * 2
    assert running.process.status == found[0]


async def test_the_leader_keeps_its_number_until_close(spawner: Spawner) -> None:
    process = await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/"))
    await process.wait()
    stat = proc.read_stat(process.pid)
    assert stat is not None
    assert (stat.state, stat.alive) == ("Z", False)
    assert process.pid in spawner.registry
    process.close()
    process.close()
    assert proc.read_stat(process.pid) is None
    assert process.pid not in spawner.registry


async def test_a_status_taken_by_somebody_else_is_not_made_up(spawner: Spawner) -> None:
    process = await spawner.spawn(SpawnRequest("a", ["/bin/true"], {}, "/"))
    os.waitpid(process.pid, 0)
    status = await process.wait()
    process.close()
    assert not status.known


async def test_signal_goes_to_the_whole_group(start: Start) -> None:
    script = (
        "trap 'exit 7' USR1; sh -c 'trap \"echo child; exit\" USR1; echo up; read x' & wait; wait"
    )
    script = "(trap 'echo child; exit' USR1; echo up; while :; do sleep 100 & wait $!; done) & "
    script += "trap 'echo leader; wait; exit 7' USR1; echo up; wait"
    running = await start("/bin/sh", "-c", script)
    await running.output(b"up\nup\n")
    running.process.signal(signal.SIGUSR1)
    output = await running.output(b"child")
    output = await running.output(b"leader")
    assert sorted(output.split()) == [b"child", b"leader", b"up", b"up"]


async def test_signal_after_the_end_is_refused(start: Start) -> None:
    running = await start("/bin/true")
    await running.process.wait()
    with pytest.raises(ProcessLookupError):
        running.process.signal(signal.SIGTERM)


JOB = """
import os, signal, time
def say(who, number):
    os.write(1, f"{who} {number};".encode())
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda n, f: say("shell", n))
child = os.fork()
if not child:
    os.setpgid(0, 0)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, f: say("job", n))
    os.tcsetpgrp(0, os.getpgid(0))
    say("ready", 0)
while True:
    time.sleep(0.01)  # a long one would miss a signal that comes just before it
"""


async def test_in_a_terminal_interrupt_goes_to_the_foreground(start: Start) -> None:
    running = await start("python3", "-c", JOB, terminal=True)
    await running.output(b"ready")
    running.process.signal(signal.SIGINT)
    await running.output(b"job 2;")
    running.process.signal(signal.SIGTERM)
    output = await running.output(b"shell 15;")
    assert b"shell 2" not in output
    assert b"job 15" not in output


async def test_resize_is_seen_and_signalled(start: Start) -> None:
    script = "trap 'stty size; exit' WINCH; echo up; while :; do sleep 0.05; done"
    running = await start("/bin/sh", "-c", script, terminal=TerminalSize(24, 80))
    await running.output(b"up")
    running.process.resize(TerminalSize(50, 65535))
    await running.output(b"50 65535")


async def test_resize_of_pipes_is_refused(start: Start) -> None:
    running = await start("/bin/sleep", "100")
    with pytest.raises(ValueError, match="no terminal"):
        running.process.resize(TerminalSize(1, 1))


async def test_a_terminal_may_be_closed_and_reopened(start: Start) -> None:
    """While nobody but the supervisor has it open it must not look as if it had ended."""
    script = "exec <&- >&- 2>&-; sleep 0.2; echo back > /dev/tty"
    running = await start("/bin/sh", "-c", script, terminal=True)
    assert (await running.ended()).stdout == b"back\r\n"
