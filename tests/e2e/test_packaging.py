"""The wheel, the source archive, the single file, and being PID 1 of a container."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import time
import zipfile
from pathlib import Path

import pytest

from s0d import __version__
from tests.support.leftovers import wait_for_text

ROOT = Path(__file__).parents[2]
PATIENCE = 60.0


def checkout(directory: Path) -> Path:
    """What would be built from: the sources without what tests leave behind."""
    ignored = shutil.ignore_patterns(".git", "__pycache__", ".*_cache", ".venv*", ".hypothesis")
    return Path(shutil.copytree(ROOT, directory / "checkout", ignore=ignored))


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling")
    directory = tmp_path_factory.mktemp("built")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory / "dist")]
    done = subprocess.run(
        command, cwd=checkout(directory), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return directory / "dist"


def test_the_wheel_holds_the_program_and_nothing_else(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name == f"s0d-{__version__}-py3-none-any.whl"
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {"s0d", f"s0d-{__version__}.dist-info"}
    modules = {str(p.relative_to(ROOT)) for p in (ROOT / "s0d").rglob("*.py")}
    assert {name for name in names if name.endswith(".py")} == modules
    entry = zipfile.ZipFile(wheel).read(f"s0d-{__version__}.dist-info/entry_points.txt")
    assert b"s0d = s0d.__main__:main" in entry


def test_the_source_archive_has_what_is_needed_to_build_and_test(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as tar:
        names = {name.partition("/")[2] for name in tar.getnames()}
    for wanted in (
        *("pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", "s0d/__init__.py"),
        *("tests/conftest.py", "docs/wire.md", "contrib/systemd/s0d.service"),
        "contrib/container/Containerfile",
    ):
        assert wanted in names
    assert not [name for name in names if "__pycache__" in name or name.startswith(".git/")]


@pytest.fixture(scope="module")
def single_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Made by the command in the README."""
    shiv = Path(sys.executable).parent / "shiv"
    if not shiv.exists():
        pytest.skip("shiv is not installed")
    directory = tmp_path_factory.mktemp("single")
    (command,) = re.findall(r"^shiv -c s0d .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    done = subprocess.run(
        command.replace("shiv", str(shiv), 1),
        shell=True,
        cwd=checkout(directory),
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode and re.search(
        "(?i)could not find a version|connection|resolve", done.stderr
    ):
        pytest.skip("the packages it needs cannot be had here")
    assert done.returncode == 0, done.stderr
    return directory / "checkout" / "s0d.pyz"


def interpreter() -> str:
    """A Python that has none of our packages."""
    return os.path.realpath(sys.executable)


def test_the_single_file_in_an_empty_environment(single_file: Path, short_dir: Path) -> None:
    """A daemon on demand, a session, its output, an orderly end; with Python and nothing else."""
    home, runtime = short_dir / "home", short_dir / "run"
    environment = {
        "HOME": str(home),
        "S0D_RUNTIME_DIR": str(runtime),
        "S0D_STATE_DIR": str(short_dir / "state"),
        "PATH": "/usr/bin:/bin",
        "TMPDIR": str(short_dir),
    }

    def s0d(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [interpreter(), "-I", str(single_file), *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=environment,
        )

    done = s0d("--version")
    assert (done.returncode, done.stdout) == (0, f"s0d {__version__}\n"), done.stderr
    done = s0d("run", "--", "sh", "-c", "echo hello; exit 3")
    assert (done.returncode, done.stdout) == (3, "hello\n"), done.stderr
    pid = int((short_dir / "state" / "lock").read_text().split()[0])
    try:
        assert str(single_file) in Path(f"/proc/{pid}/cmdline").read_text()
        assert s0d("session", "list").returncode == 0
    finally:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while os.path.exists(f"/proc/{pid}"):
            assert time.monotonic() < deadline
            time.sleep(0.02)
    assert not (runtime / "s0d.sock").exists()


# -- PID 1 -------------------------------------------------------------------------------------

UNSHARE = shutil.which("unshare")


@pytest.mark.skipif(UNSHARE is None or os.geteuid() != 0, reason="needs root and unshare(1)")
def test_as_the_first_process_of_a_container(short_dir: Path) -> None:
    """Strangers' orphans are reaped, sessions too; SIGTERM ends all in order."""
    log, socket = short_dir / "log", short_dir / "sock"
    with open(log, "wb") as stream:
        process = subprocess.Popen(
            [
                *(str(UNSHARE), "--pid", "--fork", "--mount-proc", "--kill-child"),
                *(sys.executable, "-m", "s0d", "serve", "--no-cgroups", "--log-format", "json"),
                *("--state-dir", str(short_dir / "state"), "--listen", f"unix:{socket}"),
            ],
            stderr=stream,
            env={**os.environ, "S0D_TOKEN": "x" * 40},
            cwd=ROOT,
        )
    try:
        wait_for_text(log, '"message": "serving"')
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (first,) = map(int, children)
        assert f"\nNSpid:\t{first}\t1\n" in Path(f"/proc/{first}/status").read_text()
        inside = ["nsenter", "-t", str(first), "-p", "-m"]
        strays = "for i in 1 2 3 4 5; do (sh -c 'sleep 0.1; exit 7' &) ; done"
        subprocess.run([*inside, "sh", "-c", strays], check=True, timeout=PATIENCE)
        environment = {**os.environ, "S0D_URL": f"unix:{socket}"}
        orphans = "(setsid sh -c 'sleep 0.1; exit 3' &); (sleep 1000 &); echo up; exit 5"
        done = subprocess.run(
            [*inside, sys.executable, "-m", "s0d", "run", "--", "sh", "-c", orphans],
            capture_output=True,
            env=environment,
            timeout=PATIENCE,
            cwd=ROOT,
        )
        assert (done.returncode, done.stdout) == (5, b"up\n"), done.stderr
        deadline = time.monotonic() + PATIENCE
        while Path(f"/proc/{first}/task/{first}/children").read_text().split():
            assert time.monotonic() < deadline, "an orphan was not reaped"
            time.sleep(0.02)
        create = ["session", "create", "--", "sleep", "1000"]
        subprocess.run(
            [*inside, sys.executable, "-m", "s0d", *create],
            check=True,
            capture_output=True,
            env=environment,
            timeout=PATIENCE,
            cwd=ROOT,
        )
        os.kill(first, signal.SIGTERM)
        assert process.wait(PATIENCE) == 0
    finally:
        process.kill()
        process.wait()
    assert '"signal": "SIGTERM"' in log.read_text()


def test_the_container_runs_it_as_the_first_process() -> None:
    text = (ROOT / "contrib/container/Containerfile").read_text()
    (entry,) = re.findall(r"^ENTRYPOINT (.*)$", text, re.MULTILINE)
    assert entry.startswith('["s0d", "serve"')  # the exec form: no shell in between
    assert "STOPSIGNAL SIGTERM" in text


@pytest.mark.skipif(shutil.which("docker") is None, reason="no docker here")
@pytest.mark.long
def test_the_container_is_built_and_stopped(short_dir: Path) -> None:
    def docker(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=600)

    if docker("info").returncode:
        pytest.skip("no docker daemon here")
    file = str(ROOT / "contrib/container/Containerfile")
    built = docker("build", "-q", "-f", file, "-t", "s0d-test", str(checkout(short_dir)))
    if built.returncode:
        pytest.skip(f"the image cannot be built here: {built.stderr[-300:]}")
    name = f"s0d-test-{os.getpid()}"
    try:
        assert docker("run", "-d", "--name", name, "s0d-test").returncode == 0
        done = docker("exec", name, "s0d", "run", "--", "echo", "hello")
        assert (done.returncode, done.stdout) == (0, "hello\n"), done.stderr
        assert docker("stop", "-t", "30", name).returncode == 0
        code = docker("inspect", "-f", "{{.State.ExitCode}}", name)
        assert code.stdout.strip() == "0"
    finally:
        docker("rm", "-f", name)
        docker("rmi", "-f", "s0d-test")
