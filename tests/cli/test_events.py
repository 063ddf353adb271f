"""Parsing SSE, and following across everything that breaks."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from s0d.cli.client import Client
from s0d.cli.errors import ApiError, ConnectionLost, Unreachable
from s0d.cli.events import Follower, parse_sse
from s0d.cli.following import SessionGone
from s0d.cli.target import Target, resolve
from tests.cli.fake import Answer, FakeServer, failure, frame


def client(fake: FakeServer) -> Client:
    return Client(resolve(fake.url, None, {}))


@given(st.data())
def test_events_do_not_depend_on_how_bytes_arrive(data: st.DataObject) -> None:
    parts = data.draw(
        st.lists(st.sampled_from([b": comment\n\n", *(frame(i, x="\n\n") for i in range(4))]))
    )
    stream = b"".join(parts)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)))))
    chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    whole = [event.seq for event in parse_sse([stream])]
    assert [event.seq for event in parse_sse(chunks)] == whole
    assert len(whole) == sum(not part.startswith(b":") for part in parts)


def test_an_unfinished_frame_is_no_event() -> None:
    assert list(parse_sse([frame(1)[:-1]])) == []


def test_the_raw_line_is_kept() -> None:
    (event,) = parse_sse([frame(5, "output", stream="stdout", data_base64="YQ==", extra=1)])
    assert b'"extra": 1' in bytes(event.raw)
    assert (event.seq, event.stream, event.data_base64) == (5, "stdout", "YQ==")


def test_goes_on_after_the_last_sequence_and_ends_with_the_session(fake: FakeServer) -> None:
    fake.script(
        Answer(chunks=[frame(1), frame(2), frame(3)[:20]], breaks=True),
        failure(503, "unavailable"),
        Answer(chunks=[b": hello\n\n"]),
        Answer(chunks=[frame(3)]),
        failure(404, "session_not_found"),
    )
    seen: list[int] = []
    with pytest.raises(SessionGone):
        seen.extend(sequences(Follower(client(fake), "ses-1")))
    assert seen == [1, 2, 3]
    paths = [request.path.partition("stream")[2] for request in fake.requests]
    assert paths == ["", "?after=2", "?after=2", "?after=2", "?after=3"]


def sequences(follower: Follower) -> Iterator[int]:
    for event in follower:
        yield event.seq


def test_falling_behind_is_said_and_skips_to_what_is_left(fake: FakeServer) -> None:
    fake.script(
        Answer(chunks=[frame(1)]),
        failure(410, "event_cursor_expired", earliest=50, latest=60),
        Answer(chunks=[frame(50)]),
        failure(404, "session_not_found"),
    )
    notices: list[str] = []
    seen: list[int] = []
    with pytest.raises(SessionGone):
        seen.extend(sequences(Follower(client(fake), "ses-1", notice=notices.append)))
    assert seen == [1, 50]
    assert fake.requests[2].path.endswith("?after=49")
    assert notices == ["fell behind: events before 50 are no longer retained"]


@pytest.mark.parametrize(
    "answer",
    [
        failure(404, "session_not_found"),
        failure(400, "invalid_request"),
        failure(410, "event_cursor_expired", earliest=2, latest=3),
    ],
)
def test_a_refusal_at_first_is_the_callers_error(fake: FakeServer, answer: Answer) -> None:
    fake.script(answer)
    with pytest.raises(ApiError) as caught:
        next(iter(Follower(client(fake), "ses-0a1b2c3d-0000-4000-8000-000000000001", 1)))
    assert caught.value.status == answer.status


def test_no_daemon_at_first_is_an_error_at_once(tmp_path: object) -> None:
    nobody = Target(url="unix:/nowhere", socket="/nowhere/s0d.sock")
    with pytest.raises(Unreachable):
        next(iter(Follower(Client(nobody), "ses-1")))


def test_patience_has_an_end_and_a_long_wait_is_said(
    fake: FakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    clock = SimpleNamespace(
        monotonic=lambda: now[0], sleep=lambda seconds: now.__setitem__(0, now[0] + seconds)
    )
    monkeypatch.setattr("s0d.cli.following.time", clock)
    fake.answer = lambda request: Answer(chunks=[], breaks=True)
    notices: list[str] = []
    with pytest.raises(ConnectionLost):
        next(iter(Follower(client(fake), "ses-1", notice=notices.append)))
    assert notices == ["lost the daemon, trying to reconnect"]
    assert 60 <= now[0] < 70
