"""The bearer token: where it comes from, and who can read it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from s0d.daemon.token import find_token
from s0d.model.errors import StateDirectoryError


def test_made_once_for_our_eyes_only(tmp_path: Path) -> None:
    state = tmp_path / "a" / "state"
    token = find_token(state, {})
    assert len(token) >= 32
    assert find_token(state, {}) == token
    assert (state / "token").read_text() == token + "\n"
    assert (state / "token").stat().st_mode & 0o777 == 0o600
    assert state.stat().st_mode & 0o777 == 0o700
    assert os.listdir(state) == ["token"]


def test_two_at_once_agree(tmp_path: Path) -> None:
    barrier, found = threading.Barrier(8), []

    def find() -> None:
        barrier.wait()
        found.append(find_token(tmp_path, {}))

    threads = [threading.Thread(target=find) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert os.listdir(tmp_path) == ["token"]


def test_the_environment_wins_then_the_credential_then_the_file(tmp_path: Path) -> None:
    credentials = tmp_path / "credentials"
    credentials.mkdir()
    environ = {"CREDENTIALS_DIRECTORY": str(credentials)}
    state = tmp_path / "state"
    from_file = find_token(state, environ)
    (credentials / "s0d.token").write_text("credential\n")
    assert find_token(state, environ) == "credential"
    assert find_token(state, environ | {"S0D_TOKEN": " given "}) == "given"
    assert find_token(state, {"S0D_TOKEN": ""}) == from_file


@pytest.mark.parametrize("text", ["", "\n", "two words", "é", "a\x00b", "a\nb"])
def test_what_no_header_can_carry_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "token"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(StateDirectoryError) as caught:
        find_token(tmp_path, {})
    assert str(path) in caught.value.message
    assert not text.strip() or text not in caught.value.message


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    find_token(tmp_path, {})
    (tmp_path / "token").chmod(mode)
    with pytest.raises(StateDirectoryError, match="others can read it"):
        find_token(tmp_path, {})


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text("planted")
    (tmp_path / "elsewhere").chmod(0o600)
    (tmp_path / "token").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateDirectoryError):
        find_token(tmp_path, {})


def test_a_state_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StateDirectoryError, match="Not a directory"):
        find_token(tmp_path / "file" / "state", {})
