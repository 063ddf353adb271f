"""Wrong tokens, counted by where they come from.

A source has a budget of different wrong tokens, which fills up again by and by.  Once it is spent
no token from there is looked at, right or wrong: an answer would tell a guesser which it was.  The
same wrong token again is no new guess: a client with a stale one locks out nobody behind its
address.  Trusted peers of the Unix socket show no token and are never in the way of this.
"""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

MAX_SOURCES: Final = 4096
_MAX_SEEN: Final = 64


@dataclass
class _Source:
    left: float
    at: float
    seen: OrderedDict[bytes, None] = field(default_factory=OrderedDict)


class Failures:
    """`most` different wrong tokens a minute from each source."""

    def __init__(self, most: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._clock = clock
        self._sources: OrderedDict[Hashable, _Source] = OrderedDict()

    def blocked_for(self, source: Hashable) -> float:
        """Seconds until a token from `source` is looked at again; 0 where it is at once."""
        known = self._sources.get(source)
        if known is None:
            return 0.0
        self._refill(known)
        return max(0.0, (1 - known.left) * 60 / self._most)

    def note(self, source: Hashable, guess: bytes) -> bool:
        """Count a wrong token, given its digest; whether it was a new one."""
        known = self._sources.setdefault(source, _Source(self._most, self._clock()))
        self._sources.move_to_end(source)
        if len(self._sources) > MAX_SOURCES:
            self._sources.popitem(last=False)
        if guess in known.seen:
            return False
        known.seen[guess] = None
        if len(known.seen) > _MAX_SEEN:
            known.seen.popitem(last=False)
        self._refill(known)
        known.left -= 1
        return True

    def _refill(self, known: _Source) -> None:
        now = self._clock()
        known.left = min(self._most, known.left + (now - known.at) * self._most / 60)
        known.at = now


def network_of(address: str) -> str:
    """An IPv4 address, or the /64 that one IPv6 subscriber has to himself."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
