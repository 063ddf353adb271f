"""Restart arithmetic: backoff, window, limit."""

from __future__ import annotations

import pytest

from s0d.model.restart import Decision, GiveUp, Leave, RestartIn, RestartWindow
from s0d.model.spec import RestartPolicy, RestartSpec


def decide(window: RestartWindow, spec: RestartSpec, now: float, failed: bool = True) -> Decision:
    """Decide, and count what was decided on."""
    decision = window.decide(spec, failed=failed, now=now)
    assert window.decide(spec, failed=failed, now=now) == decision, "deciding changes nothing"
    if isinstance(decision, RestartIn):
        window.count(spec, now)
    return decision


@pytest.mark.parametrize(
    ("policy", "failed", "restarts"),
    [
        (RestartPolicy.NEVER, True, False),
        (RestartPolicy.NEVER, False, False),
        (RestartPolicy.ON_FAILURE, True, True),
        (RestartPolicy.ON_FAILURE, False, False),
        (RestartPolicy.ALWAYS, True, True),
        (RestartPolicy.ALWAYS, False, True),
    ],
)
def test_the_policy_decides_which_ends_are_restarted(
    policy: RestartPolicy, failed: bool, restarts: bool
) -> None:
    decision = decide(RestartWindow(), RestartSpec(policy), 0, failed)
    assert decision == (RestartIn(250) if restarts else Leave())


def test_the_backoff_doubles_up_to_its_maximum_and_then_gives_up() -> None:
    window, spec = RestartWindow(), RestartSpec(RestartPolicy.ALWAYS, max_restarts=7)
    delays = [decide(window, spec, float(n)) for n in range(8)]
    assert delays == [RestartIn(ms) for ms in (250, 500, 1000, 2000, 4000, 5000, 5000)] + [GiveUp()]


def test_a_restart_leaves_the_window_exactly_at_its_end() -> None:
    spec = RestartSpec(RestartPolicy.ALWAYS, max_restarts=1, window_seconds=60)
    window = RestartWindow()
    assert decide(window, spec, 100.0) == RestartIn(250)
    assert decide(window, spec, 159.999) == GiveUp()
    assert decide(window, spec, 160.0) == RestartIn(250)


def test_giving_up_is_not_a_restart() -> None:
    spec = RestartSpec(RestartPolicy.ALWAYS, max_restarts=1, window_seconds=10)
    window = RestartWindow()
    decide(window, spec, 0)
    assert decide(window, spec, 9) == GiveUp()
    assert decide(window, spec, 10) == RestartIn(250)


def test_a_manual_start_begins_a_fresh_window() -> None:
    window, spec = RestartWindow(), RestartSpec(RestartPolicy.ALWAYS, max_restarts=1)
    decide(window, spec, 0)
    window.clear()
    assert decide(window, spec, 1) == RestartIn(250)


def test_the_largest_numbers_allowed_do_no_harm() -> None:
    most = 2**31 - 1
    spec = RestartSpec(RestartPolicy.ALWAYS, most, most, 1, most)
    window = RestartWindow()
    delays = [decide(window, spec, 0.0) for _ in range(100)]
    assert delays[-1] == RestartIn(most)
    assert delays[10] == RestartIn(1024)
