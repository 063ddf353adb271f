"""The journal against a simple model, on a disk that loses power.

Invariants: what was acknowledged is there; what was published is there after the process ended;
no number twice, ever; order; ``earliest``, ``latest`` and ``retained_bytes`` right; a cursor gives
what was written, or an explicit gap, never anything else.
"""

from __future__ import annotations

import os
import time
from dataclasses import replace

import hypothesis.strategies as st
import pytest
import trio
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from s0d.journal import (
    GAP,
    Cursor,
    CursorExpired,
    Entry,
    JournalError,
    Limits,
    Record,
)
from tests.journal.disks import FailDisk, SimDisk, Stopped, Trap
from tests.journal.tools import Clock, control, create, output, reopen

PATH = "/journal"
BYTES = 256 * 1024

entries = st.lists(
    st.one_of(
        st.integers(0, 1000).map(control),
        st.builds(output, st.sampled_from([0, 10, 700, 5_000, 17_000]), st.integers(0, 255)),
        st.builds(output, st.sampled_from([60_000, 65_536]), st.integers(0, 255)),
    ),
    min_size=1,
    max_size=6,
)


ends = st.sampled_from(["crash", "power_cut"])
stops = st.builds(Trap, st.integers(0, 30), st.booleans())
failures = st.builds(Trap, st.integers(0, 30), st.just(False), st.just(5))


class JournalMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.written: dict[int, Record] = {}
        self.acknowledged = 0
        self.removed = 0
        """The highest ``earliest`` seen: below it anything may be gone."""
        self.limits = Limits(BYTES, 100)
        self.clock = Clock()
        self.readers: list[tuple[Cursor, list[int]]] = []
        self.ever = 0
        self.maybe: list[Entry] = []
        self.maybe_first = 0
        """Of an append that the end of the process interrupted: all of it may be there, or none."""
        self.removal_failed = False
        """The disk refused it: then ``max_bytes`` cannot hold, until the next one is asked for."""

    @initialize(seed=st.integers(0, 2**32))
    def begin(self, seed: int) -> None:
        self.sim = SimDisk(seed)
        self.disk = FailDisk(self.sim)
        self.journal = create(PATH, self.disk, limits=self.limits, clock=self.clock)

    @rule(batch=entries)
    def append(self, batch: list[Entry]) -> None:
        try:
            block = self.journal.append(batch)
        except JournalError:
            assert self.disk.points  # only ever for a fault
            return
        finally:
            self.removal_failed = any(p.hits for p in self.disk.points if p.operation == "unlink")
            self.disk.points.clear()
            self.disk.before = None
        assert block.first == self.journal.latest - len(batch) + 1 > self.ever
        assert [(r.type, r.fields) for r in block.records] == [(e.type, e.fields) for e in batch]
        self.written.update((record.seq, record) for record in block.records)
        self.ever = block.last

    @rule(
        operation=st.sampled_from(["writev", "open", "unlink", "ftruncate", "fallocate"]),
        error=st.sampled_from([5, 28]),
        skip=st.integers(0, 3),
        short=st.sampled_from([None, 1, 90, 20_000]),
        also=st.booleans(),
        late=st.booleans(),
    )
    def fault_ahead(
        self, operation: str, error: int, skip: int, short: int | None, also: bool, late: bool
    ) -> None:
        if late:  # what is to be taken back has reached the disk already
            self.disk.before = self.sim.write_back
        if short is not None:
            self.disk.fail("writev", name=".seg", short=short, skip=skip)
        self.disk.fail(operation, error, name=".seg", skip=skip)
        if also:
            self.disk.fail("ftruncate", 5, name=".seg")
            self.disk.fail("unlink", 5, name=".seg")

    @rule(batch=entries, trap=stops, end=ends)
    def the_process_ends_amid_an_append(self, batch: list[Entry], trap: Trap, end: str) -> None:
        self.disk.points.clear()
        self.disk.trap = replace(trap)
        self.maybe_first = self.journal.latest + 1
        try:
            block = self.journal.append(batch)
        except Stopped:
            self.maybe = batch
        else:
            self.written.update((record.seq, record) for record in block.records)
            self.ever = block.last
        self.end(end, [])

    @rule()
    def sync(self) -> None:
        self.disk.points.clear()
        trio.run(self.journal.wait_durable)
        self.acknowledged = self.journal.latest

    @rule()
    def the_directory_cannot_be_synced(self) -> None:
        self.disk.points.clear()
        self.disk.fail("fsync", 5, name=PATH)
        try:
            trio.run(self.journal.wait_durable)
        except JournalError:
            pass
        else:
            self.acknowledged = self.journal.latest
        self.disk.points.clear()

    @rule(failures=st.integers(1, 3))
    def sync_fails(self, failures: int) -> None:
        self.disk.points.clear()
        self.sim.fail_syncs = failures
        durable = self.journal.durable
        try:
            trio.run(self.journal.wait_durable)
        except JournalError:
            assert self.journal.durable == durable
        else:
            self.acknowledged = self.journal.latest
        self.sim.fail_syncs = 0

    @rule(seconds=st.sampled_from([1.0, 7.0, 40.0, 101.0]))
    def time_passes(self, seconds: float) -> None:
        self.disk.points.clear()
        self.clock.now += seconds
        due = self.journal.retire(self.clock())
        self.removal_failed = False
        assert due is None or due > self.clock()

    @rule(max_bytes=st.sampled_from([BYTES, BYTES * 2, BYTES * 4]))
    def change_limits(self, max_bytes: int) -> None:
        self.disk.points.clear()
        self.limits = Limits(max_bytes, 100)
        self.journal.set_limits(self.limits)

    @rule(back=st.integers(0, 60))
    def attach(self, back: int) -> None:
        start = max(0, self.journal.earliest - 1, self.journal.latest - back)
        if len(self.readers) < 3:
            self.readers.append((self.journal.cursor(start), []))

    @rule(
        which=st.integers(0, 2),
        max_bytes=st.sampled_from([1, 5_000, 200_000]),
        count=st.integers(1, 9),
    )
    def read(self, which: int, max_bytes: int, count: int) -> None:
        self.disk.points.clear()
        if not self.readers:
            return
        reader = self.readers[which % len(self.readers)]
        cursor = reader[0]
        position = cursor.position
        for _ in range(count):
            try:
                block = trio.run(cursor.read_available, max_bytes, 50)
            except CursorExpired:
                assert cursor.position + 1 < self.journal.earliest
                cursor.close()
                self.readers.remove(reader)
                return
            if block is None:
                assert cursor.position == self.journal.latest
                return
            assert block.first == position + 1
            assert len(block.records) == 1 or block.nbytes <= max_bytes
            position = self.check_records(block.records, position)

    @rule()
    def detach(self) -> None:
        for cursor, _ in self.readers:
            cursor.close()
        self.readers.clear()

    @rule()
    def close_and_open(self) -> None:
        self.disk.points.clear()
        self.detach()
        latest = self.journal.latest
        self.journal.close()
        self.acknowledged = latest
        self.recover(unclean=False)
        assert self.journal.latest == latest

    @rule()
    def write_back(self) -> None:
        self.sim.write_back()

    @rule(how=ends, interrupted=st.lists(st.tuples(stops | failures, ends), max_size=3))
    def end(self, how: str, interrupted: list[tuple[Trap, str]]) -> None:
        """The process or the machine ends, also amid the openings that follow."""
        self.disk.points.clear()
        self.readers.clear()
        kept, retired = self.ever_written(), self.journal.earliest
        for trap, following in [(None, how), *interrupted]:
            if trap is not None:
                self.open_interrupted(trap)
            if following == "power_cut":
                self.sim.power_cut()
                self.removed = 0
                kept = self.acknowledged
            else:
                self.sim.crash()
        self.removal_failed = True  # it may have been interrupted; an opening removes nothing
        self.recover(unclean=True)
        whole = all(following == "crash" for _, following in [(None, how), *interrupted])
        self.check_all(through=kept, retired=retired, whole=whole)

    def open_interrupted(self, trap: Trap) -> None:
        disk = FailDisk(self.sim)
        disk.trap = replace(trap)
        try:
            opened = reopen(PATH, disk, limits=self.limits, clock=self.clock)
        except Stopped:
            pass
        except JournalError:
            assert self.sim.descriptors == 0
        else:  # its gap is acknowledged, as nobody has written it in this model
            self.ever = max(self.ever, opened.latest)

    def recover(self, *, unclean: bool) -> None:
        assert self.sim.descriptors == 0
        self.disk = FailDisk(self.sim)
        self.journal = reopen(PATH, self.disk, limits=self.limits, clock=self.clock)
        assert self.journal.recovery.unclean == unclean
        assert not self.journal.recovery.mark_lost or unclean
        if unclean:
            assert self.journal.latest > self.ever
            self.ever = self.journal.latest

    def ever_written(self) -> int:
        return max(self.written, default=0)

    def check_records(self, records: list[Record], position: int) -> int:
        for record in records:
            if record.type == GAP:
                assert record.fields["first"] <= position + 1
                assert record.fields["last"] == record.seq
            else:
                assert record.seq == position + 1
                # Also what a failed append has left behind never comes to light.
                assert record == self.written.get(record.seq) or self._is_maybe(record)
            position = record.seq
        return position

    def _is_maybe(self, record: Record) -> bool:
        place = record.seq - self.maybe_first
        if not 0 <= place < len(self.maybe):
            return False
        entry = self.maybe[place]
        return (record.type, record.fields) == (entry.type, entry.fields)

    def check_all(self, *, through: int, retired: int = 0, whole: bool = False) -> None:
        """All up to ``through`` that is retained is there, and of an interrupted append all or
        nothing (``whole``; a power cut may have made holes). What was ``retired``, below that
        number, may be told as lost after a power cut."""
        records = trio.run(self.everything)
        self.check_records(records, max(0, self.journal.earliest - 1))
        found = {record.seq: record for record in records if record.type != GAP}
        for seq in self.written:
            if max(self.journal.earliest, retired) <= seq <= through:
                assert seq in found, f"{seq} is lost"
        maybe = [seq for seq in found if seq not in self.written]
        expected = range(
            max(self.maybe_first, self.journal.earliest), self.maybe_first + len(self.maybe)
        )
        assert not whole or maybe in ([], list(expected))
        # What is lost will not come back, and what has come to light will stay.
        self.written = found
        self.maybe = []

    async def everything(self) -> list[Record]:
        records: list[Record] = []
        with self.journal.cursor(None) as cursor:
            while (block := await cursor.read_available()) is not None:
                records.extend(block.records)
        return records

    @invariant()
    def bounds_hold(self) -> None:
        if not hasattr(self, "journal"):
            return
        journal = self.journal
        assert journal.latest >= self.ever
        assert journal.retained_bytes <= self.limits.max_bytes or self.removal_failed
        assert journal.earliest <= journal.latest + 1
        assert journal.durable <= journal.latest
        assert journal.earliest >= self.removed
        self.removed = journal.earliest

    def teardown(self) -> None:
        if hasattr(self, "journal"):
            self.disk.points.clear()
            self.check_all(through=self.ever_written())
            self.detach()
            self.journal.close()
            assert self.sim.descriptors == 0


def run(examples: int, steps: int, *, same: bool) -> None:
    """``same``: the stories of every other run, else new ones, also where CI is set."""
    run_state_machine_as_test(
        JournalMachine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            database=None,
            derandomize=same,
        ),
    )


def test_the_journal_keeps_its_promises() -> None:
    run(1000, 60, same=True)  # what is new is looked for in the long mode


@pytest.mark.long
def test_the_journal_keeps_its_promises_for_an_hour() -> None:
    end = time.monotonic() + 60 * float(os.environ.get("S0D_MODEL_MINUTES", "60"))
    while time.monotonic() < end:
        run(500, 80, same=False)
