"""Who is calling, and what they may do."""

from __future__ import annotations

import os

import pytest

from s0d.api.auth import Authenticator, Peer, Principal, StaticTokens, Verb
from s0d.api.errors import Forbidden, Unauthorized

TOKENS = StaticTokens(
    [
        ("first", Principal("admin")),
        ("second", Principal("viewer", Verb.READ, frozenset({"local"}))),
    ]
)
STRANGER = Peer(1, os.geteuid() + 1, 1)


@pytest.mark.parametrize(
    ("header", "name"),
    [
        (b"Bearer first", "admin"),
        (b"bearer first", "admin"),
        (b"Bearer  second ", "viewer"),
    ],
)
def test_token_says_who_it_is(header: bytes, name: str) -> None:
    assert Authenticator(TOKENS).identify(header, None).name == name


@pytest.mark.parametrize(
    "header",
    [
        None,
        b"",
        b"first",
        b"Bearer",
        b"Bearer ",
        b"Bearer firs",
        b"Bearer firstt",
        b"Bearer First",
        b"Basic first",
        b"Bearer " + b"x" * 5000,
        b"Bearer \xff\x00",
    ],
)
def test_anything_else_is_refused(header: bytes | None) -> None:
    with pytest.raises(Unauthorized):
        Authenticator(TOKENS).identify(header, None)


def test_own_user_and_root_need_no_token_on_a_unix_socket() -> None:
    authenticator = Authenticator(TOKENS)
    for uid in (0, os.geteuid()):
        assert authenticator.identify(None, Peer(1, uid, 1)).highest is Verb.ADMIN
        # A stale token in the environment does not lock its owner out.
        assert authenticator.identify(b"Bearer stale", Peer(1, uid, 1)).highest is Verb.ADMIN


def test_other_users_need_a_token_or_to_be_named() -> None:
    with pytest.raises(Unauthorized):
        Authenticator(TOKENS).identify(None, STRANGER)
    assert Authenticator(TOKENS).identify(b"Bearer second", STRANGER).name == "viewer"
    named = Authenticator(TOKENS, uids=[STRANGER.uid])
    assert named.identify(None, STRANGER).name == f"uid:{STRANGER.uid}"


def test_open_to_all_only_when_asked_for() -> None:
    nobody = StaticTokens()
    with pytest.raises(Unauthorized):
        Authenticator(nobody).identify(None, None)
    assert Authenticator(nobody, open_to_all=True).identify(None, None).name == "anyone"


def test_scope_and_role_bound_a_principal() -> None:
    viewer = Principal("viewer", Verb.READ, frozenset({"local"}))
    viewer.check(Verb.READ, "local")
    viewer.check(Verb.READ, None)
    with pytest.raises(Forbidden):
        viewer.check(Verb.READ, "other")
    with pytest.raises(Forbidden):
        viewer.check(Verb.CONTROL, "local")
    Principal("operator", Verb.CONTROL).check(Verb.READ, "any")


def test_tokens_are_kept_as_digests_only() -> None:
    assert "first" not in repr(vars(TOKENS))
