"""What the operator tells Prometheus. No job names in labels: their number has no bound."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        made = self.registry
        self.reconciles = Counter("split_ppo_reconciles", "Looks at a job, by result", ["result"], registry=made)
        self.reconcile_seconds = Histogram("split_ppo_reconcile_seconds", "How long a look takes", registry=made)
        self.queue_depth = Gauge("split_ppo_queue_depth", "Jobs waiting to be looked at", registry=made)
        self.api_requests = Counter(
            "split_ppo_api_requests", "Requests to the API server", ["verb", "code"], registry=made
        )
        self.leader = Gauge("split_ppo_leader", "Whether this replica acts", registry=made)

    def on_request(self, verb: str, code: int) -> None:
        self.api_requests.labels(verb, str(code)).inc()
