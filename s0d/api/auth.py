"""Who is calling, and what they may do.

A caller is known by a bearer token or, on a Unix socket, by the kernel's word for who the peer is.
Tokens are kept as SHA-256 digests: they are random, so a fast hash loses nothing, and a digest in
a dump or a log is worthless.  Every stored digest is compared, each in constant time.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import os
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from .errors import Forbidden, Unauthorized

MAX_TOKEN_BYTES: Final = 1024


class Verb(enum.IntEnum):
    """What a route does; a principal may do everything up to its own highest."""

    READ = 1
    CONTROL = 2
    ADMIN = 3


class Peer(NamedTuple):
    """The process at the other end of a Unix socket when it connected (`SO_PEERCRED`, unix(7))."""

    pid: int
    uid: int
    gid: int


@dataclass(frozen=True)
class Principal:
    """A known caller; `sandboxes` None stands for all of them."""

    name: str
    highest: Verb = Verb.ADMIN
    sandboxes: frozenset[str] | None = None

    def check(self, verb: Verb, sandbox_id: str | None) -> None:
        """Raise `Forbidden` unless the caller may do `verb` on this sandbox."""
        if verb > self.highest:
            raise Forbidden(f"this token may not {verb.name.lower()} here")
        if sandbox_id is not None and not self.covers(sandbox_id):
            raise Forbidden("this token does not cover this sandbox")

    def covers(self, sandbox_id: str) -> bool:
        """Is the sandbox one of the caller's?"""
        return self.sandboxes is None or sandbox_id in self.sandboxes


class Tokens(Protocol):
    """Where tokens are looked up; asked for every request, so a revocation counts at once."""

    def __len__(self) -> int: ...
    def find(self, token: bytes) -> Principal | None: ...


class StaticTokens:
    """Tokens known at start, each with the principal it stands for."""

    def __init__(self, tokens: Iterable[tuple[str, Principal]] = ()) -> None:
        self._known = [(_digest(token.encode()), principal) for token, principal in tokens]

    @classmethod
    def one(cls, token: str) -> StaticTokens:
        """A single token that may do everything."""
        return cls([(token, Principal("token"))])

    def __len__(self) -> int:
        return len(self._known)

    def find(self, token: bytes) -> Principal | None:
        """The principal of `token`; all of them are compared, whichever matches."""
        digest = _digest(token)
        found = None
        for known, principal in self._known:
            if hmac.compare_digest(known, digest):
                found = principal
        return found


@dataclass(frozen=True)
class Authenticator:
    """Decides who a request comes from.

    `open_to_all` is the operator's explicit wish to run without tokens; `uids` are users beyond
    the daemon's own and root whose Unix socket connections need no token.
    """

    tokens: Tokens
    uids: Collection[int] = ()
    open_to_all: bool = False

    def identify(self, authorization: bytes | None, peer: Peer | None) -> Principal:
        """The principal, or `Unauthorized`.

        A trusted peer needs no token, and a stale one in its environment does not lock it out.
        """
        if peer is not None and (peer.uid in (0, os.geteuid()) or peer.uid in self.uids):
            return Principal(f"uid:{peer.uid}")
        token = _bearer(authorization)
        if token is not None and (principal := self.tokens.find(token)) is not None:
            return principal
        if self.open_to_all:
            return Principal("anyone")
        raise Unauthorized("a valid bearer token is required")


def _bearer(authorization: bytes | None) -> bytes | None:
    """The token of an `Authorization: Bearer …` header (RFC 6750, section 2.1)."""
    scheme, _, token = (authorization or b"").partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not 0 < len(token) <= MAX_TOKEN_BYTES:
        return None
    return token


def _digest(token: bytes) -> bytes:
    return hashlib.sha256(token).digest()
