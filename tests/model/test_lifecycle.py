"""The table, and the fold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from s0d.model import event as ev
from s0d.model import lifecycle
from s0d.model.lifecycle import LifecycleError
from s0d.model.parse import parse_spec
from s0d.model.session import ACTIVE, RECEIPTS_KEPT, Phase, SessionRecord
from s0d.model.spec import DesiredState


class Fact(NamedTuple):
    """An event as the journal gives it back."""

    seq: int
    time_ns: int
    generation: int
    attempt: str | None
    type: str
    fields: dict[str, Any]


class Story:
    """Folds facts that are told one by one."""

    def __init__(self, desired: str = "running", **spec: Any) -> None:
        given = parse_spec(
            msgspec.json.encode({"command": ["x"], "lifecycle": {"desired_state": desired}, **spec})
        )
        self.seq = 1
        created = Fact(1, 10, 1, None, ev.SESSION_CREATED, {"spec": msgspec.to_builtins(given)})
        self.record = lifecycle.create("ses-1", created)

    def tell(self, type: str, attempt: str | None = "att-1", **fields: Any) -> SessionRecord:
        self.seq += 1
        lifecycle.apply(self.record, Fact(self.seq, self.seq * 10, 1, attempt, type, fields))
        return self.record

    def running(self) -> Story:
        self.tell(ev.ATTEMPT_STARTING, number=1)
        self.tell(ev.ATTEMPT_STARTED, pid=7, start_time=99)
        self.tell(ev.SESSION_READY)
        return self


def test_a_life_from_creation_to_exit() -> None:
    story = Story()
    assert story.record.phase is Phase.PENDING
    assert story.tell(ev.ATTEMPT_STARTING, number=1).phase is Phase.STARTING
    assert story.tell(ev.ATTEMPT_STARTED, pid=7).phase is Phase.STARTING
    assert story.tell(ev.SESSION_READY).phase is Phase.RUNNING
    record = story.tell(ev.ATTEMPT_EXITED, exit_code=3, reason="exited", then="end")
    assert record.phase is Phase.EXITED
    attempt = record.attempt
    assert attempt is not None
    assert (attempt.id, attempt.exit_code, attempt.reason, attempt.pid) == (
        "att-1",
        3,
        "exited",
        None,
    )
    assert attempt.finished


def test_created_stopped_is_stopped() -> None:
    assert Story("stopped").record.phase is Phase.STOPPED


@pytest.mark.parametrize(
    ("then", "phase"),
    [
        ("end", Phase.EXITED),
        ("restart", Phase.PENDING),
        ("replace", Phase.PENDING),
        ("fail", Phase.FAILED),
        ("stop", Phase.STOPPING),
        ("suspend", Phase.SUSPENDED),
        ("delete", Phase.STOPPING),
    ],
)
def test_the_exit_itself_says_where_the_session_stands(then: str, phase: Phase) -> None:
    story = Story().running()
    story.tell(ev.ATTEMPT_STOPPING, reason="x")
    assert story.tell(ev.ATTEMPT_EXITED, reason="x", then=then).phase is phase


def test_a_scheduled_restart_counts_and_is_active() -> None:
    story = Story().running()
    story.tell(ev.ATTEMPT_EXITED, exit_code=1, reason="exited", then="restart")
    assert story.record.phase in ACTIVE
    record = story.tell(ev.SESSION_BACKOFF, delay_ms=250, reason="250ms")
    assert (record.phase, record.restart_count) == (Phase.BACKOFF, 1)
    assert record.next_restart_ns == story.seq * 10 + 250_000_000
    assert story.tell(ev.ATTEMPT_STARTING, "att-2", number=2).next_restart_ns == 0


def test_desired_state_and_phase_are_separate() -> None:
    story = Story().running()
    record = story.tell(ev.SESSION_DESIRED_STATE, reason="stopped")
    assert (record.desired, record.phase) == (DesiredState.STOPPED, Phase.RUNNING)
    assert record.spec_version == 2


def test_expiry_wants_it_stopped() -> None:
    record = Story().running().tell(ev.SESSION_EXPIRED, reason="idle_timeout")
    assert (record.desired, record.spec_version) == (DesiredState.STOPPED, 2)


def test_output_is_activity_and_nothing_else() -> None:
    story = Story().running()
    before = msgspec.structs.asdict(story.record)
    record = story.tell(ev.OUTPUT, stream="stdout", data=b"x")
    assert (record.seq, record.last_activity_ns) == (story.seq, story.seq * 10)
    changed = {k for k, v in msgspec.structs.asdict(record).items() if v != before[k]}
    assert changed == {"seq", "last_activity_ns"}


def test_the_newest_receipts_are_kept() -> None:
    story = Story().running()
    for n in range(RECEIPTS_KEPT + 5):
        story.tell(ev.INPUT_ACCEPTED, input_id=f"i{n}", digest=str(n), bytes=1)
    receipts = story.record.receipts
    assert len(receipts) == RECEIPTS_KEPT
    assert "i4" not in receipts
    assert receipts["i5"].digest == "5"


@pytest.mark.parametrize(
    ("type", "fields"),
    [
        (ev.SESSION_READY, {}),
        (ev.ATTEMPT_STARTED, {"pid": 1}),
        (ev.ATTEMPT_EXITED, {"then": "end"}),
        (ev.INPUT_ACCEPTED, {"input_id": "i", "digest": ""}),
        (ev.SESSION_BACKOFF, {"delay_ms": 1}),
        ("session.unheard_of", {}),
    ],
)
def test_what_the_table_does_not_allow_raises_and_changes_nothing(
    type: str, fields: dict[str, Any]
) -> None:
    story = Story("stopped")
    before = msgspec.structs.asdict(story.record)
    with pytest.raises(LifecycleError):
        story.tell(type, **fields)
    assert msgspec.structs.asdict(story.record) == before


def test_an_event_of_another_attempt_is_a_bug() -> None:
    with pytest.raises(LifecycleError, match="not the current one"):
        Story().running().tell(ev.ATTEMPT_EXITED, "att-9", then="end")


def _walk(seed: int) -> Iterator[tuple[Phase, Phase]]:
    """A random walk over the table, as edges."""
    rng = random.Random(seed)
    phase = Phase.PENDING
    for _ in range(200):
        kinds = [kind for (from_, kind) in lifecycle.TRANSITIONS if from_ is phase]
        after = lifecycle.TRANSITIONS[phase, rng.choice(kinds)]
        yield phase, after
        phase = after


def test_every_phase_can_be_reached_and_left() -> None:
    edges = {edge for seed in range(50) for edge in _walk(seed)}
    for phase in set(Phase) - {Phase.PAUSED}:
        assert any(after is phase for before, after in edges if before is not phase), phase
        assert any(before is phase for before, after in edges if after is not phase), phase


def test_a_record_survives_its_encoding() -> None:
    story = Story("running", name="n").running()
    story.tell(ev.INPUT_ACCEPTED, input_id="i", digest="d", bytes=1)
    data = msgspec.json.encode(story.record)
    assert msgspec.json.decode(data, type=SessionRecord) == story.record
