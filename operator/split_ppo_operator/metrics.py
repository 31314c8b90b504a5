"""What the operator tells Prometheus. No job names in labels: their number has no bound."""

from collections import Counter as Count
from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, disable_created_metrics

from split_ppo import __version__
from split_ppo.api.status import Phase
from split_ppo_operator.snapshot import Snapshot
from split_ppo_operator.verdict import Verdict

disable_created_metrics()  # type: ignore[no-untyped-call]
LOOK_BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
START_BUCKETS = (10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1200.0, 1800.0, 3600.0, 7200.0, 21600.0)
PHASES: tuple[Phase, ...] = get_args(Phase)


class Metrics:
    def __init__(self) -> None:
        made = self.registry = CollectorRegistry()
        ProcessCollector(registry=made)
        info = Gauge("split_ppo_build_info", "The version that runs; always 1", ["version"], registry=made)
        info.labels(__version__).set(1)
        self.leader = Gauge("split_ppo_leader", "Whether this replica acts", registry=made)
        self.reconciles = Counter("split_ppo_reconciles", "Looks at a job, by result", ["result"], registry=made)
        for result in ("done", "failed"):
            self.reconciles.labels(result)
        self.reconcile_seconds = Histogram(
            "split_ppo_reconcile_seconds", "How long a look takes", registry=made, buckets=LOOK_BUCKETS
        )
        self.queue_depth = Gauge("split_ppo_queue_depth", "Jobs waiting to be looked at", registry=made)
        self.queue_oldest = Gauge(
            "split_ppo_queue_oldest_seconds", "How long the first of them has been waiting", registry=made
        )
        self.api_requests = Counter(
            "split_ppo_api_requests",
            "Requests to the API server; code 0: it could not be reached",
            ["verb", "code"],
            registry=made,
        )
        self.jobs = Gauge("split_ppo_jobs", "Jobs by phase; of the replica that acts", ["phase"], registry=made)
        self.time_to_running = Histogram(
            "split_ppo_time_to_running_seconds",
            "From a job's creation until its first attempt runs",
            registry=made,
            buckets=START_BUCKETS,
        )
        self.attempts = Counter(
            "split_ppo_attempts", "Attempts that ended, by outcome and reason", ["outcome", "reason"], registry=made
        )

    def on_request(self, verb: str, code: int) -> None:
        self.api_requests.labels(verb, str(code)).inc()

    def on_change(self, snapshot: Snapshot, verdict: Verdict, now: datetime) -> None:
        """A status was written: count what ended, and measure what began to run for the first time."""
        before, after = snapshot.attempt, verdict.attempt
        if after is not None and after.outcome != "Running" and before is not None and before.number == after.number:
            self.attempts.labels(after.outcome, after.reason or "").inc()
        first = before is not None and before.number == 1 and snapshot.status.phase != "Running"
        if verdict.phase == "Running" and first and snapshot.created is not None:
            self.time_to_running.observe(max((now - snapshot.created).total_seconds(), 0.0))

    def count_jobs(self, phases: Iterable[str]) -> None:
        """Every phase has a number, so that an alert on one that is rare has something to look at."""
        found = Count(phases)
        for phase in PHASES:
            self.jobs.labels(phase).set(found[phase])
