"""A training on a cluster as its user sees it: the quickstart, applied, and what Kubernetes and its volume tell of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.operators import JOBS, phase
from cluster.test_training import quickstart
from split_ppo.verl_config import merge
from testbed.api import Manifest
from testbed.cluster import Namespace

STEPS = 10
# Every run of the mission trains the same thing, so that their curves can be compared; only what a test is about differs.
SMALL: dict[str, Any] = {
    "training": {"steps": STEPS, "batchSize": 16, "miniBatchSize": 16},
    "storage": {"everySteps": 2, "keep": 2},
}
TOLERANCE = 0.02


def without_nulls(document: dict[str, Any]) -> dict[str, Any]:
    """So that a change can also take something away."""
    nested = ((key, without_nulls(value) if isinstance(value, dict) else value) for key, value in document.items())
    return {key: value for key, value in nested if value is not None}


@dataclass(frozen=True)
class Volumes:
    """Folders of this machine that pods mount: the trainer's packages, this project, a place for checkpoints."""

    environment: Path
    project: Path
    checkpoints: Path


@dataclass(frozen=True)
class Training:
    namespace: Namespace
    name: str
    folder: Path

    @classmethod
    def apply(
        cls, namespace: Namespace, volumes: Volumes, name: str, changes: dict[str, Any], *others: Manifest
    ) -> "Training":
        """`kubectl apply`, together with the other objects it needs."""
        folder = volumes.checkpoints
        document = quickstart(namespace, volumes.environment, volumes.project, folder)
        document["metadata"]["name"] = name
        merge(document["spec"], SMALL)
        if "placement" in changes:
            del document["spec"]["placement"]["pools"]
        merge(document["spec"], changes)
        namespace.apply(*others, without_nulls(document))
        return cls(namespace, name, folder)

    @property
    def status(self) -> dict[str, Any]:
        return dict(self.namespace.get(JOBS, self.name).get("status", {}))

    def patch(self, spec: dict[str, Any]) -> None:
        self.namespace.api.patch(JOBS, self.name, {"spec": spec}, namespace=self.namespace.name)

    def delete(self) -> None:
        self.namespace.delete(JOBS, self.name)

    def pods(self, **labels: str) -> list[Manifest]:
        wanted = {"splitppo.io/job": self.name} | {key.replace("_", "-"): value for key, value in labels.items()}
        return self.namespace.find("pods", labels=",".join(f"{key}={value}" for key, value in wanted.items()))

    def pod_of(self, group: str) -> Manifest:
        """The first pod of a pool, or of the head."""
        return self.namespace.find("pods", labels=f"splitppo.io/job={self.name},ray.io/group={group}")[0]

    def wait(self, until: Any, *, within: float = 600, what: str) -> dict[str, Any]:
        """Wait for something in the status; a job that fails meanwhile fails the test at once."""

        def there(job: Manifest) -> bool:
            status = job.get("status", {})
            found = bool(until(status))
            assert found or phase(job) != "Failed", status
            return found

        return dict(self.namespace.wait(JOBS, self.name, there, within=within, what=what)["status"])

    def wait_phase(self, wanted: str, **options: Any) -> dict[str, Any]:
        return self.wait(lambda status: status.get("phase") == wanted, what=f"{self.name} to be {wanted}", **options)

    def wait_step(self, number: int) -> dict[str, Any]:
        """Until so many steps are done and a checkpoint is there to go back to."""
        return self.wait(
            lambda s: (s.get("training", {}).get("step") or 0) >= number and s["training"].get("checkpoint"),
            what=f"{self.name} to reach step {number} with a checkpoint",
        )

    def wait_reason(self, reason: str, *, saying: str = "", within: float = 60) -> dict[str, Any]:
        """Until its own status says this, about that; the minute a user would give it."""

        def there(job: Manifest) -> bool:
            status = job.get("status", {})
            return status.get("reason") == reason and saying in status["message"]

        what = f"{self.name} to say {reason} {saying}".rstrip()
        return dict(self.namespace.wait(JOBS, self.name, there, within=within, what=what)["status"])

    def wait_failed(self, *, within: float = 60) -> dict[str, Any]:
        """Until it has failed, in the minute a user would give it."""

        def there(job: Manifest) -> bool:
            assert phase(job) != "Succeeded", job["status"]
            return phase(job) == "Failed"

        return dict(self.namespace.wait(JOBS, self.name, there, within=within, what=f"{self.name} to fail")["status"])

    def wait_gone(self) -> None:
        """Until nothing of it holds anything."""
        for resource in ("rayclusters.ray.io", "pods"):
            label = f"splitppo.io/job={self.name}"
            self.namespace.wait_all(resource, lambda found: not found, labels=label, within=120, what="all to be gone")

    def events(self) -> list[dict[str, Any]]:
        """What its trainer wrote on the volume, all attempts in their order."""
        files = sorted(
            self.folder.glob(f"{self.name}-*/attempts/*/events.jsonl"), key=lambda file: int(file.parent.name)
        )
        return [json.loads(line) for file in files for line in file.read_text().splitlines()]

    def curve(self) -> dict[int, float]:
        """Reward by step; a step that was done again after a loss counts as it was the last time."""
        return {event["step"]: event["reward"] for event in self.events() if event["event"] == "step"}

    def steps_done(self) -> list[int]:
        """Every step in the order it was done, also those that were done again."""
        return [event["step"] for event in self.events() if event["event"] == "step"]
