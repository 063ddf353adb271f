from __future__ import annotations

from typing import Any

import pytest

from s0d.cli.errors import NotFound, UsageError
from s0d.cli.lookup import is_whole_id, pick

ONE = "ses-11aa5b6c-1111-4111-8111-111111111111"
TWO = "ses-11ab5b6c-2222-4222-8222-222222222222"
TRI = "ses-99000000-3333-4333-8333-333333333333"


def session(id: str, name: str | None = None) -> dict[str, Any]:
    return {"id": id, "phase": "running", "spec": {"name": name} if name else {}}


SESSIONS = [session(ONE, "web"), session(TWO, "11aa"), session(TRI, "web2")]


@pytest.mark.parametrize(
    ("called", "id"),
    [
        (ONE, ONE),
        ("web", ONE),
        ("11aa", TWO),  # a name wins over the beginning of an id
        ("ses-11aa", ONE),
        ("11aa5", ONE),
        ("9", TRI),
        ("ses-9", TRI),
    ],
)
def test_one(called: str, id: str) -> None:
    assert pick(SESSIONS, called)["id"] == id


@pytest.mark.parametrize("called", ["we", "s", "ses-", "", "ses-0", "WEB", ONE + "0"])
def test_none(called: str) -> None:
    with pytest.raises(NotFound, match="no session is called"):
        pick(SESSIONS[2:] if called.startswith("s") else SESSIONS, called)


def test_several() -> None:
    with pytest.raises(UsageError, match=f"{ONE} .running., {TWO}"):
        pick(SESSIONS, "ses-11a")
    many = [session(f"ses-{n}", "web") for n in range(9)]
    with pytest.raises(UsageError, match="and 4 more"):
        pick(many, "web")


def test_whole_ids() -> None:
    assert is_whole_id(ONE)
    assert not is_whole_id("ses-1")
