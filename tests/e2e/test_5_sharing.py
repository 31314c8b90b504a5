"""GPUs for one, jobs for two: the second waits with a reason, by the scheduler or in a real Kueue's queue."""

from collections.abc import Callable

import pytest

from e2e.conftest import Site
from e2e.test_4_reasons import gpus
from e2e.training import TOLERANCE, Training
from testbed import kueue
from testbed.cluster import Namespace

LONG = 40  # pods have a grace period in which a shorter training would come to its end


def test_two_compete(train: Callable[..., Training]) -> None:
    """Two jobs compete for GPUs that fit one: the second waits with a reason, and then trains"""
    first = train("first", gpus(per_pool=2))
    first.wait_phase("Running")
    second = train("second", gpus(per_pool=2))
    second.wait_reason("Unschedulable", saying="nvidia.com/gpu")
    first.wait_phase("Succeeded")
    second.wait_phase("Running", within=300)
    assert second.status["failures"] == 0
    second.delete()
    second.wait_gone()


@pytest.fixture
def queue(site: Site, ml: Namespace) -> str:
    """A way into a quota of two GPUs, and two priorities."""
    site.cluster.install_kueue(gpus=2)
    kueue.apply_once_admitted(
        site.cluster, [kueue.local_queue() | {"metadata": {"name": kueue.QUEUE, "namespace": ml.name}}]
    )
    for name, value in (("low", 1), ("high", 1000)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        site.cluster.api.apply({**kind, "value": value})
    return kueue.QUEUE


def test_kueue(train: Callable[..., Training], queue: str) -> None:
    """In a Kueue: waits with Kueue's reason, is preempted, comes back, ends from its checkpoint; no attempt failed"""

    def queued(priority: str) -> dict[str, object]:
        return {**gpus(per_pool=1), "scheduling": {"queueName": queue, "priorityClassName": priority}}

    patient = train("patient", {**queued("low"), "training": {"steps": LONG}})
    reached = patient.wait_step(4)["training"]["step"]
    urgent = train("urgent", {**queued("high"), "training": {"steps": 2}})
    waiting = patient.wait_reason("Queued", within=120)
    assert waiting["phase"] == "Pending"
    urgent.wait_phase("Succeeded")
    status = patient.wait_phase("Succeeded")
    assert [a["outcome"] for a in status["attempts"]] == ["Preempted", "Succeeded"]
    assert status["failures"] == 0
    steps = patient.steps_done()
    assert len(steps) - len(set(steps)) <= 2, f"{steps}, {reached} reached before it was preempted"
    assert steps[-1] == LONG
    shared = {step: reward for step, reward in urgent.curve().items() if step in patient.curve()}
    assert shared == pytest.approx({step: patient.curve()[step] for step in shared}, abs=TOLERANCE)
