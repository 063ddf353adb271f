"""`/metrics`, for Prometheus: what the supervisor counts, what there is now, what the API counts.

Everything is read when it is asked for; nothing is kept for it.  The library is imported then, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from quart import Response

import s0d
from s0d.model.histogram import Histogram
from s0d.model.session import Phase

from .auth import Verb
from .call import Call

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from s0d.supervisor import Session, Supervisor

    from .watch import Watch

MEDIA = "text/plain"


async def get_metrics(call: Call) -> Response:
    """Metrics in Prometheus' text format."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

    assert call.principal is not None
    call.principal.check_everywhere(Verb.READ)
    registry = CollectorRegistry()
    registry.register(_Collector(call.supervisor, call.watch))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class _Collector:
    def __init__(self, supervisor: Supervisor, watch: Watch) -> None:
        self._supervisor = supervisor
        self._watch = watch

    def describe(self) -> list[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        sessions = [s for box in self._supervisor.sandboxes.values() for s in box.sessions()]
        yield from _of_sessions(self._supervisor, sessions)
        yield from _of_the_past(self._supervisor)
        yield from _of_the_api(self._watch)
        yield _gauge("build_info", "What runs here.", {("version",): {(s0d.__version__,): 1}})


def _of_sessions(supervisor: Supervisor, sessions: list[Session]) -> Iterator[Metric]:
    phases = Counter(str(session.record.phase) for session in sessions)
    by_phase = {(str(phase),): phases[str(phase)] for phase in Phase}
    yield _gauge("sessions", "Sessions by phase.", {("phase",): by_phase})
    states = Counter(str(sandbox.status) for sandbox in supervisor.sandboxes.values())
    by_state = {(state,): count for state, count in states.items()}
    yield _gauge("sandboxes", "Sandboxes by status.", {("status",): by_state})
    for name, text, value in (
        ("journal_bytes", "Bytes that journals retain.", sum(_retained(s) for s in sessions)),
        ("subscribers", "Clients that look on.", sum(s.attachments for s in sessions)),
        (
            "subscriber_lag_events",
            "Events that the slowest is behind.",
            max(map(_lag, sessions), default=0),
        ),
        ("input_queue_bytes", "Input not yet written.", sum(map(_queued, sessions))),
        (
            "input_queue_longest_bytes",
            "The longest of those queues.",
            max(map(_queued, sessions), default=0),
        ),
        (
            "journals_stalled",
            "Sessions whose journal cannot be written.",
            sum(map(_stalled, sessions)),
        ),
    ):
        yield _gauge(name, text, {(): {(): value}})
    ownership = {(supervisor.ownership.mode,): 1}
    yield _gauge("ownership_info", "How process trees are owned.", {("mode",): ownership})


def _retained(session: Session) -> int:
    return session.journal.retained_bytes


def _lag(session: Session) -> int:
    return session.lag


def _queued(session: Session) -> int:
    return session.queued_input


def _stalled(session: Session) -> bool:
    return session.journal_error is not None


def _of_the_past(supervisor: Supervisor) -> Iterator[Metric]:
    counts = supervisor.host.counts
    yield _counter("events", "Events by type.", "type", {(k,): v for k, v in counts.events.items()})
    yield _counter(
        "exits", "Ends of attempts.", "reason", {(k,): v for k, v in counts.exits.items()}
    )
    started = counts.events["attempt.started"]
    for name, text, value in (
        ("attempts", "Processes that were started for sessions.", started),
        ("restarts", "Restarts that a policy asked for.", counts.restarts),
        ("output_bytes", "Bytes of output.", counts.output_bytes),
        ("spawn_errors", "Processes that could not be started.", counts.spawn_errors),
    ):
        yield _counter(name, text, "", {(): value})
    yield _histogram("spawn_seconds", "Time to start a process.", counts.spawn)
    text = "Time to make a journal durable, waiting for its turn included."
    yield _histogram("journal_sync_seconds", text, supervisor.syncer.rounds)


def _of_the_api(watch: Watch) -> Iterator[Metric]:
    by_route = {(r, m, str(s)): n for (r, m, s), n in watch.requests.items()}
    yield _counter("http_requests", "Requests by route.", "route method status", by_route)
    refusals = {(code,): n for code, n in watch.refusals.items()}
    yield _counter("http_refusals", "Refused before a route saw them.", "code", refusals)
    text = "Connections that were one too many."
    yield _counter("connections_refused", text, "", {(): watch.connections_refused})
    yield _histogram("http_request_seconds", "Time to the end of an answer.", watch.seconds)
    yield _histogram("loop_lag_seconds", "What new events wait for: one turn.", watch.loop_busy)
    yield _gauge("http_requests_in_flight", "Answers under way.", {(): {(): watch.in_flight}})
    yield _gauge("waits", "Requests that wait for something.", {(): {(): watch.waits}})
    connections = {(): {(): watch.connections()}}
    yield _gauge("connections", "Connections that are open.", connections)


def _gauge(name: str, text: str, values: Mapping[Any, Mapping[Any, float]]) -> Metric:
    from prometheus_client.core import GaugeMetricFamily

    [(labels, found)] = values.items()
    made = GaugeMetricFamily(f"s0d_{name}", text, labels=labels)
    for key, value in found.items():
        made.add_metric(key, value)
    return made


def _counter(name: str, text: str, labels: str, found: Mapping[Any, float]) -> Metric:
    from prometheus_client.core import CounterMetricFamily

    made = CounterMetricFamily(f"s0d_{name}", text, labels=labels.split())
    for key, value in found.items():
        made.add_metric(key, value)
    return made


def _histogram(name: str, text: str, histogram: Histogram) -> Metric:
    from prometheus_client.core import HistogramMetricFamily

    made = HistogramMetricFamily(f"s0d_{name}", text)
    made.add_metric([], histogram.cumulative(), histogram.total)
    return made
