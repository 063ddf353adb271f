"""Wrong tokens are counted by source, and only what is a new guess counts."""

from __future__ import annotations

import pytest

from s0d.api.auth import Authenticator, StaticTokens
from s0d.api.errors import TooManyFailures, Unauthorized, headers_of, status_of
from s0d.api.failures import MAX_SOURCES, Failures, network_of


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_budget_that_fills_up_again() -> None:
    clock = Clock()
    failures = Failures(6, clock)  # one in ten seconds
    for number in range(6):
        assert failures.blocked_for("a") == 0
        assert failures.note("a", bytes([number]))
    assert failures.blocked_for("a") == pytest.approx(10)
    clock.now = 9.5
    assert failures.blocked_for("a") == pytest.approx(0.5)
    clock.now = 10.5
    assert failures.blocked_for("a") == 0
    assert failures.blocked_for("b") == 0


def test_the_same_wrong_token_again_is_no_new_guess() -> None:
    failures = Failures(2, Clock())
    assert [failures.note("a", b"stale") for _ in range(100)] == [True] + [False] * 99
    assert failures.blocked_for("a") == 0


def test_the_table_is_bounded() -> None:
    failures = Failures(1, Clock())
    for number in range(MAX_SOURCES + 10):
        failures.note(number, b"x")
    assert failures.blocked_for(0) == 0  # forgotten
    assert failures.blocked_for(MAX_SOURCES) > 0
    assert len(failures._sources) == MAX_SOURCES


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:a:b:c:d", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("not-an-address", "not-an-address"),
    ],
)
def test_sources(address: str, network: str) -> None:
    assert network_of(address) == network


def test_a_guesser_is_not_told_that_a_guess_was_right(caplog: pytest.LogCaptureFixture) -> None:
    authenticator = Authenticator(StaticTokens.one("right"), failures=Failures(3, Clock()))
    for number in range(3):
        with pytest.raises(Unauthorized):
            authenticator.identify(b"Bearer wrong-%d" % number, None, source="a", request_id="r")
    with pytest.raises(TooManyFailures) as caught:
        authenticator.identify(b"Bearer right", None, source="a")
    assert status_of(caught.value) == 429
    assert headers_of(caught.value) == {"retry-after": "20"}
    assert authenticator.identify(b"Bearer right", None, source="b").name == "token"
    with pytest.raises(Unauthorized):
        authenticator.identify(None, None, source="a")  # no guess at all
    assert [record.getMessage() for record in caplog.records] == ["authentication failed"] * 3
    assert "wrong" not in caplog.text
    assert {vars(record)["client"] for record in caplog.records} == {"a"}
