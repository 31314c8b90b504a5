"""The end: the operator goes, trainings stay; the cluster goes, nothing stays."""

from collections.abc import Callable

from cluster.charts import CHART
from e2e.conftest import Site, values
from e2e.training import STEPS, Training
from testbed.cluster import Namespace


def test_uninstall(train: Callable[..., Training], site: Site) -> None:
    """`helm uninstall` leaves a running training alone; installed again, the operator takes it up where it is"""
    training = train("orphan")
    training.wait_step(2)
    uids = sorted(pod["metadata"]["uid"] for pod in training.pods())
    site.release.helm("uninstall", site.release.name, "--wait")
    system = Namespace(site.cluster, site.release.namespace)
    system.wait_all("pods", lambda pods: not pods, within=60, what="the operator's pods to go")
    assert site.release.left() == []
    training.wait(lambda s: s["training"]["step"] == STEPS, what="all steps, without an operator")
    assert sorted(pod["metadata"]["uid"] for pod in training.pods()) == uids
    site.release.install(CHART, values(), "--wait", "--timeout", "5m")
    status = training.wait_phase("Succeeded")
    assert [a["outcome"] for a in status["attempts"]] == ["Succeeded"]
    training.wait_gone()


def test_nothing_is_left(site: Site) -> None:
    """At the end nothing is left on the machine"""
    site.close()
    assert site.left_behind() == {}
