"""Suspended, deleted, or left by its operator at any moment: nothing is lost, and nothing is left."""

from collections.abc import Callable

import pytest

from cluster.charts import CHART
from e2e.conftest import Site, values
from e2e.training import STEPS, Training


def test_suspend_and_resume(train: Callable[..., Training]) -> None:
    """Suspended in the middle it frees everything, resumed it goes on from its checkpoint"""
    training = train("pausing")
    reached = training.wait_step(3)["training"]["step"]
    training.patch({"suspend": True})
    training.wait_phase("Suspended")
    training.wait_gone()
    training.patch({"suspend": False})
    status = training.wait_phase("Succeeded")
    assert [a["outcome"] for a in status["attempts"]] == ["Suspended", "Succeeded"]
    assert status["failures"] == 0
    steps = training.steps_done()
    again = [number for number in steps if steps.count(number) > 1]
    assert len(again) <= 2, f"steps {again} of {steps} were done twice, with a checkpoint every 2 and {reached} reached"
    assert steps[-1] == STEPS


@pytest.mark.parametrize("moment", ["Provisioning", "Starting", "Running"])
def test_delete(train: Callable[..., Training], moment: str) -> None:
    """Deleted at any moment, nothing of it is left"""
    training = train("short-lived")
    training.wait_phase(moment)
    training.delete()
    training.wait_gone()
    for resource in ("serviceaccounts", "roles.rbac.authorization.k8s.io"):
        assert not training.namespace.find(resource, labels="splitppo.io/job=short-lived")


def test_operator_restarted_and_upgraded(train: Callable[..., Training], site: Site) -> None:
    """The operator is killed, then upgraded during a training, which does not notice"""
    training = train("steady")
    training.wait_step(2)
    uids = sorted(pod["metadata"]["uid"] for pod in training.pods())
    for pod in site.release.pods():
        site.cluster.api.delete(
            "pods", pod["metadata"]["name"], namespace=site.release.namespace, options={"gracePeriodSeconds": 0}
        )
    site.release.upgrade(CHART, {**values(), "podAnnotations": {"example.org/changed": "yes"}}, "--wait")
    assert sorted(pod["metadata"]["uid"] for pod in training.pods()) == uids
    status = training.wait_phase("Succeeded")
    assert [a["outcome"] for a in status["attempts"]] == ["Succeeded"]
    assert training.steps_done() == list(range(1, STEPS + 1))
