"""Scale without machines: a hundred nodes that exist only in the API, with a real scheduler and a real KubeRay."""

from collections import Counter

from testbed.addons import FAKE, FakeNodes
from testbed.api import Manifest, condition
from testbed.cluster import Cluster, Namespace

CLUSTERS = 50
TOLERATED = {"key": FAKE, "operator": "Exists"}


def ray_cluster(namespace: Namespace, name: str) -> Manifest:
    """Half a node's GPUs for the actor, the other half for the critic: 50 of these fill 50 nodes' worth of GPUs."""

    def group(gpus: int) -> Manifest:
        limits = {"nvidia.com/gpu": str(gpus)} if gpus else None
        template = namespace.ray_template(limits=limits, node_selector={"type": "fake"}, tolerations=(TOLERATED,))
        return {"rayStartParams": {}, "template": template}

    workers = [{**group(4), "groupName": pool, "replicas": 1} for pool in ("actor", "critic")]
    spec = {"rayVersion": "2.58.0", "headGroupSpec": group(0), "workerGroupSpecs": workers}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": name}, "spec": spec}


def test_a_hundred_fake_nodes_take_fifty_ray_clusters(fake_nodes: Cluster, namespace: Namespace) -> None:
    assert len(fake_nodes.api.find("nodes", labels="type=fake")) == 100
    for number in range(CLUSTERS):
        namespace.apply(ray_cluster(namespace, f"run-{number}"))
    namespace.wait_all(
        "rayclusters.ray.io",
        lambda all: sum(one.get("status", {}).get("state") == "ready" for one in all) == CLUSTERS,
        within=400,
        what=f"{CLUSTERS} RayClusters to be ready",
    )
    pods = namespace.find("pods")
    assert len(pods) == 3 * CLUSTERS
    assert all(condition(pod, "Ready") == "True" for pod in pods)
    used: Counter[str] = Counter()
    for pod in pods:
        limits = pod["spec"]["containers"][0]["resources"].get("limits", {})
        used[pod["spec"]["nodeName"]] += int(limits.get("nvidia.com/gpu", 0))
    assert sum(used.values()) == 8 * CLUSTERS
    assert max(used.values()) <= 8, "the scheduler gave a node more GPUs than it has"


def test_fake_nodes_are_as_asked_for(fake_nodes: Cluster) -> None:
    taint = {"key": "reserved", "value": "research", "effect": "NoSchedule"}
    wanted = FakeNodes(2, gpus=3, prefix="special", labels={"gpu-model": "a100"}, taints=(taint,))
    fake_nodes.add_fake_nodes(wanted)  # type: ignore[attr-defined]
    found = fake_nodes.api.find("nodes", labels="gpu-model=a100")
    assert [node["status"]["allocatable"]["nvidia.com/gpu"] for node in found] == ["3", "3"]
    assert all(taint in node["spec"]["taints"] for node in found)
    for node in found:
        fake_nodes.api.delete("nodes", node["metadata"]["name"])
