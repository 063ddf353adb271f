"""Journals as files: what is found below a path, what is told of each, who may mend."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from s0d.daemon.journals import Place, check, find, lines, mend
from s0d.journal import Entry, Journal, Limits, RealDisk
from s0d.journal import verify as verify_once
from s0d.model.errors import InvalidRequest, StateDirectoryError
from tests.support.journals import FIRST, SECOND, flip, held, newest, session, write, write_state


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return write_state(tmp_path / "state")


# -- finding ---------------------------------------------------------------------------------


def test_each_kind_of_place(state: Path) -> None:
    first = Place(f"{session(state)}/journal", FIRST)
    second = Place(f"{state}/sandboxes/other/sessions/{SECOND}/journal", SECOND)
    assert find(str(state)) == [first, second]
    assert find(str(state / "sandboxes/local")) == [first]
    assert find(str(session(state))) == [first]
    assert find(f"{session(state)}/journal") == [first]


def test_a_copy_of_a_journal_belongs_to_whom_its_segments_say(state: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(session(state) / "journal", tmp_path / "copy")
    (place,) = find(str(copy))
    assert place == Place(str(copy), None)
    (verdict,) = check([place])
    assert verdict.to_json()["session_id"] == FIRST


def test_no_place_for_a_journal(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="no journal, session, sandbox or state directory"):
        find(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        find(str(tmp_path / "nowhere"))


def test_what_is_no_session_or_was_never_acknowledged_is_passed_over(state: Path) -> None:
    sessions = state / "sandboxes/local/sessions"
    (sessions / "lost+found").mkdir()
    (sessions / SECOND).mkdir()
    assert len(find(str(state))) == 2
    (sessions / SECOND / "session.json").write_text("{}")
    _, missing, _ = check(find(str(state)))
    assert (missing.status, missing.error) == ("unreadable", "No such file or directory")


# -- checking --------------------------------------------------------------------------------


def test_a_sound_journal(state: Path) -> None:
    (verdict,) = check(find(str(session(state))))
    found = verdict.to_json()
    size = newest(state).stat().st_size
    assert json.loads(json.dumps(found)) == {
        "path": f"{session(state)}/journal",
        "session_id": FIRST,
        "status": "sound",
        "clean": True,
        "segments": 1,
        "unsealed": 0,
        "records": 3,
        "first": 1,
        "last": 3,
        "bytes": size,
        "torn_bytes": 0,
        "damage": [],
        "left": [],
        "foreign": [],
        "repaired": [],
        "error": None,
    }


def test_a_killed_daemons_journal_is_sound(state: Path) -> None:
    shutil.rmtree(session(state))
    write(session(state), FIRST, clean=False)
    with open(newest(state), "ab") as file:
        file.write(b"torn")
    (verdict,) = check(find(str(session(state))))
    found = verdict.to_json()
    assert (found["status"], found["clean"], found["torn_bytes"]) == ("sound", False, 4)


def test_damage_says_where_and_what_it_cost(state: Path) -> None:
    flip(newest(state), 120)
    (verdict,) = check(find(str(session(state))))
    found = verdict.to_json()
    assert (found["status"], found["records"]) == ("damaged", 3)
    damage = {"file": newest(state).name, "offset": 104, "first": 1, "last": 1}
    assert found["damage"] == found["left"] == [{**damage, "reason": "wrong checksum"}]


def test_a_segment_that_retention_removes_meanwhile_is_no_damage(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = []

    def verify(path: str, session_id: str | None) -> object:
        looks.append(path)
        if len(looks) < 3:
            raise FileNotFoundError(2, "No such file or directory")
        return verify_once(path, session_id=session_id)

    monkeypatch.setattr("s0d.daemon.journals.verify", verify)
    (verdict,) = check(find(str(session(state))))
    assert (verdict.status, len(looks)) == ("sound", 3)


# -- mending ---------------------------------------------------------------------------------


def test_mending_says_what_was_found_and_what_was_done(state: Path) -> None:
    (session(state) / "journal/mark").write_bytes(b"")
    mended, sound = mend(find(str(state)))
    found = mended.to_json()
    assert (found["status"], found["clean"], found["left"]) == ("repaired", True, [])
    assert [damage["file"] for damage in found["damage"]] == ["mark"]
    assert [deed["file"] for deed in found["repaired"]] == ["mark"]
    assert (found["records"], found["last"] > 2**32) == (4, True)
    assert sound.status == "sound"
    assert [verdict.status for verdict in mend(find(str(state)))] == ["sound", "sound"]


def test_what_is_lost_stays_lost(state: Path) -> None:
    flip(newest(state), 120)
    flip(newest(state), -1)
    for repaired in (2, 0):
        (verdict,) = mend(find(str(session(state))))
        assert (verdict.status, len(verdict.repaired)) == ("damaged", repaired)
        assert [damage["first"] for damage in verdict.to_json()["left"]] == [1]


def test_what_cannot_be_mended_says_why(state: Path) -> None:
    newest(state).unlink()
    (verdict,) = mend(find(str(session(state))))
    assert (verdict.status, verdict.error) == (
        "damaged",
        "not repaired: it holds no record that can be read",
    )


def test_a_new_journal_has_nothing_to_mend(tmp_path: Path) -> None:
    path = str(tmp_path / "journal")
    Journal.create(RealDisk(), path, FIRST, Limits(1 << 20)).close()
    (verdict,) = mend(find(path))
    assert (verdict.status, verdict.error) == ("sound", None)


def test_a_journal_of_another_user_is_left_alone(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(session(state) / "journal", tmp_path / "copy")
    (copy / "mark").write_bytes(b"")
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    (verdict,) = mend(find(str(copy)))
    assert verdict.error == f"not repaired: it belongs to uid {owner}: repair it as that user"
    assert (copy / "mark").read_bytes() == b""


@pytest.mark.parametrize(
    "part", [".", "sandboxes/local", f"sandboxes/local/sessions/{FIRST}/journal"]
)
def test_what_a_daemon_holds_is_checked_and_not_mended(state: Path, part: str) -> None:
    mark = session(state) / "journal/mark"
    mark.write_bytes(b"")
    places = find(str(state / part))
    with held(state):
        assert next(check(places)).status == "damaged"
        with pytest.raises(StateDirectoryError, match=f"in use by process {os.getpid()}"):
            mend(places)
    assert mark.read_bytes() == b""
    assert mend(places)[0].status == "repaired"


# -- printing --------------------------------------------------------------------------------


def test_lines_are_what_clients_get(state: Path) -> None:
    (place,) = find(str(session(state)))
    first, output, _ = (json.loads(line) for line in lines(place, 0, frozenset()))
    assert first == {
        "seq": 1,
        "session_id": FIRST,
        "runtime_generation": 1,
        "type": "session.updated",
        "n": 1,
        "occurred_at": "1970-01-01T00:00:00.000000Z",
    }
    assert (output["stream"], output["data_base64"]) == ("stdout", "AP8=")
    assert [json.loads(line)["seq"] for line in lines(place, 2, frozenset())] == [3]
    assert [json.loads(line)["seq"] for line in lines(place, 0, frozenset({"output"}))] == [2]


def test_gaps_are_always_told(state: Path, tmp_path: Path) -> None:
    flip(newest(state), 120)
    copy = shutil.copytree(session(state) / "journal", tmp_path / "copy")
    (place,) = find(str(copy))
    (gap,) = (json.loads(line) for line in lines(place, 0, frozenset({"nothing"})))
    del gap["occurred_at"]
    assert gap == {
        "seq": 1,
        "session_id": FIRST,
        "runtime_generation": 0,
        "type": "journal.gap",
        "first": 1,
        "last": 1,
        "reason": "damage",
    }


def test_output_of_another_make_is_shown(tmp_path: Path) -> None:
    journal = Journal.create(RealDisk(), str(tmp_path / "j"), FIRST, Limits(1 << 20))
    journal.append([Entry(1, 1, None, "output", {"data": b"x"})])
    journal.close()
    (line,) = lines(Place(str(tmp_path / "j"), None), 0, frozenset())
    assert json.loads(line)["data_base64"] == "eA=="
