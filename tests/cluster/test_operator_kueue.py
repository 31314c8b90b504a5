"""A job in a real Kueue: it waits with Kueue's reason, loses its GPUs to a more important one, and comes back."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cluster.operators import JOBS, install_crd, phase, running_operator, small_job
from testbed import kueue, needs
from testbed.api import Manifest
from testbed.cluster import Namespace
from testbed.local import LocalCluster
from testbed.node import NodeSpec

pytestmark = [pytest.mark.slow, pytest.mark.nodes]
UNTIL_TOLD = 'while not pathlib.Path("/tmp/go").exists(): time.sleep(0.2)'


@pytest.fixture(scope="module")
def queued(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Namespace]:
    """A namespace with a way into a quota of two GPUs, and the operator."""
    if reason := needs.reason_against(nodes=True):
        pytest.skip(reason)
    with LocalCluster.start(nodes=[NodeSpec(gpus=4)]) as cluster:
        cluster.install_kueue(gpus=2)
        namespace = cluster.make_namespace("queued")
        queue = kueue.local_queue() | {"metadata": {"name": kueue.QUEUE, "namespace": "queued"}}
        kueue.apply_once_admitted(cluster, [queue])
        for name, value in (("low", 1), ("high", 1000)):
            priority = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
            cluster.api.apply({**priority, "value": value})
        install_crd(cluster)
        with running_operator(cluster, tmp_path_factory.mktemp("operator") / "log"):
            yield namespace


def queued_job(namespace: Namespace, name: str, priority: str) -> tuple[Manifest, Manifest]:
    """One GPU for each pool, so that two jobs never fit the quota together."""
    gpu = {"name": "ray", "resources": {"limits": {"nvidia.com/gpu": "1"}, "requests": {"nvidia.com/gpu": "1"}}}
    template: dict[str, Any] = {"spec": {"terminationGracePeriodSeconds": 2, "containers": [gpu]}}
    pools = {pool: {"gpusPerNode": 1, "podTemplate": template} for pool in ("actor", "critic")}
    scheduling = {"queueName": kueue.QUEUE, "priorityClassName": priority}
    return small_job(namespace, UNTIL_TOLD, name=name, spec={"placement": {"pools": pools}, "scheduling": scheduling})


def wait_for(namespace: Namespace, name: str, **wanted: str) -> Manifest:
    def there(job: Manifest) -> bool:
        assert phase(job) != "Failed", job["status"]
        return all(job.get("status", {}).get(key) == value for key, value in wanted.items())

    return namespace.wait(JOBS, name, there, within=300, what=f"{name} to be {wanted}")


def tell(namespace: Namespace, name: str) -> None:
    [head] = namespace.find("pods", labels=f"ray.io/node-type=head,splitppo.io/job={name}")
    namespace.exec(head["metadata"]["name"], "touch", "/tmp/go")


def test_waits_is_preempted_and_comes_back(queued: Namespace, tmp_path: Path) -> None:
    queued.apply(*queued_job(queued, "patient", "low"))
    wait_for(queued, "patient", phase="Running")

    queued.apply(*queued_job(queued, "waiting", "low"))
    waiting = wait_for(queued, "waiting", phase="Pending", reason="Queued")
    queued.wait(
        JOBS,
        "waiting",
        lambda j: "insufficient" in j["status"]["message"],
        within=60,
        what=f"Kueue's reason instead of {waiting['status']['message']!r}",
    )
    queued.delete(JOBS, "waiting")

    queued.apply(*queued_job(queued, "urgent", "high"))
    wait_for(queued, "urgent", phase="Running")
    lost = queued.get(JOBS, "patient")["status"]
    assert lost["phase"] == "Pending"
    assert lost["failures"] == 0
    assert lost["attempts"][0]["outcome"] == "Preempted"

    tell(queued, "urgent")
    wait_for(queued, "urgent", phase="Succeeded")
    wait_for(queued, "patient", phase="Running")
    tell(queued, "patient")
    done = wait_for(queued, "patient", phase="Succeeded")["status"]
    assert [a["outcome"] for a in done["attempts"]] == ["Preempted", "Succeeded"]
    assert done["failures"] == 0
