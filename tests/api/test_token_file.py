"""Tokens in a file: hashed, scoped, expiring, and revoked at once."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from s0d.api.auth import AllTokens, Role, StaticTokens, Verb
from s0d.api.errors import NotFound
from s0d.api.token_file import MAX_TOKENS, TokenFile
from s0d.model.errors import InvalidRequest, LimitExceeded, StateDirectoryError


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "state" / "tokens.json"


def test_made_told_once_and_kept_hashed(path: Path) -> None:
    file = TokenFile(path, Clock())
    made, secret = file.create("ci", Role.OPERATOR, ["b", "a", "a"], 60)
    assert len(secret) >= 43
    assert secret not in path.read_text()
    assert secret not in repr(vars(file)) + repr(made)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(path.parent)) == ["tokens.json", "tokens.json.lock"]
    principal = file.find(secret.encode())
    assert principal is not None
    assert (principal.name, principal.highest) == ("token:ci", Verb.CONTROL)
    assert principal.sandboxes == {"a", "b"}
    assert made.sha256 not in repr(principal)
    assert file.find(secret.encode()[:-1]) is None
    assert file.find(made.sha256.encode()) is None


@pytest.mark.parametrize(
    ("role", "verb"),
    [(Role.VIEWER, Verb.READ), (Role.OPERATOR, Verb.CONTROL), (Role.ADMIN, Verb.ADMIN)],
)
def test_roles(path: Path, role: Role, verb: Verb) -> None:
    file = TokenFile(path)
    _, secret = file.create("x", role)
    found = file.find(secret.encode())
    assert found is not None
    assert (found.highest, found.sandboxes) == (verb, None)


def test_revoked_by_another_process_at_once(path: Path) -> None:
    daemon, operator = TokenFile(path), TokenFile(path)
    _, kept = operator.create("kept", Role.ADMIN)
    _, secret = operator.create("gone", Role.ADMIN)
    principal = daemon.find(secret.encode())
    assert principal is not None
    assert daemon.holds(principal)
    operator.revoke("gone")
    assert daemon.find(secret.encode()) is None
    assert not daemon.holds(principal)
    assert daemon.find(kept.encode()) is not None
    with pytest.raises(NotFound, match="gone"):
        operator.revoke("gone")
    path.unlink()
    assert daemon.find(kept.encode()) is None


def test_one_made_anew_under_the_same_name_is_another(path: Path) -> None:
    file = TokenFile(path)
    _, first = file.create("ci", Role.ADMIN)
    principal = file.find(first.encode())
    assert principal is not None
    file.revoke("ci")
    file.create("ci", Role.ADMIN)
    assert not file.holds(principal)


def test_expiry(path: Path) -> None:
    clock = Clock()
    file = TokenFile(path, clock)
    _, secret = file.create("short", Role.ADMIN, None, 60)
    principal = file.find(secret.encode())
    assert principal is not None
    assert len(file) == 1
    clock.now += 59
    assert file.holds(principal)
    clock.now += 1
    assert file.find(secret.encode()) is None
    assert not file.holds(principal)
    assert len(file) == 0
    assert [token.name for token in file.all()] == ["short"]


def test_refused(path: Path) -> None:
    file = TokenFile(path)
    file.create("taken", Role.ADMIN)
    for name in ("taken", "", "-x", "a b", "a\nb", "a/b", "x" * 64, "é"):
        with pytest.raises(InvalidRequest, match="name"):
            file.create(name, Role.ADMIN)
    for sandboxes in ([], ["../x"], ["A"], ["a/b"], [""]):
        with pytest.raises(InvalidRequest, match="sandboxes"):
            file.create("x", Role.ADMIN, sandboxes)
    for seconds in (0, -1, 1 << 31):
        with pytest.raises(InvalidRequest, match="expires"):
            file.create("x", Role.ADMIN, None, seconds)
    assert [token.name for token in file.all()] == ["taken"]


def test_bounded(path: Path) -> None:
    file = TokenFile(path)
    file.create("first", Role.ADMIN)
    contents = json.loads(path.read_text())
    contents["tokens"] *= MAX_TOKENS
    path.write_text(json.dumps(contents))
    with pytest.raises(LimitExceeded):
        file.create("x", Role.ADMIN)


BAD = [
    b"",
    b"nonsense",
    b"[]",
    b'{"format":2,"tokens":[]}',
    b'{"tokens":[{"name":"x"}]}',
    b'{"tokens":[{"name":"x","role":"root","sha256":"00","created_at":1}]}',
    b'{"tokens":[{"name":"x","role":"admin","sha256":"00","created_at":1}]}',
    b'{"tokens":[{"name":"x","role":"admin","sha256":"zz","created_at":1}]}',
    b'{"tokens":[],"more":1}',
    b"\xff",
]


@pytest.mark.parametrize("data", BAD)
def test_a_damaged_file_lets_nobody_in_and_is_not_overwritten(
    path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    file = TokenFile(path)
    _, secret = file.create("x", Role.ADMIN)
    assert file.find(secret.encode()) is not None
    path.write_bytes(data)
    for _ in range(3):
        assert file.find(secret.encode()) is None
    assert len(caplog.records) == 1
    for act in (file.all, lambda: file.create("y", Role.ADMIN), lambda: file.revoke("x")):
        with pytest.raises(StateDirectoryError) as caught:
            act()
        assert not data or data.decode("latin-1") not in caught.value.message
    assert path.read_bytes() == data


def test_a_file_that_others_can_reach_or_a_link(path: Path) -> None:
    file = TokenFile(path)
    _, secret = file.create("x", Role.ADMIN)
    path.chmod(0o640)
    assert file.find(secret.encode()) is None
    with pytest.raises(StateDirectoryError, match="chmod 600"):
        file.all()
    path.chmod(0o600)
    assert file.find(secret.encode()) is not None
    path.rename(path.with_name("elsewhere"))
    path.symlink_to(path.with_name("elsewhere"))
    assert file.find(secret.encode()) is None


def test_writers_take_turns(path: Path) -> None:
    threads = [
        threading.Thread(target=TokenFile(path).create, args=(f"t{n}", Role.VIEWER))
        for n in range(16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {token.name for token in TokenFile(path).all()} == {f"t{n}" for n in range(16)}


def test_several_places(path: Path) -> None:
    file = TokenFile(path)
    _, secret = file.create("x", Role.VIEWER)
    every = AllTokens(StaticTokens.one("own"), file)
    assert len(every) == 2
    own, other = every.find(b"own"), every.find(secret.encode())
    assert own is not None
    assert other is not None
    assert (own.name, other.name) == ("token", "token:x")
    file.revoke("x")
    assert every.holds(own)
    assert not every.holds(other)
