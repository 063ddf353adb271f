"""`GET /api/v1/status` (an extension): what is in force in this daemon, for `s0d doctor`."""

from __future__ import annotations

import os

import msgspec
from msgspec import UNSET, UnsetType

import s0d

from .call import Call


class OwnershipStatus(msgspec.Struct, omit_defaults=True):
    """By what process trees are owned: `mode` is `cgroup` or `proc`.

    `base` is the daemon's part of the hierarchy, `controllers` those in force there; `missing`
    says, a line each, what stands in the way of more.
    """

    mode: str
    controllers: list[str]
    missing: list[str]
    base: str | UnsetType = UNSET


class Status(msgspec.Struct, omit_defaults=True):
    """`run_as` is the user of all sessions where that is not the daemon's own."""

    version: str
    pid: int
    uid: int
    sandbox_id: str
    sessions: int
    ownership: OwnershipStatus
    run_as: str | UnsetType = UNSET


async def status(call: Call) -> Status:
    supervisor = call.supervisor
    ownership = supervisor.ownership
    return Status(
        version=s0d.__version__,
        pid=os.getpid(),
        uid=os.geteuid(),
        sandbox_id=supervisor.default.id,
        sessions=sum(len(sandbox.sessions()) for sandbox in call.visible_sandboxes()),
        ownership=OwnershipStatus(
            mode=ownership.mode,
            controllers=list(ownership.controllers),
            missing=list(ownership.missing),
            base=ownership.base or UNSET,
        ),
        run_as=supervisor.run_as or UNSET,
    )
