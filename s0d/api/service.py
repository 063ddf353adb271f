"""`/healthz`, `/readyz` and `/metadata`: answered without a token."""

from __future__ import annotations

import msgspec

import s0d
from s0d.model.errors import Unavailable

from .call import Call


class Health(msgspec.Struct):
    status: str = "ok"


class Metadata(msgspec.Struct):
    """What the `s0` client asks for first: there is no gateway in front of us."""

    gateway_mode: str = "direct"
    service: str = "s0d"
    version: str = s0d.__version__


async def healthz(call: Call) -> Health:
    return Health()


async def readyz(call: Call) -> Health:
    if (reason := call.refusal()) is not None:
        raise Unavailable(reason)
    return Health()


async def metadata(call: Call) -> Metadata:
    return Metadata()
