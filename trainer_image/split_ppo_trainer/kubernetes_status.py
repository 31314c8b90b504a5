"""`status.training`, `status.recommendation` and `status.balance` of the SplitPPOJob, written by the trainer itself.

In the head pod there is a token that may patch this one job's status and nothing else. Server-side apply under a field
manager of our own leaves the operator's fields alone and takes away what is not said again: every write says all. Writes
happen on a thread of their own, the newest report wins, at most one every few seconds; a refused or failed write
is said once and the training goes on.
"""

import http.client
import json
import os
import ssl
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from split_ppo_trainer.progress import StepReport, plain
from split_ppo_trainer.recommendation import Recommender

TOKEN_FOLDER = Path("/var/run/secrets/kubernetes.io/serviceaccount")
FIELD_MANAGER = "split-ppo-trainer"
MIN_INTERVAL_S = 5.0


class KubernetesStatus:
    """Applies the newest report to the job's status, never faster than `min_interval`."""

    def __init__(
        self,
        *,
        name: str,
        namespace: str,
        server: str,
        token_file: Path,
        ca_file: Path | None,
        recommender: Recommender | None = None,
        balance: Mapping[str, Any] | None = None,
        min_interval: float = MIN_INTERVAL_S,
    ) -> None:
        self._path = f"/apis/splitppo.io/v1alpha1/namespaces/{namespace}/splitppojobs/{name}/status"
        self._name, self._namespace, self._server = name, namespace, server
        self._token_file, self._ca_file, self._min_interval = token_file, ca_file, min_interval
        self._recommender = recommender
        self._status: dict[str, Any] = {} if balance is None else {"balance": balance}
        self._newest: dict[str, Any] | None = None
        self._closing = False
        self._changed = threading.Condition()
        self._durations: list[float] = []
        self._thread = threading.Thread(target=self._write_on, name="job-status", daemon=True)
        self._thread.start()

    @classmethod
    def in_this_pod(
        cls,
        *,
        name: str,
        namespace: str | None,
        recommender: Recommender | None = None,
        balance: Mapping[str, Any] | None = None,
    ) -> "KubernetesStatus | None":
        """The sink, where this process has a token and an API server to talk to."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        token, authority = TOKEN_FOLDER / "token", TOKEN_FOLDER / "ca.crt"
        if not (host and namespace and token.exists()):
            return None
        server = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return cls(
            name=name,
            namespace=namespace,
            server=f"https://{server}",
            token_file=token,
            ca_file=authority if authority.exists() else None,
            recommender=recommender,
            balance=balance,
        )

    def event(self, event: Mapping[str, Any]) -> None:
        """The operator tells stages; this tells steps, and where the run moves to."""
        if self._recommender is not None:
            self._recommender.event(event)
        if event["event"] == "move":
            self._tell({"balance": event["balance"]})

    def step(self, report: StepReport) -> None:
        self._durations = [*self._durations[-19:], report.seconds.get("step", 0.0)]
        status: dict[str, Any] = {"training": training_status(report, sum(self._durations) / len(self._durations))}
        if self._recommender is not None and (advice := self._recommender.step(report)) is not None:
            status["recommendation"] = advice
        self._tell(status)

    def close(self) -> None:
        """Write what is left, once, without waiting for long."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout=10)

    def _tell(self, news: Mapping[str, Any]) -> None:
        with self._changed:
            self._newest = self._status = {**self._status, **news}
            self._changed.notify()

    def _write_on(self) -> None:
        complained = False
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._newest is not None or self._closing)
                status, self._newest = self._newest, None
                if status is None:
                    return
            try:
                self._apply(status)
            except Exception as problem:
                if not complained:
                    complained = True
                    print(f"the job's status could not be written; training goes on: {problem}", file=sys.stderr)
            with self._changed:
                self._changed.wait_for(lambda: self._closing, timeout=self._min_interval)

    def _apply(self, status: Mapping[str, Any]) -> None:
        body = {
            "apiVersion": "splitppo.io/v1alpha1",
            "kind": "SplitPPOJob",
            "metadata": {"name": self._name, "namespace": self._namespace},
            "status": status,
        }
        scheme, _, address = self._server.partition("://")
        if scheme == "https":
            context = ssl.create_default_context(cafile=None if self._ca_file is None else str(self._ca_file))
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(address, timeout=10, context=context)
        else:
            connection = http.client.HTTPConnection(address, timeout=10)
        try:
            connection.request(
                "PATCH",
                f"{self._path}?fieldManager={FIELD_MANAGER}&force=true",
                body=json.dumps(plain(body)),
                headers={
                    # Read each time: the kubelet renews it.
                    "Authorization": f"Bearer {self._token_file.read_text().strip()}",
                    "Content-Type": "application/apply-patch+yaml",
                },
            )
            answer = connection.getresponse()
            text = answer.read().decode(errors="replace")
            if answer.status >= 300:
                raise RuntimeError(f"the API server answered {answer.status}: {text[:300]}")
        finally:
            connection.close()


def training_status(report: StepReport, mean_step_seconds: float) -> dict[str, Any]:
    """The report in the words of `status.training`."""
    left = max(report.total_steps - report.step, 0) * mean_step_seconds
    status = {
        "step": report.step,
        "totalSteps": report.total_steps,
        "progress": f"{report.step}/{report.total_steps}",
        "eta": _stamp(time.time() + left),
        # Short: `kubectl get` prints every digit there is.
        "reward": _short(report.reward),
        "phaseSeconds": {name: _short(seconds) for name, seconds in report.seconds.items()},
        "overlapEfficiency": _short(report.overlap_efficiency),
        "checkpoint": report.checkpoint,
        "updatedAt": _stamp(report.time),
    }
    return {key: value for key, value in status.items() if value is not None}


def _short(number: float | None) -> float | None:
    return None if number is None else round(number, 4)


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
