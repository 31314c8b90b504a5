"""What is taken away from a training in the middle comes back, and it goes on from its last checkpoint."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import Site
from e2e.training import TOLERANCE, Training

STEPS = 40
LONG: dict[str, Any] = {"training": {"steps": STEPS}, "runPolicy": {"backoffLimit": 8}}


@pytest.fixture(scope="session")
def reference() -> dict[int, float]:
    """The curve of the undisturbed training, once there is one."""
    return {}


def test_undisturbed(train: Callable[..., Training], reference: dict[int, float]) -> None:
    """An undisturbed training, to compare with"""
    training = train("undisturbed", LONG)
    status = training.wait_phase("Succeeded", within=900)
    assert status["failures"] == 0
    reference.update(training.curve())
    assert list(reference) == list(range(1, STEPS + 1))


def test_losses(train: Callable[..., Training], site: Site, reference: dict[int, float]) -> None:
    """A critic pod, an actor pod, the head, then a whole node are lost: it recovers each time and ends on the same curve"""
    training = train("losses", LONG)
    api, namespace = training.namespace.api, training.namespace.name
    done = 0
    for number, group in enumerate(("critic", "actor", "headgroup"), 1):
        done = training.wait_step(done + 3)["training"]["step"]
        # At once: within a pod's grace period much of the training would be done.
        at_once = {"gracePeriodSeconds": 0}
        api.delete("pods", training.pod_of(group)["metadata"]["name"], namespace=namespace, options=at_once)
        seen = training.wait(lambda s, n=number: s["attempt"] > n, what=f"another attempt after the {group} was lost")
        assert seen["phase"] in ("Recovering", "Provisioning", "Starting", "Running"), seen
        assert seen["failures"] == number

    training.wait_step(done + 3)
    lost = site.cluster.nodes[training.pod_of("critic")["spec"]["nodeName"]]
    lost.cut_off()
    try:
        training.wait(lambda s: s["attempt"] > 4, what="another attempt after the node was lost")
        status = training.wait_phase("Succeeded", within=900)
    finally:
        lost.restore()
        lost.wait_ready(site.cluster.api)
    assert [a["outcome"] for a in status["attempts"]][-1] == "Succeeded"
    assert_no_more_lost_than_since_the_checkpoint(training)
    if not reference:
        pytest.skip("recovered each time, but the undisturbed training did not end: there is no curve to compare with")
    assert training.curve() == pytest.approx(reference, abs=TOLERANCE)


def assert_no_more_lost_than_since_the_checkpoint(training: Training, *, every: int = 2) -> None:
    """Where an attempt begins anew, it begins right after the newest checkpoint there was."""
    steps = training.steps_done()
    for before, after in itertools.pairwise(steps):
        assert before - every < after <= before + 1, f"after step {before} came step {after}: {steps}"
