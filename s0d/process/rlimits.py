"""Resource limits of a child that waits at the gate."""

from __future__ import annotations

import errno
import os
import resource

from s0d.process.errors import SpawnError, SpawnErrorKind
from s0d.process.identity import run_as
from s0d.process.request import Identity, ResourceLimits


def set_limits(pid: int, limits: ResourceLimits, identity: Identity | None) -> None:
    """Set a child's limits; `identity` is the other user it runs as already.

    Raises SpawnError (LIMIT), ProcessLookupError when the child is gone.
    """
    if limits.nofile_soft is not None:
        _, hard = _nofile(pid, identity)
        _set(pid, "nofile", resource.RLIMIT_NOFILE, (limits.nofile_soft, hard), identity)
    if limits.nofile is not None:
        pair = (limits.nofile, limits.nofile)
        _set(pid, "nofile", resource.RLIMIT_NOFILE, pair, identity)
    if limits.core is not None:
        _set(pid, "core", resource.RLIMIT_CORE, (limits.core, limits.core), identity)


def _nofile(pid: int, identity: Identity | None) -> tuple[int, int]:
    try:
        return resource.prlimit(pid, resource.RLIMIT_NOFILE)
    except PermissionError:
        if identity is None:
            raise
        return run_as(identity, lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE))


def _set(
    pid: int, name: str, number: int, pair: tuple[int, int], identity: Identity | None
) -> None:
    try:
        try:
            resource.prlimit(pid, number, pair)
        except PermissionError:
            if identity is None:
                raise
            # A root without CAP_SYS_RESOURCE (containers): the user may lower its own limits.
            run_as(identity, lambda: resource.prlimit(pid, number, pair))
    except ProcessLookupError:
        raise
    except (ValueError, OSError) as error:
        code = getattr(error, "errno", None) or errno.EPERM
        message = f"limit {name} {pair[0]}: {os.strerror(code)}"
        raise SpawnError(SpawnErrorKind.LIMIT, "", code, message) from error
