"""Bearer tokens: the daemon's own, and the file of those that an operator makes.

Its own comes from the environment, a systemd credential, or a file made once, which lies in the
state directory with mode 0600.  No token appears in a log or an error.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from s0d.api.auth import Role
from s0d.api.token_file import FILE_NAME as TOKENS
from s0d.api.token_file import StoredToken, TokenFile
from s0d.model.errors import StateDirectoryError

from .paths import default_state_dir

__all__ = ["Role", "StoredToken", "TokenFile", "find_token", "token_file"]

FILE_NAME: Final = "token"
CREDENTIAL: Final = "s0d.token"
VARIABLE: Final = "S0D_TOKEN"


def token_file(state_dir: str | None, environ: Mapping[str, str], uid: int) -> TokenFile:
    """The tokens that an operator made for the daemon of that directory; nothing is made yet."""
    state = Path(state_dir).absolute() if state_dir else default_state_dir(environ, uid)
    return TokenFile(state / TOKENS)


def find_token(state_dir: Path, environ: Mapping[str, str]) -> str:
    """`S0D_TOKEN`, else `$CREDENTIALS_DIRECTORY/s0d.token`, else the file, made if missing.

    Raises `StateDirectoryError` where the file could be read by others or does not hold a token.
    """
    if given := environ.get(VARIABLE, "").strip():
        return _checked(given, VARIABLE)
    if directory := environ.get("CREDENTIALS_DIRECTORY"):
        credential = Path(directory) / CREDENTIAL
        if credential.exists():
            return _checked(credential.read_text(), str(credential))
    return _from_file(state_dir)


def _from_file(state_dir: Path) -> str:
    path = state_dir / FILE_NAME
    try:
        state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return _read(path)
    except OSError as error:
        raise StateDirectoryError(f"{error.filename}: {error.strerror}") from error


def _make(path: Path) -> None:
    """Whole or not at all, and the first of two daemons wins: written aside, then linked."""
    draft = path.with_name(f".{path.name}-{secrets.token_hex(8)}")
    fd = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        with open(fd, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(32) + "\n")
            file.flush()
            os.fsync(fd)
        os.link(draft, path)
    except FileExistsError:
        return
    finally:
        os.unlink(draft)


def _read(path: Path) -> str:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with open(fd, encoding="ascii", errors="replace") as file:
        status = os.fstat(fd)
        if status.st_uid not in (os.geteuid(), 0) or not stat.S_ISREG(status.st_mode):
            raise StateDirectoryError(f"{path}: must be a file of our own")
        if status.st_mode & 0o077:
            raise StateDirectoryError(f"{path}: others can read it; chmod 600, or remove it")
        return _checked(file.read(), str(path))


def _checked(text: str, origin: str) -> str:
    """What a header can carry; `origin` alone is named in the error."""
    token = text.strip()
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise StateDirectoryError(f"{origin}: a token is one printable ASCII word")
    return token
