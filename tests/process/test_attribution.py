"""Who belongs to an attempt: everyone who can be proved to, and never a stranger."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from s0d.process.attribution import Lineage, TreeRecord
from s0d.process.proc import ProcStat

RECORD = TreeRecord("att-1", 100, 1000, "boot")


def process(
    pid: int, ppid: int = 1, *, start: int = 1001, sid: int = 0, pgid: int = 0, state: str = "S"
) -> ProcStat:
    sid = sid or pid
    return ProcStat(pid, "x", state, ppid, pgid or sid, sid, 0, 0, 1, start, 0)


LEADER = process(100, start=1000)


def members(
    *processes: ProcStat, marked: tuple[int, ...] = (), lineage: Lineage | None = None
) -> set[int]:
    lineage = lineage or Lineage(RECORD)
    return lineage.attribute({p.pid: p for p in processes}, dict.fromkeys(marked, "att-1"))


def test_the_leader_by_pid_and_start_time() -> None:
    assert members(LEADER) == {100}
    assert members(process(100, start=1001)) == set()
    assert members(process(100, start=999)) == set()


def test_descendants_whatever_their_session() -> None:
    assert members(LEADER, process(101, 100), process(102, 101), process(200)) == {100, 101, 102}


def test_orphans_in_the_session_or_the_group_while_the_leader_is_there() -> None:
    orphans = process(101, sid=100), process(102, sid=100, pgid=102)
    assert members(LEADER, *orphans) == {100, 101, 102}
    zombie = process(100, start=1000, state="Z")
    assert members(zombie, *orphans) == {100, 101, 102}


def test_without_the_leader_a_session_of_its_number_proves_nothing() -> None:
    assert members(process(101, sid=100)) == set()
    recycled = process(100, start=5000)
    assert members(recycled, process(101, 100, sid=100)) == set()


def test_without_the_leader_a_marked_one_proves_its_session() -> None:
    assert members(process(101, sid=100), process(102, sid=100), marked=(102,)) == {101, 102}


def test_marked_ones_and_their_descendants() -> None:
    assert members(process(101), process(102, 101), process(103), marked=(101,)) == {101, 102}


def test_a_marker_of_another_attempt_is_a_stranger() -> None:
    assert Lineage(RECORD).attribute({101: process(101)}, {101: "att-2"}) == set()


def test_nobody_older_than_the_leader_belongs() -> None:
    old = process(50, start=999, sid=100)
    assert members(LEADER, old, process(51, 50, start=999), marked=(50,)) == {100}


def test_the_session_of_a_member_holds_after_that_member_has_gone() -> None:
    lineage = Lineage(RECORD)
    daemon = process(101, 100, sid=101)
    assert members(LEADER, daemon, lineage=lineage) == {100, 101}
    assert members(LEADER, process(102, sid=101), lineage=lineage) == {100, 102}


def test_a_session_whose_number_was_free_in_between_is_forgotten() -> None:
    lineage = Lineage(RECORD)
    members(LEADER, process(101, 100, sid=101), lineage=lineage)
    assert members(LEADER, lineage=lineage) == {100}
    assert members(LEADER, process(102, sid=101), lineage=lineage) == {100}


def test_a_session_with_a_new_leader_is_forgotten() -> None:
    lineage = Lineage(RECORD)
    members(LEADER, process(101, 100, sid=101), lineage=lineage)
    recycled = process(101, start=2000, sid=101)
    assert members(LEADER, recycled, process(102, 101, sid=101), lineage=lineage) == {100}


def test_a_member_is_remembered_when_every_link_is_cut() -> None:
    lineage = Lineage(RECORD)
    members(LEADER, process(101, 100, sid=101), lineage=lineage)
    assert members(process(101, 1, sid=101), lineage=lineage) == {101}
    assert members(process(101, 1, sid=101, start=3000), lineage=lineage) == set()


def test_the_daemon_itself_is_never_a_member() -> None:
    assert members(LEADER, process(os.getpid(), 100), marked=(os.getpid(),)) == {100}


@st.composite
def worlds(draw: st.DrawFn) -> list[ProcStat]:
    pids = draw(st.lists(st.integers(2, 120), unique=True, max_size=25))
    return [
        process(
            pid,
            draw(st.sampled_from([1, 100, *pids])),
            start=draw(st.integers(995, 1010)),
            sid=draw(st.sampled_from([pid, 100, *pids])),
        )
        for pid in pids
    ]


@settings(deadline=None)
@given(worlds(), st.sets(st.integers(2, 120)))
def test_whatever_the_world_looks_like(world: list[ProcStat], marked: set[int]) -> None:
    lineage = Lineage(RECORD)
    table = {stat.pid: stat for stat in world}
    markers = dict.fromkeys(marked & table.keys(), "att-1")
    found = lineage.attribute(table, markers)
    young = {pid for pid, stat in table.items() if stat.start_time >= 1000}
    assert found <= young
    assert marked & young <= found
    for pid in young:
        if table[pid].ppid in found:
            assert pid in found
    assert lineage.attribute(table, markers) == found
    if not markers and (100 not in table or table[100].start_time != 1000):
        assert found == set()
