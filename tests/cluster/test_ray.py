"""The proof the test bed exists for: KubeRay makes real Ray pods, one pool on each of two real nodes."""

import json

from testbed.api import Manifest, ready
from testbed.cluster import RAY_VERSION, Namespace

POOLS = ("actor", "critic")
# Asks Ray itself, from inside the head: which custom resources are on which address.
WHERE = (
    "import json, ray; ray.init(address='auto', logging_level='ERROR');"
    "print(json.dumps({n['NodeManagerAddress']: n['Resources'] for n in ray.nodes() if n['Alive']}))"
)


def ray_cluster(namespace: Namespace, nodes: dict[str, str]) -> Manifest:
    """A head and one worker group per pool, each pinned to a node and with a GPU of its own."""

    def template(node: str, **limits: str) -> Manifest:
        pinned = {"kubernetes.io/hostname": node}
        return namespace.ray_template(limits=limits, node_selector=pinned)

    params = {"object-store-memory": "100000000"}
    head = {"rayStartParams": {**params, "include-dashboard": "false"}, "template": template(nodes["actor"])}
    workers = [
        {
            "groupName": pool,
            "replicas": 1,
            "resources": {f"{pool}_pool": "1", "CPU": "1", "GPU": "1"},
            "rayStartParams": params,
            "template": template(nodes[pool], **{"nvidia.com/gpu": "1"}),
        }
        for pool in POOLS
    ]
    spec = {"rayVersion": RAY_VERSION, "headGroupSpec": head | {"resources": {"CPU": "0"}}, "workerGroupSpecs": workers}
    return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": {"name": "split"}, "spec": spec}


def pod_of(namespace: Namespace, group: str) -> Manifest:
    [pod] = namespace.find("pods", labels=f"ray.io/cluster=split,ray.io/group={group}")
    return pod


def pools_by_address(namespace: Namespace) -> dict[str, set[str]]:
    """What Ray says: each pool's resource, and the addresses of the living nodes that have it."""
    head = pod_of(namespace, "headgroup")["metadata"]["name"]
    answer = json.loads(namespace.exec(head, "python3", "-c", WHERE).splitlines()[-1])
    return {
        pool: {
            address for address, resources in answer.items() if f"{pool}_pool" in resources and resources["GPU"] == 1
        }
        for pool in POOLS
    }


def test_two_pools_on_two_real_nodes(real_namespace: Namespace) -> None:
    nodes = dict(zip(POOLS, real_namespace.cluster.real_nodes(), strict=False))
    real_namespace.apply(ray_cluster(real_namespace, nodes))
    real_namespace.wait(
        "rayclusters.ray.io",
        "split",
        lambda it: (
            it.get("status", {}).get("state") == "ready" and it["status"].get("readyWorkerReplicas") == len(POOLS)
        ),
        within=400,
        what="head and both pools to be ready",
    )
    pods = {pool: pod_of(real_namespace, pool) for pool in POOLS}
    assert {pool: pod["spec"]["nodeName"] for pool, pod in pods.items()} == nodes
    addresses = {pool: {pod["status"]["podIP"]} for pool, pod in pods.items()}
    assert pools_by_address(real_namespace) == addresses

    lost = pods["critic"]["metadata"]
    real_namespace.api.delete("pods", lost["name"], namespace=real_namespace.name)
    [new] = real_namespace.wait_all(
        "pods",
        lambda found: len(found) == 1 and found[0]["metadata"]["uid"] != lost["uid"] and ready(found[0]),
        labels="ray.io/cluster=split,ray.io/group=critic",
        within=300,
        what="a new critic pod to be Ready",
    )
    assert new["spec"]["nodeName"] == nodes["critic"]
    assert new["status"]["podIP"] in pools_by_address(real_namespace)["critic"]
