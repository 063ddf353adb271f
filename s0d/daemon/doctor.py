"""What this machine allows, what is missing, and how to get it: the findings of `s0d doctor`.

Nothing is changed by looking, but for a cgroup that is made and removed again to see whether that
can be done.
"""

from __future__ import annotations

import os
import resource
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from s0d.process.detect import LIMITS, SWITCHED_OFF, Ownership, detect

from .paths import default_runtime_dir, default_state_dir

_FEW_DESCRIPTORS = 4096
_A_SESSION = 5  # descriptors
_DELEGATE = (
    "run s0d as a service with Delegate=yes (contrib/systemd/s0d.service), or by hand: "
    "systemd-run --user --scope -p Delegate=yes s0d serve"
)
_UNIFIED = "boot Linux 5.14 or newer with systemd.unified_cgroup_hierarchy=1"
_SWITCH_ON = "start `s0d serve` without --no-cgroups"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; `mend` is there where something should be done, and says what."""

    name: str
    text: str
    mend: str = ""

    @property
    def well(self) -> bool:
        return not self.mend


def examine(
    environ: Mapping[str, str], uid: int, state_dir: Path | None, in_force: Mapping[str, Any] | None
) -> list[Finding]:
    """Everything but the daemon itself; `in_force` is what a daemon that answers has told of its
    ownership of process trees (`s0d.api.status`).

    What this process could do is asked only where none answers: a service may be allowed more
    than the shell that asks, and less.
    """
    told = {"base": None, **(in_force or {})}
    ownership = detect() if in_force is None else msgspec.convert(told, Ownership)
    return [
        _trees(ownership),
        *_limits(ownership),
        _descriptors(),
        _directory("state", state_dir or default_state_dir(environ, uid), uid),
        _directory("runtime", default_runtime_dir(environ, uid), uid),
    ]


def _trees(ownership: Ownership) -> Finding:
    if ownership.mode == "cgroup":
        return Finding("trees", f"each attempt is a cgroup below {ownership.base}: an end is proof")
    text = "found in /proc: a process that hides from it on purpose is missed"
    missing = "; ".join(ownership.missing)
    return Finding("trees", f"{text} ({missing})", _way_to_cgroups(missing))


def _way_to_cgroups(missing: str) -> str:
    if missing == SWITCHED_OFF:
        return _SWITCH_ON
    return _UNIFIED if "mounted" in missing or "kernel" in missing else _DELEGATE


def _limits(ownership: Ownership) -> Iterator[Finding]:
    enforced = [limit for name, limit in LIMITS.items() if name in ownership.controllers]
    yield Finding("limits", f"enforced: {', '.join([*enforced, 'nofile', 'core'])}")
    absent = [limit for limit in LIMITS.values() if limit not in enforced]
    if absent:
        mend = _DELEGATE if ownership.mode == "cgroup" else "see trees"
        yield Finding("limits", f"refused, for want of a controller: {', '.join(absent)}", mend)


def _descriptors() -> Finding:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    text = f"{hard} for a daemon started here, enough for about {hard // _A_SESSION} sessions"
    if hard >= _FEW_DESCRIPTORS:
        return Finding("descriptors", text)
    return Finding("descriptors", text, "raise the hard limit: LimitNOFILE=, limits.conf(5)")


def _directory(name: str, path: Path, uid: int) -> Finding:
    """As the daemon wants it: its own, and closed to others; or not there yet."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return _absent(name, path)
    except OSError as error:
        return Finding(name, f"{path}: {error.strerror}", "use a directory of your own")
    if not stat.S_ISDIR(found.st_mode):
        return Finding(name, f"{path} is not a directory", "remove it")
    if found.st_uid != uid:
        return Finding(name, f"{path} belongs to uid {found.st_uid}", f"chown {uid} {path}")
    if found.st_mode & 0o077:
        return Finding(name, f"{path} is open to others", f"chmod 700 {path}")
    return Finding(name, str(path))


def _absent(name: str, path: Path) -> Finding:
    """It will be made: where is the first directory above that exists?"""
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if os.access(above, os.W_OK | os.X_OK):
        return Finding(name, f"{path} will be made")
    return Finding(name, f"{path} cannot be made: {above} is not writable", "use another one")
