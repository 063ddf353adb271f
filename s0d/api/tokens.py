"""The handlers of tokens (an extension): made, listed and revoked by an admin of everything."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import msgspec
import trio
from msgspec import UNSET, UnsetType

from s0d.model.errors import Unavailable
from s0d.wire.times import rfc3339

from .auth import Role, Verb
from .call import Call
from .token_file import StoredToken

if TYPE_CHECKING:
    from .token_file import TokenFile


class TokenBody(msgspec.Struct):
    """`sandboxes` absent: all of them; `expires_in` in seconds."""

    name: str
    role: Role
    sandboxes: list[str] | None = None
    expires_in: int | None = None


class TokenView(msgspec.Struct, kw_only=True):
    """A token without its secret, which is told once, by the answer that makes it."""

    name: str
    role: Role
    created_at: str
    expired: bool
    sandboxes: list[str] | UnsetType = UNSET
    expires_at: str | UnsetType = UNSET
    token: str | UnsetType = UNSET


class TokenList(msgspec.Struct):
    tokens: list[TokenView]


class Revoked(msgspec.Struct):
    revoked: bool = True


def view_token(stored: StoredToken, now: float, secret: str | None = None) -> TokenView:
    expires = stored.expires_at
    return TokenView(
        name=stored.name,
        role=stored.role,
        created_at=rfc3339(stored.created_at * 10**9),
        expired=expires is not None and expires <= now,
        sandboxes=UNSET if stored.sandboxes is None else stored.sandboxes,
        expires_at=UNSET if expires is None else rfc3339(expires * 10**9),
        token=secret or UNSET,
    )


async def list_tokens(call: Call) -> TokenList:
    file = _file(call)
    stored = await trio.to_thread.run_sync(file.all)
    return TokenList([view_token(each, file.now()) for each in stored])


async def create_token(call: Call) -> TokenView:
    file, body = _file(call), call.body
    make = partial(file.create, body.name, body.role, body.sandboxes, body.expires_in)
    stored, secret = await trio.to_thread.run_sync(make)
    return view_token(stored, file.now(), secret)


async def revoke_token(call: Call) -> Revoked:
    await trio.to_thread.run_sync(_file(call).revoke, call.token_name or "")
    return Revoked()


def _file(call: Call) -> TokenFile:
    assert call.principal is not None
    call.principal.check_everywhere(Verb.ADMIN)
    if call.config.token_file is None:
        raise Unavailable("this server keeps no tokens")
    return call.config.token_file
