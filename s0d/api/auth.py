"""Who is calling, and what they may do.

A caller is known by a bearer token or, on a Unix socket, by the kernel's word for who the peer is.
Tokens are kept as SHA-256 digests: they are random, so a fast hash loses nothing, and a digest in
a dump or a log is worthless.  Every stored digest is compared, each in constant time.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import logging
import os
from collections.abc import Collection, Hashable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol

from .errors import Forbidden, TooManyFailures, Unauthorized
from .failures import Failures

log = logging.getLogger(__name__)

MAX_TOKEN_BYTES: Final = 1024


class Verb(enum.IntEnum):
    """What a route does; a principal may do everything up to its own highest."""

    READ = 1
    CONTROL = 2
    ADMIN = 3

    @property
    def role(self) -> str:
        """The least role that may do it."""
        return next(role.value for role in Role if role.highest >= self)


class Role(enum.StrEnum):
    """What a token may do, by the name an operator gives it."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def highest(self) -> Verb:
        return {Role.VIEWER: Verb.READ, Role.OPERATOR: Verb.CONTROL, Role.ADMIN: Verb.ADMIN}[self]


class Peer(NamedTuple):
    """The process at the other end of a Unix socket when it connected (`SO_PEERCRED`, unix(7)).

    `doubt` says why its user alone is no reason to trust it: it has gone, or belongs to a session
    of `sandbox` ("" for one that cannot be told).
    """

    pid: int
    uid: int
    gid: int
    doubt: str | None = None
    sandbox: str | None = None


@dataclass(frozen=True)
class Principal:
    """A known caller; `sandboxes` None stands for all of them.

    `token` is the digest of a token that can be revoked, None for what holds while we run.
    """

    name: str
    highest: Verb = Verb.ADMIN
    sandboxes: frozenset[str] | None = None
    token: bytes | None = field(default=None, repr=False)

    def check(self, verb: Verb, sandbox_id: str | None) -> None:
        """Raise `Forbidden` unless the caller may do `verb` on this sandbox."""
        if verb > self.highest:
            raise Forbidden(f"this token may not {verb.name.lower()} here")
        if sandbox_id is not None and not self.covers(sandbox_id):
            raise Forbidden("this token does not cover this sandbox")

    def check_everywhere(self, verb: Verb) -> None:
        """Raise `Forbidden` unless the caller may do `verb` to whatever there is."""
        self.check(verb, None)
        if self.sandboxes is not None:
            raise Forbidden("this token covers single sandboxes only")

    def covers(self, sandbox_id: str | None) -> bool:
        """Is the sandbox one of the caller's?  None stands for one that has no id yet."""
        return self.sandboxes is None or sandbox_id in self.sandboxes


class Tokens(Protocol):
    """Where tokens are looked up; asked for every request, so a revocation counts at once."""

    def __len__(self) -> int: ...
    def find(self, token: bytes) -> Principal | None: ...

    def holds(self, principal: Principal) -> bool:
        """Is what `find` once gave still good?"""
        ...


class StaticTokens:
    """Tokens known at start, each with the principal it stands for."""

    def __init__(self, tokens: Iterable[tuple[str, Principal]] = ()) -> None:
        self._known = [(digest_of(token.encode()), principal) for token, principal in tokens]

    @classmethod
    def one(cls, token: str) -> StaticTokens:
        """A single token that may do everything."""
        return cls([(token, Principal("token"))])

    def __len__(self) -> int:
        return len(self._known)

    def find(self, token: bytes) -> Principal | None:
        return find_digest(self._known, digest_of(token))

    def holds(self, principal: Principal) -> bool:
        return True


class AllTokens:
    """The tokens of several places."""

    def __init__(self, *places: Tokens) -> None:
        self._places = places

    def __len__(self) -> int:
        return sum(map(len, self._places))

    def find(self, token: bytes) -> Principal | None:
        found = [place.find(token) for place in self._places]
        return next((principal for principal in found if principal is not None), None)

    def holds(self, principal: Principal) -> bool:
        return all(place.holds(principal) for place in self._places)


def find_digest(known: Iterable[tuple[bytes, Principal]], digest: bytes) -> Principal | None:
    """Whose digest it is; all of them are compared, whichever matches."""
    found = None
    for each, principal in known:
        if hmac.compare_digest(each, digest):
            found = principal
    return found


@dataclass(frozen=True)
class Authenticator:
    """Decides who a request comes from.

    `open_to_all` is the operator's explicit wish to run without tokens; `uids` are users beyond
    the daemon's own and root whose Unix socket connections need no token.  `own_processes` are
    the sandboxes whose own processes may come in by the Unix socket, as operators of that sandbox.
    """

    tokens: Tokens
    uids: Collection[int] = ()
    open_to_all: bool = False
    own_processes: Collection[str] = ()
    failures: Failures = field(default_factory=Failures)

    def identify(
        self,
        authorization: bytes | None,
        peer: Peer | None,
        *,
        source: Hashable = None,
        request_id: str = "",
    ) -> Principal:
        """The principal; `Unauthorized`, or `TooManyFailures` where `source` guesses tokens.

        A trusted peer needs no token, and a stale one in its environment does not lock it out.
        """
        if peer is not None and self._trusts(peer):
            return Principal(f"uid:{peer.uid}")
        if peer is not None and peer.sandbox and peer.sandbox in self.own_processes:
            only = frozenset({peer.sandbox})
            return Principal(f"sandbox:{peer.sandbox}", Verb.CONTROL, only)
        token = _bearer(authorization)
        if token is not None:
            principal = self._find(token, source, request_id)
            if principal is not None:
                return principal
        if self.open_to_all:
            return Principal("anyone")
        if peer is not None and peer.doubt:
            raise Unauthorized(f"a valid bearer token is required: {peer.doubt}")
        raise Unauthorized("a valid bearer token is required")

    def _trusts(self, peer: Peer) -> bool:
        ours = peer.uid in (0, os.geteuid()) or peer.uid in self.uids
        return ours and peer.doubt is None

    def _find(self, token: bytes, source: Hashable, request_id: str) -> Principal | None:
        """Whose token it is; while its source guesses too much none is even looked at."""
        if (wait := self.failures.blocked_for(source)) > 0:
            raise TooManyFailures(wait)
        principal = self.tokens.find(token)
        if principal is None and self.failures.note(source, digest_of(token)):
            extra = {"client": source, "request_id": request_id}
            log.warning("authentication failed", extra=extra)
        return principal


def _bearer(authorization: bytes | None) -> bytes | None:
    """The token of an `Authorization: Bearer …` header (RFC 6750, section 2.1)."""
    scheme, _, token = (authorization or b"").partition(b" ")
    token = token.strip()
    if scheme.lower() != b"bearer" or not 0 < len(token) <= MAX_TOKEN_BYTES:
        return None
    return token


def digest_of(token: bytes) -> bytes:
    """What is kept of a token."""
    return hashlib.sha256(token).digest()
