"""The wall clock is set back or forward by hours: order, numbers and ages do not move with it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from s0d.journal import GAP, Journal, Limits, verify
from tests.journal.tools import Clock, contents, control, create, output, reopen, seqs

HOUR = 3_600_000_000_000
NOW = 1_800_000_000_000_000_000
JUMPS = [-6 * HOUR, 6 * HOUR, -NOW]  # the last: to 1970, as without a battery


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


@pytest.mark.parametrize("jump", JUMPS)
@pytest.mark.parametrize("clean", [True, False])
async def test_order_is_that_of_the_numbers(path: Path, jump: int, clean: bool) -> None:
    journal = create(path, limits=Limits(256 * 1024))
    times = []
    for n in range(60):
        times.append(NOW + n + (jump if 20 <= n < 40 else 0))
        journal.append([output(1000, time_ns=times[-1])])
    journal.close(clean=clean)
    assert verify(str(path)).ok
    journal = reopen(path, limits=Limits(256 * 1024))
    records = [record for record in await contents(journal) if record.type != GAP]
    assert seqs(records) == list(range(1, 61))
    assert [record.time_ns for record in records] == times, "each as it was stamped"
    with journal.cursor(30) as cursor:
        block = await cursor.read_available()
        assert block is not None
        assert block.first == 31
    journal.close()


@pytest.mark.parametrize("jump", JUMPS)
def test_ages_of_an_open_journal_are_by_another_clock(path: Path, jump: int) -> None:
    clock = Clock()
    journal = create(path, limits=Limits(1 << 20, 160), clock=clock)
    journal.append([control(time_ns=NOW)])
    clock.now += 11  # more than a sixteenth: a new segment
    journal.append([control(time_ns=NOW + jump)])
    clock.now += 5
    journal.append([control(time_ns=NOW + jump)])
    assert len(list(path.glob("*.seg"))) == 2, "a segment is as old as it is, whatever its stamps"
    assert journal.retire(clock()) == 1160.0
    clock.now = 1160.0
    assert journal.retire(clock()) == 1176.0
    assert journal.earliest == 2
    clock.now = 1176.0
    assert journal.retire(clock()) is None
    journal.close()


def aged(path: Path, clock: Clock, stamps: list[int]) -> None:
    """A journal with a segment for each stamp."""
    journal = create(path, limits=Limits(1 << 20, 160), clock=clock)
    for stamp in stamps:
        journal.append([control(time_ns=stamp)])
        clock.now += 11
    journal.close()


def opened(path: Path, clock: Clock, wall: int) -> Journal:
    return reopen(path, limits=Limits(1 << 20, 7200), clock=clock, wall_ns=lambda: wall)


def test_a_clock_that_was_set_back_before_a_start_removes_nothing(path: Path) -> None:
    """What seems to come from the future is as new as can be, and comes of age from now on."""
    clock = Clock()
    aged(path, clock, [NOW, NOW + 11, NOW + 22])
    for wall in (NOW - 6 * HOUR, 0):
        journal = opened(path, clock, wall)
        assert journal.retire(clock()) == clock.now + 7200
        assert journal.earliest == 1
        journal.close()


def test_one_stamp_from_the_future_holds_back_only_its_own_segment(path: Path) -> None:
    clock = Clock()
    aged(path, clock, [NOW, NOW + 6 * HOUR, NOW])
    journal = opened(path, clock, NOW + 3 * HOUR)
    assert journal.retire(clock()) == clock.now + 7200
    assert journal.earliest == 2
    clock.now += 7200
    assert journal.retire(clock()) is None, "the one after it was due long ago"
    journal.close()


def test_a_stamp_from_the_past_takes_nothing_older_with_it(path: Path) -> None:
    """Segments go from the old end: one stamped 1970 waits for those before it."""
    clock = Clock()
    aged(path, clock, [NOW, 0, NOW])
    journal = opened(path, clock, NOW + HOUR)
    assert journal.retire(clock()) == clock.now + 3600
    assert journal.earliest == 1
    journal.close()


@pytest.mark.parametrize("jump", JUMPS)
async def test_a_gap_is_not_stamped_before_what_it_follows(
    path: Path, jump: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = create(path)
    journal.append([control(time_ns=NOW)])
    journal.close(clean=False)
    monkeypatch.setattr(time, "time_ns", lambda: NOW + jump)
    journal = reopen(path)
    first, gap = await contents(journal)
    assert (first.time_ns, gap.type, gap.time_ns) == (NOW, GAP, max(NOW, NOW + jump))
    assert journal.last_time_ns == gap.time_ns
    journal.close()
