"""A machine of its own for a test: a live systemd in namespaces, with our units and nothing else.

It has its own processes, mounts, cgroups, network and host name; /run and /var/lib are empty, the
rest of the file system is the real one.  What ends it is the end of its process 1.
"""

from __future__ import annotations

import contextlib
import functools
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

UNITS = Path(__file__).parents[2] / "contrib/systemd"
SYSTEMD = "/lib/systemd/systemd"
TOOLS = ("unshare", "nsenter", "mount", "umount", "systemctl")
PROGRAM = (sys.executable, "-m", "s0d")
PATIENCE = 30.0

# Targets that units have around them by default; the real ones would start the real system.
TARGETS = (
    "sysinit", "basic", "sockets", "shutdown", "multi-user", "network", "time-sync", "umount",
    "final", "test",
)  # fmt: skip

BOOT = f"""
set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mount -t tmpfs tmpfs /var/lib
umount -R /sys/fs/cgroup
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount --make-rshared /
exec env -i container=s0d-test SYSTEMD_UNIT_PATH="$1" PATH="$PATH" \\
  SYSTEMD_PROC_CMDLINE=systemd.unified_cgroup_hierarchy=1 \\
  {SYSTEMD} --system --unit=test.target --log-target=console --show-status=no
"""


@functools.cache
def _hierarchy() -> Path | None:
    """Where the cgroups of version 2 are mounted."""
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, where, kind, options, *_ = line.split()
        if kind == "cgroup2" and "rw" in options.split(","):
            return Path(where)
    return None


@functools.cache
def missing() -> str | None:
    """Why there can be no such machine here; None where there can."""
    if os.geteuid() != 0:
        return "only root can have a systemd in namespaces"
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent or not os.access(SYSTEMD, os.X_OK):
        return f"not installed: {' '.join(absent or ['systemd'])}"
    if _hierarchy() is None:
        return "no cgroups of version 2"
    trial = ["unshare", "--pid", "--fork", "--mount", "--cgroup", "--uts", "--ipc", "--net", "true"]
    done = subprocess.run(trial, capture_output=True, text=True)
    return None if done.returncode == 0 else f"no namespaces here: {done.stderr.strip()}"


class Machine:
    """Its units are those of `contrib/systemd`; `settings` are added to one by `adjust`."""

    def __init__(self, directory: Path, hierarchy: Path) -> None:
        self.units = directory / "units"
        self.log = directory / "log"
        self._output = directory / "console"
        self._cgroup = hierarchy / f"s0d-test-{uuid.uuid4().hex[:12]}"
        self._process: subprocess.Popen[bytes] | None = None
        self._init = 0
        self.units.mkdir()
        for unit in UNITS.iterdir():
            shutil.copy(unit, self.units)
        for target in TARGETS:
            (self.units / f"{target}.target").write_text("[Unit]\nDefaultDependencies=no\n")
        for service in ("s0d.service", "s0d@.service"):
            words = (UNITS / service).read_text().split("ExecStart=/usr/local/bin/s0d ")[1]
            arguments = words.splitlines()[0]
            self.adjust(
                service,
                f"ExecStart=\nExecStart={sys.executable} -m s0d {arguments}\n"
                f"StandardOutput=append:{self.log}\nStandardError=append:{self.log}\n",
                name="program",
            )

    def adjust(self, unit: str, settings: str, *, name: str = "settings") -> None:
        """Add to the `[Service]` section of `unit`; before `boot`, or `systemctl daemon-reload`."""
        directory = self.units / f"{unit}.d"
        directory.mkdir(exist_ok=True)
        (directory / f"{name}.conf").write_text(f"[Service]\n{settings}")

    def boot(self, *units: str) -> None:
        """Start it, with `units`."""
        target = f"[Unit]\nDefaultDependencies=no\nWants={' '.join(units)}\n"
        (self.units / "test.target").write_text(target)
        self._cgroup.mkdir()
        command = ["unshare", "--pid", "--fork", "--kill-child", "--mount", "--cgroup"]
        command += ["--uts", "--ipc", "--net", "sh", "-c", BOOT, "sh", str(self.units)]
        enter = f'echo $$ >{self._cgroup}/cgroup.procs; exec "$@"'
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                ["sh", "-c", enter, "sh", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._wait_until(self._has_booted)

    def _has_booted(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self._output.read_text()
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        if not children:
            return False
        self._init = int(children.split()[0])
        state = self.run("systemctl", "is-system-running", check=False).stdout.strip()
        return state in ("running", "degraded")

    def run(
        self, *command: str, check: bool = True, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in it, as root."""
        enter = ["nsenter", "-t", str(self._init), "-m", "-p", "-C", "-n", "-u", "-i"]
        ours = {k: v for k, v in os.environ.items() if not k.startswith("S0D_")}
        done = subprocess.run(
            [*enter, *command],
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            env={**ours, "HOME": "/root", **(env or {})},
        )
        if check:
            said = self.log.read_text() if self.log.exists() else ""
            assert done.returncode == 0, f"{command}: {done.stderr}{done.stdout}{said[-3000:]}"
        return done

    def console(self) -> str:
        """What its systemd has said."""
        return self._output.read_text()

    def s0d(self, *arguments: str, **options: object) -> str:
        """Run our command line in it; its output."""
        done = self.run(*PROGRAM, *arguments, **options)  # type: ignore[arg-type]
        return done.stdout.strip()

    def property(self, unit: str, name: str) -> str:
        """What systemd says of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def wait_for(self, unit: str, name: str, value: str) -> None:
        """Until systemd says so of the unit."""
        self._wait_until(lambda: self.property(unit, name) == value)

    def _wait_until(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < deadline, self._output.read_text()
            time.sleep(0.02)

    def stop(self) -> None:
        """End it, and remove its cgroups."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._init or self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()
        if self._cgroup.exists():
            (self._cgroup / "cgroup.kill").write_text("1")
            self._wait_until(self._is_empty)
            for path, _, _ in os.walk(self._cgroup, topdown=False):
                os.rmdir(path)

    def _is_empty(self) -> bool:
        return "populated 0" in (self._cgroup / "cgroup.events").read_text()


@contextlib.contextmanager
def machine(directory: Path) -> Iterator[Machine]:
    """A machine that has not been booted; the test is skipped where there can be none."""
    reason, hierarchy = missing(), _hierarchy()
    if reason is not None or hierarchy is None:
        pytest.skip(reason or "no cgroups")
    made = Machine(directory, hierarchy)
    try:
        yield made
    finally:
        made.stop()
