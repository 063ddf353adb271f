"""The tokens that an operator makes, hashed, in one file that can change at any time.

The file is looked at for every token that comes in (one stat), and read again when it is another:
what is revoked there is refused from then on.  It is written whole, beside itself, then renamed;
writers take turns by a lock.  One that cannot be trusted or read holds no token: nobody gets in by
it, and the log says why, once.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from s0d.model.errors import InvalidRequest, LimitExceeded, S0dError, StateDirectoryError
from s0d.model.ids import is_sandbox_id

from .auth import Principal, Role, digest_of, find_digest
from .errors import NotFound

log = logging.getLogger(__name__)

FILE_NAME: Final = "tokens.json"
MAX_TOKENS: Final = 1000
PREFIX: Final = "s0d_"

NAME: Final = "[A-Za-z0-9][A-Za-z0-9._@-]{0,62}"
_FORMAT: Final = 1


class StoredToken(msgspec.Struct, omit_defaults=True, forbid_unknown_fields=True):
    """A token as it is kept; times are Unix seconds, `sandboxes` None stands for all of them."""

    name: str
    role: Role
    sha256: str
    created_at: int
    sandboxes: list[str] | None = None
    expires_at: int | None = None

    def principal(self) -> Principal:
        covered = None if self.sandboxes is None else frozenset(self.sandboxes)
        digest = bytes.fromhex(self.sha256)
        return Principal(f"token:{self.name}", self.role.highest, covered, digest)


class _Contents(msgspec.Struct, forbid_unknown_fields=True):
    format: int = _FORMAT
    tokens: list[StoredToken] = []


class TokenFile:
    """`auth.Tokens` kept in `path`; `clock` gives Unix seconds."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._clock = clock
        self._signature: object = ()
        self._known: list[tuple[bytes, Principal, int | None]] = []

    # -- what comes in -------------------------------------------------------------------------

    def __len__(self) -> int:
        return sum(1 for _ in self._valid())

    def find(self, token: bytes) -> Principal | None:
        return find_digest(self._valid(), digest_of(token))

    def holds(self, principal: Principal) -> bool:
        return principal.token is None or (principal.token, principal) in self._valid()

    def _valid(self) -> Iterator[tuple[bytes, Principal]]:
        self._refresh()
        now = self._clock()
        for digest, principal, expires_at in self._known:
            if expires_at is None or now < expires_at:
                yield digest, principal

    def _refresh(self) -> None:
        try:
            found = os.stat(self._path, follow_symlinks=False)
            signature: object = (found.st_ino, found.st_mtime_ns, found.st_ctime_ns, found.st_size)
        except FileNotFoundError:
            signature = None
        except OSError as error:
            signature = error.errno
        if signature == self._signature:
            return
        self._signature, self._known = signature, []
        try:
            tokens = self._read().tokens
            self._known = [(bytes.fromhex(t.sha256), t.principal(), t.expires_at) for t in tokens]
        except (S0dError, ValueError) as error:
            reason = str(error)  # a traceback would tell an operator nothing more
            log.error("the token file cannot be used: %s", reason)  # noqa: TRY400

    def now(self) -> float:
        return self._clock()

    # -- what an operator does -----------------------------------------------------------------

    def all(self) -> list[StoredToken]:
        """Every token, the oldest first; `StateDirectoryError` for a file that cannot be used."""
        return self._read().tokens

    def create(
        self,
        name: str,
        role: Role,
        sandboxes: Sequence[str] | None = None,
        expires_in: int | None = None,
    ) -> tuple[StoredToken, str]:
        """Make a token and return it with its secret, which is kept nowhere."""
        _check(name, sandboxes, expires_in)
        secret = PREFIX + secrets.token_urlsafe(32)
        now = int(self._clock())
        made = StoredToken(
            name=name,
            role=role,
            sha256=digest_of(secret.encode()).hex(),
            created_at=now,
            sandboxes=None if sandboxes is None else sorted(set(sandboxes)),
            expires_at=None if expires_in is None else now + expires_in,
        )
        with self._changing() as contents:
            if any(token.name == name for token in contents.tokens):
                raise InvalidRequest(f"name: there is a token {name} already: revoke it first")
            if len(contents.tokens) >= MAX_TOKENS:
                raise LimitExceeded(f"at most {MAX_TOKENS} tokens: revoke some")
            contents.tokens.append(made)
        return made, secret

    def revoke(self, name: str) -> None:
        """Remove it; `NotFound`."""
        with self._changing() as contents:
            left = [token for token in contents.tokens if token.name != name]
            if len(left) == len(contents.tokens):
                raise NotFound(f"there is no token {name}" if _is_name(name) else "no such token")
            contents.tokens = left

    @contextmanager
    def _changing(self) -> Iterator[_Contents]:
        """The contents, written back unless the block raises."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            lock = os.open(f"{self._path}.lock", flags, 0o600)
        except OSError as error:
            raise _unusable(self._path, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            contents = self._read()
            yield contents
            self._write(msgspec.json.format(msgspec.json.encode(contents)))
        finally:
            os.close(lock)

    def _read(self) -> _Contents:
        try:
            fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return _Contents()
        except OSError as error:
            raise _unusable(self._path, error) from error
        with open(fd, "rb") as file:
            found = os.fstat(fd)
            if found.st_uid not in (os.geteuid(), 0) or not stat.S_ISREG(found.st_mode):
                raise StateDirectoryError(f"{self._path}: must be a file of our own")
            if found.st_mode & 0o077:
                raise StateDirectoryError(f"{self._path}: others can reach it: chmod 600")
            return _parse(self._path, file.read())

    def _write(self, data: bytes) -> None:
        draft = f"{self._path}.{secrets.token_hex(8)}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            with open(os.open(draft, flags, 0o600), "wb") as file:
                file.write(data + b"\n")
                file.flush()
                os.fsync(file.fileno())
            os.rename(draft, self._path)
            directory = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(draft)
            raise _unusable(self._path, error) from error


def _check(name: str, sandboxes: Sequence[str] | None, expires_in: int | None) -> None:
    if not _is_name(name):
        raise InvalidRequest(
            "name: 1 to 63 of letters, digits and . _ @ -, a letter or digit first"
        )
    for sandbox_id in sandboxes or ():
        if not is_sandbox_id(sandbox_id):
            raise InvalidRequest("sandboxes: a sandbox id is a-z, 0-9, _ and -, 63 at most")
    if sandboxes is not None and not 0 < len(sandboxes) <= 1000:
        raise InvalidRequest("sandboxes: 1 to 1000 of them, or none given for all")
    if expires_in is not None and not 0 < expires_in < 1 << 31:
        raise InvalidRequest("expires: must be later than now, within 68 years")


def _is_name(name: str) -> bool:
    return re.fullmatch(NAME, name) is not None


def _parse(path: Path, data: bytes) -> _Contents:
    try:
        contents = msgspec.json.decode(data, type=_Contents)
        digests = [token.principal().token for token in contents.tokens]
    except (ValueError, msgspec.MsgspecError) as error:
        # Its bytes are not quoted: whoever edited it may have written a token there.
        kind = type(error).__name__
        raise StateDirectoryError(f"{path}: not a file of tokens ({kind})") from None
    if contents.format != _FORMAT or any(len(digest or b"") != 32 for digest in digests):
        raise StateDirectoryError(f"{path}: made by another version, or by hand")
    return contents


def _unusable(path: Path, error: OSError) -> StateDirectoryError:
    return StateDirectoryError(f"{path}: {error.strerror}")
