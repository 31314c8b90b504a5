"""A real Kueue, its webhooks in a pod: RayClusters wait for GPUs in its queue and start when some are free."""

from collections.abc import Iterator

import pytest

from cluster.test_ray import ray_cluster
from testbed import kueue, needs
from testbed.api import Manifest, condition
from testbed.cluster import Namespace
from testbed.local import LocalCluster
from testbed.node import NodeSpec

pytestmark = [pytest.mark.slow, pytest.mark.nodes]
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"


@pytest.fixture(scope="module")
def queued() -> Iterator[Namespace]:
    """A namespace with a way into a quota of two GPUs, on one node that has four."""
    if reason := needs.reason_against(nodes=True):
        pytest.skip(reason)
    with LocalCluster.start(nodes=[NodeSpec(gpus=4)]) as cluster:
        cluster.install_kueue(gpus=2)
        namespace = cluster.make_namespace("queued")
        kueue.apply_once_admitted(
            cluster, [kueue.local_queue() | {"metadata": {"name": kueue.QUEUE, "namespace": "queued"}}]
        )
        yield namespace


def asking_for_two_gpus(namespace: Namespace, name: str) -> Manifest:
    """A RayCluster as a person would submit it to the queue; Kueue's webhook suspends it before it exists."""
    made = ray_cluster(namespace, dict.fromkeys(("actor", "critic"), "node-1"))
    made["metadata"] = {"name": name, "labels": {QUEUE_LABEL: kueue.QUEUE}}
    return made


def test_the_second_waits_until_the_first_gives_its_gpus_back(queued: Namespace) -> None:
    queued.apply(asking_for_two_gpus(queued, "first"))
    admitted = queued.wait("rayclusters.ray.io", "first", lambda it: it["spec"].get("suspend") is False, within=120)
    assert admitted["metadata"]["labels"][QUEUE_LABEL] == kueue.QUEUE
    queued.wait_all("pods", lambda pods: len(pods) == 3, within=120, labels="ray.io/cluster=first")

    [second] = queued.apply(asking_for_two_gpus(queued, "second"))
    assert second["spec"]["suspend"] is True, "the webhook has not seen it"
    queued.wait_all(
        "workloads.kueue.x-k8s.io",
        lambda all: any("second" in it["metadata"]["name"] and condition(it, "QuotaReserved") == "False" for it in all),
        within=120,
        what="the second to be refused for now",
    )
    assert queued.find("pods", labels="ray.io/cluster=second") == []

    queued.delete("rayclusters.ray.io", "first")
    queued.wait("rayclusters.ray.io", "second", lambda it: it["spec"].get("suspend") is False, within=120)


def test_its_webhook_refuses_nonsense(queued: Namespace) -> None:
    with pytest.raises(RuntimeError, match=r"admission webhook .* denied the request: .*nominalQuota"):
        queued.cluster.kubectl(
            *("create", "--filename", "-"),
            stdin=f"""
            apiVersion: {kueue.API}
            kind: ClusterQueue
            metadata: {{name: nonsense}}
            spec:
              resourceGroups:
              - coveredResources: [cpu]
                flavors: [{{name: default, resources: [{{name: cpu, nominalQuota: -1}}]}}]
            """,
        )
