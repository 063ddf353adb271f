"""RFC 3339 times in UTC with `Z`, from Unix nanoseconds, to the microsecond."""

from __future__ import annotations

import time
from functools import lru_cache


@lru_cache(maxsize=64)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def rfc3339(time_ns: int) -> str:
    """`2026-01-02T03:04:05.000006Z`; the whole second is cached, events come in bursts."""
    seconds, ns = divmod(time_ns, 1_000_000_000)
    return f"{_second(seconds)}.{ns // 1000:06d}Z"
