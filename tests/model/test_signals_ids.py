"""Signals and ids as clients write them."""

from __future__ import annotations

import signal

import pytest

from s0d.model.errors import InvalidRequest
from s0d.model.ids import is_sandbox_id, is_session_id, new_session_id
from s0d.model.signals import parse_signal, signal_name


@pytest.mark.parametrize("text", ["TERM", "SIGTERM", "term", " sigterm ", "15", 15])
def test_a_signal_may_be_written_in_many_ways(text: str | int) -> None:
    assert parse_signal(text) == signal.SIGTERM


@pytest.mark.parametrize(
    "text", ["", "0", "65", "-9", "SIG", "SIGSIG", "SIG_IGN", "_DFL", "9.0", "KILLL", "１５"]
)
def test_what_is_no_signal_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"^signal:"):
        parse_signal(text)


def test_real_time_signals_have_a_number_and_a_name() -> None:
    assert parse_signal("35") == 35
    assert signal_name(signal.SIGRTMIN + 1) == "SIGRTMIN+1"
    assert signal_name(parse_signal("RTMIN")) == "SIGRTMIN"
    assert signal_name(9) == "SIGKILL"


@pytest.mark.parametrize(
    "text", ["..", "ses-../../x-aaaaaaaa", "ses-123", "SES-123456789abc", "ses-123456789abc\n", ""]
)
def test_a_session_id_is_safe_as_a_name(text: str) -> None:
    assert not is_session_id(text)


def test_own_ids_have_the_form() -> None:
    assert is_session_id(new_session_id())
    assert is_sandbox_id("local")
    assert not is_sandbox_id("-x")
    assert not is_sandbox_id("a/b")
    assert not is_sandbox_id("a\n")
